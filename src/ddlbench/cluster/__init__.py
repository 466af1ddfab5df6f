"""SLURM: partitions, allocations, and the node agent on each node."""
