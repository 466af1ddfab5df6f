"""Which Python locked requirements are installed with."""

import sys
from pathlib import Path

import pytest

from ddlbench.environments import locked
from ddlbench.environments.locked import find_interpreter, interpreter_for
from ddlbench.errors import DdlbenchError

pytestmark = pytest.mark.unit

OURS = "{}.{}".format(*sys.version_info)


@pytest.fixture
def no_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose distribution has no Python; gives where it would lie."""
    monkeypatch.setattr(locked, "_OF_THE_DISTRIBUTION", str(tmp_path / "python{}"))
    return tmp_path


def lock(folder: Path, text: str) -> Path:
    (folder / "lock.txt").write_text(text)
    return folder / "lock.txt"


def test_the_distributions_python_comes_before_ours(no_distribution: Path) -> None:
    (no_distribution / f"python{OURS}").symlink_to(sys.executable)
    assert find_interpreter(OURS) == str(no_distribution / f"python{OURS}")


def test_a_python_of_the_distribution_that_makes_no_environments_is_passed_over(
    no_distribution: Path,
) -> None:
    (no_distribution / f"python{OURS}").symlink_to("/bin/false")
    assert find_interpreter(OURS) == sys.executable


def test_requirements_that_name_no_python_are_content_with_ours(
    no_distribution: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert interpreter_for(lock(no_distribution, ""), "environment x") == sys.executable


def test_requirements_that_name_a_python_that_is_not_here_say_so(no_distribution: Path) -> None:
    with pytest.raises(
        DdlbenchError, match=r"environment x needs Python 2\.9; .* there is no python2\.9 here"
    ):
        interpreter_for(lock(no_distribution, "# python: 2.9\n"), "environment x")
