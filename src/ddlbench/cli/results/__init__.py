"""Commands about what was measured: where it comes from, whether it still matches, what it says."""
