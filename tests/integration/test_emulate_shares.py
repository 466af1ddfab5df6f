"""`ddlbench emulate` on fewer cores than hosts: what the kernel divides a core between."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.emulate_command import EMULATE, LINK, lines_of, run
from tests.support.repository import REPOSITORY

pytestmark = [pytest.mark.needs("sandboxes")]


def test_hosts_that_share_a_core_are_parts_of_it_each_with_a_filler_that_takes_its_turns(
    tmp_path: Path,
) -> None:
    """What a part gets of the core is the kernel's matter, and a benchmark's (core_share)."""
    script = f"""
import json, os, sys
import psutil
sys.path.insert(0, {str(REPOSITORY / "tests/integration")!r})
from inside.parts import part_of_core, part_of_filler
fillers = []
while len(fillers) < 2:  # each has this name once it has had a turn
    fillers = [each.pid for each in psutil.process_iter(["name"]) if each.info["name"] == "ddlbench-filler"]
print(json.dumps([part_of_core(os.getpid()), sorted(map(part_of_filler, fillers))]))
"""
    core = min(os.sched_getaffinity(0))
    argv = ["taskset", "--cpu-list", str(core), *EMULATE, *LINK, "--", sys.executable, "-c", script]
    ended = run(*argv, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "dilated by 2" in ended.stderr
    (one, fillers), (other, seen_by_other) = (
        json.loads(lines_of(host, ended.stdout)[0]) for host in ("h1", "h2")
    )
    assert one != other
    assert sorted([one, other]) == fillers == seen_by_other
