"""The operating system: system calls, processes, namespaces, clocks, and how GPUs are shared."""
