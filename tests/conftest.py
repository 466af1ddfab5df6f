"""All tests: their fixtures, which of them run here, and which run together."""

import compileall
import gc
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ddlbench.system.processes import die_with_parent

# A busy machine may take its time to make an example.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    """Each of several processes of a test run ends with the one that started it.

    A shell makes its background jobs ignore Ctrl-C, and so what they start: what tests interrupt must hear it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        die_with_parent()
    else:  # once for the processes of copies of the repository, which write no compiled modules
        compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=1)


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: no collection of garbage looks at all of it again."""
    gc.freeze()


pytest.register_assert_rewrite("tests.support")
pytest_plugins = [
    f"tests.support.{name}"
    for name in ("selection", "scheduling", "fixtures", "on_cluster", "scripted_group")
]
