"""What the workers of every framework share."""
