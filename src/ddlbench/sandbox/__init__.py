"""The private namespaces in which hosts are emulated. They need no root, and nothing of them outlives their owner."""
