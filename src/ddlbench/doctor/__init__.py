"""What this machine has of all that figures may need, and which figures can be made with it."""
