"""Torture: what goes wrong at random, by a seed, and what of it is noticed, told and mended."""
