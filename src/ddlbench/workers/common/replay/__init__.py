"""What workers share whose compute is replayed, in whatever framework."""
