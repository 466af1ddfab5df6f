"""Starting the processes of a worker group, and the control sockets over which they get commands."""
