"""Tests, and below `support` what they share with one another and with the benchmarks."""
