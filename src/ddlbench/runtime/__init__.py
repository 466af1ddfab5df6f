"""Launching: sandboxes, worker groups, environments, and the sweep that measures what is not measured yet."""
