"""Workers that train with MXNet."""
