"""The private namespaces in which hosts are emulated; they need no root and die as a whole."""
