"""What connects the workers: links, emulated hosts, and the checks of both."""
