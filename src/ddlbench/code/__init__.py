"""Which code of ours decides a result, and whether two versions of that code have the same content."""
