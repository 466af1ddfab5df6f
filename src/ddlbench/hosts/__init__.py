"""A worker group on its hosts: emulated hosts, this machine's loopback, or the nodes of an allocation."""
