"""What tests and benchmarks share: a SLURM cluster, container engines, another kernel, small studies, sandboxes."""
