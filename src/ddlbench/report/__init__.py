"""All results of a configuration for somebody elsewhere: one page that opens offline, and an archive that proves it."""
