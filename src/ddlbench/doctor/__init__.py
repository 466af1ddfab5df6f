"""What this machine has of all that figures may need, and which figures can therefore be made on it."""
