"""`ddlbench serve` as a process, in a folder of its own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from ddlbench.system.processes import die_with_parent

PATIENCE_S = 800  # with a busy machine
PATIENT = ("--rate", "10000", "--timeout", "250")  # a busy machine takes its time to learn
MOST_S = 300
# anwar2021's printed rows (table 4), and three of its published table (github.com/iamhassaan/Thesis_API), of which its
# text says that three machines are 4.2 % ahead of four and 31 % ahead of two.
ANWAR = """workers,batch_size,latency_ms,time_per_epoch
4,64000,0,419
4,32000,0,220
4,6400,0,57
3,64000,0,503
3,32000,0,265
2,6400,20,90
2,2560,20,41
1,6400,0,96
1,2560,0,39
3,64000,20,524
4,64000,20,547
2,64000,20,761
"""
CSV = {"Content-Type": "text/csv"}


@dataclass
class Served:
    """A server that runs, its address, and what it has logged."""

    folder: Path
    process: "subprocess.Popen[bytes]"
    url: str
    log: Path
    headers: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, content: Any = None, **options: Any) -> requests.Response:
        return requests.post(
            f"{self.url}{path}", json=content, timeout=MOST_S, headers=self.headers, **options
        )

    def get(self, path: str, **options: Any) -> requests.Response:
        return requests.get(f"{self.url}{path}", timeout=MOST_S, headers=self.headers, **options)

    def import_table(self, name: str, text: str | bytes, **query: Any) -> requests.Response:
        body = text.encode() if isinstance(text, str) else text
        address, query = f"{self.url}import", {"name": name, **query}
        return requests.post(address, params=query, data=body, timeout=MOST_S, headers=self.headers | CSV)

    def end(self, signal_number: int) -> int:
        self.process.send_signal(signal_number)
        return self.process.wait(timeout=PATIENCE_S)


@contextmanager
def served(folder: Path, *arguments: str, variables: dict[str, str] | None = None) -> Iterator[Served]:
    """The server, on a port that is free, until the end of the `with`."""
    log = folder / "served.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ddlbench.cli", "serve", "--port", "0", *PATIENT, *arguments],
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )
        guard = threading.Timer(PATIENCE_S, process.kill)
        guard.start()
        try:
            address = _address(process)
            guard.cancel()
            yield Served(folder, process, address, log)
        finally:
            guard.cancel()
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]") -> str:
    """What its first line says; from then on connections wait until it answers."""
    assert process.stderr
    lines = []
    for line in process.stderr:
        lines.append(line.decode())
        if found := re.search(r"http://\S+/", lines[-1]):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found[0]
    raise AssertionError("".join(lines))
