"""Container images for Docker and Apptainer: how they are built, and the command lines that start containers."""
