"""Workers that train with PyTorch."""
