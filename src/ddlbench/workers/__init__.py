"""What runs inside a framework's environment; it imports the standard library and that framework alone."""
