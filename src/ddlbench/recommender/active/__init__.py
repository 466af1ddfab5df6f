"""Measuring for a choice: which options a question has, which one to measure next, and when to stop."""
