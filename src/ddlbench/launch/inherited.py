"""The environment variables that a job keeps of the process that writes it: those that somebody reads, and no other.

A job is a file that all users of the machine can read, and among the other variables there may be passwords.
"""

import os

from ddlbench.containers import apptainer, docker
from ddlbench.launch import bare

READ = {*bare.OF_WORKERS, *apptainer.OF_THE_PROGRAM, *docker.OF_ITS_CLIENT}


def inherited_variables() -> dict[str, str]:
    """Choose the environment variables of this process that workers and the programs of their runtimes read.

    Returns:
        Values by name.
    """
    return {name: value for name, value in os.environ.items() if name in READ}
