"""Measurements of distributed deep learning that can be believed."""

__version__ = "0.1.0"
