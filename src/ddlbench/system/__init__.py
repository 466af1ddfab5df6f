"""The operating system: system calls, processes, namespaces, clocks, files from outside, and how GPUs are shared."""
