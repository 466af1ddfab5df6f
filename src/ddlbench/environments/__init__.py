"""The frameworks' virtual environments: locked requirements, wheels built from source, failures kept."""
