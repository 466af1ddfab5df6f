"""Many sockets and files: more than the numbers that `select` knows, and than a process may open by default."""

import fcntl
import resource
import socket
import subprocess
import sys
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from ddlbench.network.traffic import watching

ABOVE_SELECT = 1024
LIMITED = """
import resource
from ddlbench.system.processes import allow_descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
allow_descriptors()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_sockets_are_watched_whatever_the_numbers_of_their_descriptors():
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] <= ABOVE_SELECT:
        pytest.skip("this user may not open so many files")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, ABOVE_SELECT + 100), hard))
    try:
        one, other = socket.socketpair()
        with one, other, socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD, ABOVE_SELECT)) as high:
            with watching([high], EVENT_READ) as ready:
                assert ready(0.0) == []
                other.send(b"a")
                assert ready(30.0) == [high]
            with watching([high], EVENT_WRITE) as ready:
                assert ready(30.0) == [high]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_may_open_as_many_files_as_it_is_allowed_to_allow_itself():
    found = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["300", "300"]
