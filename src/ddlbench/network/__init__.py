"""What connects the workers: links, emulated hosts and the probes that check them."""
