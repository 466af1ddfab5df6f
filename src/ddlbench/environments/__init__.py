"""The frameworks' virtual environments: locked requirements, wheels built from source, and records of failures."""
