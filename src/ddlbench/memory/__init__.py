"""How much memory a point needs, and which points a host cannot hold."""
