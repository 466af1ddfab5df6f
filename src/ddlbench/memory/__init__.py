"""Which points a host cannot hold."""
