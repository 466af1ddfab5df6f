"""An environment that could not be made says why, in full and in one line, and is tried again."""

import json
import sys
from pathlib import Path

import pytest

from ddlbench.environments.failed_environments import (
    could_not_be_made,
    create_or_record,
    failure_of,
    failures,
    has_lost_its_interpreter,
    read_description,
    record_failure,
)
from ddlbench.errors import DdlbenchError

pytestmark = pytest.mark.unit

HEAD = "environment x could not be made: it ended with status 1:\n  "


@pytest.mark.parametrize(
    ("failure", "gist"),
    [
        ("lock.txt: there are no such requirements", "lock.txt: there are no such requirements"),
        (
            HEAD + "ERROR: Could not find a version\n  ERROR: No matching distribution found for a==0",
            "No matching distribution found for a==0",
        ),
        (
            "horovod could not be made: it ended with status -9 after 9 s, which is too long:\n  cc1plus",
            "horovod could not be made: it ended with status -9 after 9 s, which is too long",
        ),
        (
            HEAD + "Traceback (most recent call last):\n  ImportError: libgfortran.so.4: no such file",
            "ImportError: libgfortran.so.4: no such file",
        ),
        (
            HEAD + "a.cc:1:9: fatal error: Python.h: No such file\n  make: *** [all] Error 2\n"
            "  error: subprocess-exited-with-error\n  ERROR: Failed to build one or more wheels",
            "a.cc:1:9: fatal error: Python.h: No such file",
        ),
        (
            HEAD + "ValueError: no\n  error: subprocess-exited-with-error\n  ERROR: Failed to build wheels",
            "ValueError: no",
        ),
    ],
    ids=["missing lock", "pip", "time-out", "import", "compiler", "build script"],
)
def test_the_line_that_says_most_names_the_cause(tmp_path: Path, failure: str, gist: str) -> None:
    stamp = tmp_path / "environment.json"
    stamp.write_text(json.dumps({"name": "x", "failure": failure}))
    assert failure_of(stamp) == f"no x environment: {gist}"


@pytest.mark.parametrize(
    ("runtime", "kind"), [("docker", "image for Docker"), ("apptainer", "image for Apptainer")]
)
def test_an_image_that_could_not_be_made_is_named_as_one(tmp_path: Path, runtime: str, kind: str) -> None:
    stamp = tmp_path / ".images" / "x" / f"{runtime}.json"
    record_failure(stamp, runtime, "no engine")
    assert failure_of(stamp) == f"no x {kind}: no engine"
    assert failures(tmp_path) == {stamp: "no engine"}


def test_a_failure_is_recorded_told_to_who_needs_the_environment_and_tried_again(tmp_path: Path) -> None:
    stamp = tmp_path / ".environments" / "mxnet" / "environment.json"
    failure = create_or_record(tmp_path / "nowhere.txt", stamp.parent, imports=["mxnet"])
    assert failures(tmp_path) == {stamp: failure}
    with pytest.raises(DdlbenchError, match=r"nowhere\.txt: there are no such requirements"):
        read_description(stamp)
    assert could_not_be_made(stamp)


def test_an_environment_whose_interpreter_is_gone_has_lost_it_and_an_image_has_none_here(
    tmp_path: Path,
) -> None:
    stamp, python = tmp_path / "environment.json", tmp_path / "bin/python"
    stamp.write_text(json.dumps({"runtime": "bare", "python": str(python)}))
    assert has_lost_its_interpreter(stamp)
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    assert not has_lost_its_interpreter(stamp)
    python.unlink()
    python.symlink_to(tmp_path / "python-of-before-the-upgrade")
    assert has_lost_its_interpreter(stamp)
    stamp.write_text(json.dumps({"runtime": "docker", "python": "/opt/ddlbench/bin/python"}))
    assert not has_lost_its_interpreter(stamp)


def test_only_what_is_described_is_there(tmp_path: Path) -> None:
    for name, text in {"good": '{"name": "good", "python": "p"}', "damaged": "{"}.items():
        (tmp_path / ".environments" / name).mkdir(parents=True)
        (tmp_path / ".environments" / name / "environment.json").write_text(text)
    assert not could_not_be_made(tmp_path / ".environments" / "good" / "environment.json")
    assert read_description(tmp_path / ".environments" / "good" / "environment.json")["python"] == "p"
    assert failure_of(tmp_path / ".environments" / "good" / "environment.json") is None
    assert could_not_be_made(tmp_path / ".environments" / "damaged" / "environment.json")
