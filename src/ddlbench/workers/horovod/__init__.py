"""Workers that train with Horovod, on PyTorch or TensorFlow."""
