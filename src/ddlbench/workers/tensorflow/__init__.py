"""Workers that train with TensorFlow."""
