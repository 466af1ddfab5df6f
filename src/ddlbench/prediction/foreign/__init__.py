"""Tables of others: read, checked row by row, and written with documented columns."""
