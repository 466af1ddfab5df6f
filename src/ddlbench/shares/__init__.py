"""Hosts that share a core: how it is divided, how they are held to their shares of it, and whether that holds."""
