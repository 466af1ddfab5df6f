"""Sweeps that are killed in the middle, damaged files, a full disk: what is lost, what is left, how it goes on."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Pipeline, environment, new_pipeline
from remains import alive, eventually, namespaces, processes, the

REPETITIONS = 5
POINTS = 2


@pytest.fixture
def sweep(pipeline: Pipeline) -> Iterator[Pipeline]:
    """A pipeline that is about to measure two points five times; whatever it started is ended afterwards."""
    pipeline.configure({"measure": {"min_repetitions": REPETITIONS, "max_repetitions": REPETITIONS}})
    yield pipeline
    for process in processes(pipeline.root):
        os.kill(process, signal.SIGKILL)


def in_the_middle(sweep: Pipeline) -> "subprocess.Popen[str]":
    """Start the sweep; it has kept three repetitions, and the worker group is busy with the next."""
    started = sweep.start("tiny2000_fig1")
    assert eventually(lambda: len(sweep.measurements()) >= 3 or started.poll() is not None)
    assert started.poll() is None, sweep.said
    return started


@pytest.mark.parametrize(
    ("victim", "names_in_the_message"),
    [
        ("snakemake --profile", None),  # the driver: nobody is left to say anything
        ("measure_run.py", ["measure", "tiny2000-bandwidth-torch-ring-2w"]),
        ("unshare", ["tiny2000-bandwidth-torch-ring-2w", "kept", "Logs:"]),
        ("ddlbench.runtime.session", ["tiny2000-bandwidth-torch-ring-2w", "kept", "Logs:"]),
        (
            "ddlbench.workers.torch_worker /run/ddlbench/control 1",
            ["rank 1 on host h2", "SIGKILL", "mlp, digits, batch 32, 2 workers, ", "repetition", "kept"],
        ),
        ("ddlbench.network.delay", ["the delay process", "mlp, digits, batch 32, 2 workers, ", "kept"]),
    ],
    ids=["driver", "script", "sandbox", "session", "worker", "delay"],
)
def test_a_killed_sweep_loses_only_the_repetition_in_flight(
    sweep: Pipeline, victim: str, names_in_the_message: list[str] | None
) -> None:
    started = in_the_middle(sweep)
    held = namespaces(sweep.root)
    os.kill(the(sweep.root, victim), signal.SIGKILL)
    kept = sweep.measurements()
    assert started.wait(60) != 0

    assert eventually(lambda: not processes(sweep.root)), processes(sweep.root)
    assert {name.partition(":")[0] for name in held} >= {"net", "mnt", "pid"}
    assert eventually(lambda: not alive(held)), alive(held)
    assert "Traceback" not in sweep.said
    if names_in_the_message:
        assert [words for words in names_in_the_message if words not in sweep.said] == [], sweep.said

    after = sweep.measurements()
    assert kept.items() <= after.items()  # the kill may have come just after another one was written
    sweep.run("tiny2000_fig1")
    finished = sweep.measurements()
    assert after.items() <= finished.items()
    assert len(finished) == POINTS * REPETITIONS
    assert sorted(record["repetition"] for record in sweep.records()) == sorted(POINTS * [*range(REPETITIONS)])
