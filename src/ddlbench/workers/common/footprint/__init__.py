"""How much memory a process of a worker group takes, predicted from its model."""
