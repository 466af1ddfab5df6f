"""Functions of `inside` in sandboxes of their own, below this machine's kernel or another one."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ddlbench.containers.podman import user_namespace
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.protocol.codec import read
from ddlbench.sandbox.sandbox import run_sandboxed
from tests.support.repository import REPOSITORY
from tests.support.uml import Kernel

PYTHONPATH = f"{REPOSITORY / 'tests/integration'}:{REPOSITORY / 'src'}"
BACKENDS = ("tbf+nfqueue", "tbf+netem")


def run_inside(folder: Path, function: str, *, kernel: Kernel | None = None, **arguments: Any) -> Any:
    """Run a function of `inside` in a sandbox of its own, in `folder`; gives back what it gives back.

    kernel: User-Mode Linux, instead of this machine's kernel.
    """
    (folder / f"{function}.json").write_text(json.dumps(arguments))
    command = [function, f"{function}.json", "answer.json"]
    if kernel:
        status = kernel.run(command, folder)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("PYTHONPATH", PYTHONPATH, prepend=":")
            described = arguments.get("environments", {})
            within = user_namespace({name: environment_of(each) for name, each in described.items()})
            status = run_sandboxed("inside", command, within=within)
    assert status == 0, f"{function} ended with status {status}{kernel.said() if kernel else ''}"
    return json.loads((folder / "answer.json").read_text())


def environment_of(description: dict[str, Any]) -> RuntimeEnvironment:
    """The environment or image that a description is of."""
    return read(RuntimeEnvironment, description, ignore_unknown=True)


@cache
def backends_here() -> list[str]:
    """The ways to make a link that this kernel has."""
    with TemporaryDirectory(prefix="backends-") as folder:
        found: list[str] = run_inside(Path(folder), "backends")
    return found
