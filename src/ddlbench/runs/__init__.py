"""Runs: what the store lacks of their points, where these are placed, and the session that measures them."""
