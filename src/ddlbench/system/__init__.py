"""What the kernel is asked for: processes, namespaces, clocks, GPUs' shares."""
