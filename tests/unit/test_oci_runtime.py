"""The OCI runtime that has containers join the namespaces of an emulated host."""

import copy
import json
import os
import subprocess
from pathlib import Path

WRAPPER = Path(__file__).parents[2] / "containers/oci_runtime.py"
SPEC = {
    "process": {"env": ["PATH=/bin", "EMPTY="], "args": ["true"]},
    "linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": "/own"}, {"type": "mount"}]},
}


def created(folder: Path, variables: list[str], *words: str) -> tuple[dict, list[str]]:
    """What becomes of a container's specification, and how runc, which is a script here, is called."""
    spec = copy.deepcopy(SPEC)
    spec["process"]["env"] += variables
    (folder / "config.json").write_text(json.dumps(spec))
    runc = folder / "runc"
    runc.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/called\n')
    runc.chmod(0o755)
    command = [WRAPPER, *words, "--bundle", folder, "an-id"]
    subprocess.run(command, env={"PATH": f"{folder}:{os.environ['PATH']}"}, check=True, timeout=800)
    return json.loads((folder / "config.json").read_text()), (folder / "called").read_text().split()


def test_a_container_joins_the_namespaces_that_it_names(tmp_path):
    joined = [
        "DDLBENCH_NETWORK_NAMESPACE=/proc/7/fd/8",
        "DDLBENCH_PROCESS_NAMESPACE=/proc/7/ns/pid",
    ]
    spec, called = created(tmp_path, joined, "--root", "/r", "create")
    assert spec["linux"]["namespaces"] == [
        {"type": "mount"},
        {"type": "network", "path": "/proc/7/fd/8"},
        {"type": "pid", "path": "/proc/7/ns/pid"},
    ]
    assert called == ["--root", "/r", "create", "--bundle", str(tmp_path), "an-id"]


def test_any_other_container_is_what_runc_makes_of_it(tmp_path):
    spec, _ = created(tmp_path, [], "create")
    assert spec == SPEC


def test_only_the_creation_of_a_container_changes_anything(tmp_path):
    variables = ["DDLBENCH_NETWORK_NAMESPACE=/proc/7/fd/8"]
    spec, called = created(tmp_path, variables, "start")
    assert spec["linux"] == SPEC["linux"]
    assert called[0] == "start"
