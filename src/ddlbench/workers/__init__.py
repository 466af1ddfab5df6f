"""What runs inside a framework's environment. Nothing here imports more than the standard library and that framework."""
