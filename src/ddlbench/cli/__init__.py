"""The command `ddlbench`: one module for each sub-command; `main` holds the parser.

A command imports what it needs when it runs, so that `ddlbench --help` is fast.
"""
