"""What each host does while it is measured: processors, memory, network counters, GPUs."""
