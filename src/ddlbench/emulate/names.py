"""The names of the hosts, `h1` and so on, which programs find in /etc/hosts: there is no name server."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host

_FILE = Path("/etc/hosts")


def name_hosts(hosts: Sequence[Host], folder: Path) -> None:
    """Give every process of the sandbox a file of names that has the hosts too; that of the machine stays as it is.

    Args:
        hosts: with their names and addresses.
        folder: for the file.

    Raises:
        DdlbenchError: the kernel refuses.
    """
    if not _FILE.exists():
        return
    file = folder / "hosts"
    lines = [f"{host.address}\t{host.name}" for host in hosts]
    file.write_text("\n".join([*lines, _FILE.read_text(errors="replace")]))
    answer = subprocess.run(["mount", "--bind", str(file), str(_FILE)], capture_output=True, text=True)
    if answer.returncode:
        raise DdlbenchError(f"the hosts cannot be named in {_FILE}: {answer.stderr.strip()}")
