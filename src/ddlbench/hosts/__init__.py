"""Worker groups on their hosts: emulated hosts, this machine's loopback, or the nodes of an allocation."""
