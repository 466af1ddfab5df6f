"""How a call of Snakemake ends before its work is done: what it says, what it leaves, how it goes on."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest

from benchmarks.torture.kills import torture
from benchmarks.torture.places import FOR_LONG, Place
from ddlbench.system.processes import die_with_parent
from tests.support.pipeline import Pipeline
from tests.support.remains import alive, eventually, namespaces, processes
from tests.support.repository import environment
from tests.support.tiny_study import SLOW_STUDY

REPETITIONS = 40


@pytest.fixture
def sweep(prepared: Pipeline) -> Iterator[Pipeline]:
    """A pipeline that is about to measure for long; whatever it started is ended afterwards."""
    measure = {"min_repetitions": REPETITIONS, "max_repetitions": REPETITIONS}
    prepared.configure({"measure": measure}, SLOW_STUDY)
    yield prepared
    for process in processes(prepared.root):
        os.kill(process, signal.SIGKILL)


def as_in_a_terminal(pipeline: Pipeline, *arguments: str) -> "subprocess.Popen[str]":
    """Start Snakemake as the leader of a process group, all of which a terminal's Ctrl-C goes to."""

    def prepare() -> None:
        die_with_parent()
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

    with (pipeline.root / "said.txt").open("w") as said:
        return subprocess.Popen(
            pipeline.command(*arguments),
            cwd=pipeline.root,
            env=environment(pipeline.root),
            stdout=said,
            stderr=said,
            text=True,
            preexec_fn=prepare,
        )


@pytest.mark.parametrize(
    ("number", "whom", "status", "named"),
    [
        (signal.SIGINT, os.killpg, 130, "Ctrl-C"),
        (signal.SIGINT, os.kill, 130, "Ctrl-C"),
        (signal.SIGTERM, os.kill, 143, "SIGTERM"),
    ],
    ids=["Ctrl-C", "SIGINT", "SIGTERM"],
)
@pytest.mark.long
def test_a_sweep_that_is_asked_to_end_says_one_line_and_leaves_nothing_but_its_measurements(
    sweep, number, whom, status, named
):
    started = as_in_a_terminal(sweep, sweep.manifest("bandwidth"))
    assert eventually(lambda: len(sweep.measurements()) >= 3 or started.poll() is not None)
    assert started.poll() is None, sweep.said
    held = namespaces(sweep.root)
    said = sweep.said
    whom(started.pid, number)
    assert started.wait(300) == status, sweep.said

    assert not processes(sweep.root)
    assert eventually(lambda: not alive(held)), alive(held)
    kept = sweep.measurements()
    new = [
        line for line in sweep.said.removeprefix(said).splitlines() if line and not line.startswith("point ")
    ]
    assert len(new) == 1, sweep.said
    assert new[0].startswith(f"Ended by {named}: ")
    assert f" {len(kept)} new repetitions are kept in results/store. " in f" {new[0]}"
    assert not list((sweep.root / ".snakemake/scripts").glob("*"))

    sweep.configure({"measure": {"min_repetitions": 3, "max_repetitions": 3}}, SLOW_STUDY)
    sweep.run(sweep.manifest("bandwidth"))
    assert kept.items() <= sweep.measurements().items()


@pytest.mark.long
def test_the_next_call_needs_no_unlock_after_a_kill_though_another_one_lives_and_its_profile_locks(sweep):
    """Both calls ask for Snakemake's own locks, as a profile without `nolock` does."""
    locking = ("--workflow-profile", "none", "--cores", "2")
    sweep.configure({"measure": {"min_repetitions": 400, "max_repetitions": 400}}, SLOW_STUDY)
    living = as_in_a_terminal(sweep, sweep.manifest("latency"), *locking)
    assert eventually(lambda: measuring(sweep) == 1 or living.poll() is not None)
    killed = as_in_a_terminal(sweep, sweep.manifest("bandwidth"), *locking)
    assert eventually(lambda: measuring(sweep) == 2 or killed.poll() is not None)
    assert killed.poll() is None, sweep.said
    killed.kill()
    killed.wait()
    assert eventually(lambda: measuring(sweep) == 1)
    again = as_in_a_terminal(sweep, sweep.manifest("bandwidth"), *locking)
    assert eventually(lambda: measuring(sweep) == 2 or again.poll() is not None)
    assert again.poll() is None, sweep.said
    assert living.poll() is None, sweep.said


