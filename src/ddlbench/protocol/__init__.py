"""What supervisor, node agents, samplers and workers send each other; needs the standard library alone."""
