"""SLURM: partitions, allocations, and our agent on each node."""
