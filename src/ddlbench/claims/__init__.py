"""The papers' claims as tests over measurements: what holds here, what does not, and what cannot be told."""
