"""Snakemake in processes that have imported it before: a test starts it many times, and half of each start is imports.

A server, one for each process of a test run, imports Snakemake and the libraries of planning once, and forks for each
call. It imports nothing of ddlbench: each call has the package of its own folder. Who tests processes, their signals
and ends starts Snakemake as a program instead (`Pipeline.start`).

    python -m tests.support.forked_snakemake      the server: a call as a line of JSON on stdin, its status on stdout
"""

import ctypes
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

REPOSITORY = Path(__file__).parents[2]
LIBRARIES = (  # those that planning imports
    *(
        "snakemake.cli",
        "snakemake.report.html_reporter",
        "snakemake.storage",
        "smart_open",
        "snakemake_executor_plugin_slurm",
        "jsonschema.validators",
        "docker",
        "nbformat",
        "pandas",
    ),
    *("psutil", "pynvml", "pyroute2", "requests", "yaml", "yte"),
)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Call:
    """A call of Snakemake: where it works, with which environment variables, and the files for what it says."""

    folder: str
    arguments: list[str]
    variables: dict[str, str]
    output: str
    errors: str


def forked(
    folder: Path, arguments: list[str], variables: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run Snakemake in `folder` to its end, in a fork of this process's server."""
    with TemporaryDirectory(prefix="ddlbench-said-") as said:
        output, errors = Path(said) / "output", Path(said) / "errors"
        call = Call(str(folder), arguments, dict(variables), str(output), str(errors))
        server = _server()
        assert server.stdin
        assert server.stdout
        print(json.dumps(asdict(call)), file=server.stdin, flush=True)
        if not select.select([server.stdout], [], [], timeout_s)[0]:
            server.kill()
            _server.cache_clear()
            raise subprocess.TimeoutExpired(arguments, timeout_s, errors.read_text())
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, status, output.read_text(), errors.read_text())


@cache
def _server() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        preexec_fn=_die_with_parent,
    )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve() -> None:
    """Fork for each line; returns at the end of the input, and in each fork, with what Snakemake ends with."""
    for library in LIBRARIES:
        import_module(library)
    gc.freeze()  # else each fork, when it ends, looks at all of these and so copies their memory: a third of its time
    for line in sys.stdin:
        if (fork := os.fork()) == 0:
            _die_with_parent()
            _become(Call(**json.loads(line)))
            runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
            return
        _, status = os.waitpid(fork, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(call: Call) -> None:
    """Make this process what `python -m snakemake` would be."""
    ours: Any = [name for name in sys.modules if name.partition(".")[0] == "ddlbench"]
    assert not ours, ours
    os.chdir(call.folder)
    os.environ.clear()
    os.environ.update(call.variables)
    for file, number, flags in (
        (os.devnull, 0, os.O_RDONLY),
        (call.output, 1, os.O_WRONLY | os.O_CREAT),
        (call.errors, 2, os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(file, flags | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.path[0] = call.folder
    sys.path[1:1] = call.variables["PYTHONPATH"].split(":")
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in call.variables
    sys.argv = ["snakemake", *call.arguments]


if __name__ == "__main__":
    _serve()