def measuring(pipeline: Pipeline) -> int:
    """How many calls measure in its folder."""
    commands = processes(pipeline.root).values()
    return sum(each.startswith("unshare ") and "ddlbench.sweep.session" in each for each in commands)


def test_a_machine_without_namespaces_is_told_once_with_what_helps_before_anything_is_set_up(sweep):
    forbidding = 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"'
    within = ["unshare", "--user", "--map-root-user", "sh", "-c", forbidding, "sh"]
    shutil.rmtree(sweep.root / "results/datasets")
    answer = subprocess.run(
        [*within, *sweep.command("tiny2000_fig1", "tiny2000_fig2")],
        cwd=sweep.root,
        env=environment(sweep.root),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert answer.stderr.count("allows no private sandbox") == 1
    assert "sysctl -w user.max_net_namespaces=" in answer.stderr
    assert "apparmor" not in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (sweep.root / "results/datasets").exists()


def test_a_full_disk_is_seen_before_the_first_run_and_told_once(sweep):
    small = 'mount -t tmpfs -o size=1m small results && exec "$@"'
    within = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", small, "sh"]
    answer = subprocess.run(
        [*within, *sweep.command("tiny2000_fig1", "tiny2000_fig2")],
        cwd=sweep.root,
        env=environment(sweep.root),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert "results: the disk is full (1 MB are free). A run needs 16 MB at least" in answer.stderr
    assert answer.stderr.count("the disk is full") == 1
    assert "Error in rule" not in answer.stderr


FILLED = """
cp -a {where} "$OUT/copy" && mount -t tmpfs -o size=60m small {where} && cd "$PWD" && cp -a "$OUT/copy/." {where}
until ls results/store/*/*/*.json >/dev/null 2>&1; do sleep 0.1; done && cat /dev/zero >{where}/filler &
"$@" >first.txt 2>&1
echo $? >>first.txt
wait
find results/store -name "[0-9]*.json" -exec sha256sum {{}} + >kept.txt
find results -empty -type f >halves.txt
rm {where}/filler
"$@" >second.txt 2>&1
echo $? >>second.txt
sha256sum --check --quiet kept.txt && python3 -m ddlbench.cli verify >verified.txt
"""


@pytest.mark.parametrize("where", ["results", "."])
@pytest.mark.long
def test_a_disk_that_gets_full_during_a_call_is_told_once_and_the_next_start_goes_on(sweep, where, tmp_path):
    """The disk of the results, or that of the whole checkout."""
    sweep.configure({"measure": {"min_repetitions": 8, "max_repetitions": 8}})
    script = FILLED.format(where=where).replace("python3", sys.executable)
    script = "trap 'cp -a *.txt \"$OUT\"' EXIT\n" + script  # the disk goes with the script
    command = sweep.command("--cores", "all", "tiny2000_fig1")
    subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command],
        cwd=sweep.root,
        env=environment(sweep.root) | {"OUT": str(tmp_path)},
        check=True,
    )
    first, second = ((tmp_path / f"{name}.txt").read_text() for name in ("first", "second"))
    assert first.splitlines()[-1] == "1", first
    assert first.count("the disk is full") == 1, first
    assert "new repetition" in first
    assert "Make room; the same command goes on from there." in first
    assert "Traceback" not in first
    assert "RuleException" not in first
    assert (tmp_path / "kept.txt").read_text()
    assert not (tmp_path / "halves.txt").read_text()
    assert second.splitlines()[-1] == "0", second
    assert "all match" in (tmp_path / "verified.txt").read_text()


@pytest.mark.timeout(1800)
@pytest.mark.long
def test_random_kills_lose_no_record_leave_nothing_and_the_next_start_goes_on(prepared):
    prepared.configure({"measure": FOR_LONG | {"min_steps": 1}}, SLOW_STUDY)
    for kill in torture(Place(prepared), 3, Random(7)):
        assert kill.is_good, kill
