"""How integration tests get into a sandbox."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddlbench.runtime.sandbox import run_sandboxed

Sandbox = Callable[..., Any]


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Run a function of `inside` in a sandbox of its own; gives back what it gives back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")

    def run(function: str, **arguments: Any) -> Any:
        Path("arguments.json").write_text(json.dumps(arguments))
        status = run_sandboxed("inside", [function, "arguments.json", "answer.json"])
        assert status == 0, f"{function} ended with status {status}"
        return json.loads(Path("answer.json").read_text())

    return run
