"""What a worker group of real processes says of a lack of memory."""

import math
import re
from pathlib import Path

import pytest

from ddlbench.launch import group_members, memory_signs
from ddlbench.launch.group_member import LackedMemory, WorkerFailed, WorkerStalled
from ddlbench.launch.memory_signs import FullAndIdle, kernel_kills
from tests.support.scripted_group import READY

TRAINING = (
    READY
    + """
assert isinstance(control.command(), Connect)
control.send(Connected())
assert isinstance(control.command(), Train)
"""
)
# The first one ends when the other has said why it ends.
HUNGRY = (
    TRAINING
    + """
print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGABRT)
"""
)
BEREFT = (
    READY
    + """
assert isinstance(control.command(), Connect)
print("MemoryError, which was dealt with", file=sys.stderr, flush=True)
control.send(Connected())
assert isinstance(control.command(), Train)
other = os.readlink("/proc/self/fd/2").replace("rank0", "rank1")
while assignment.rank == 0 and os.path.exists(other) and "bad_alloc" not in open(other).read():
    time.sleep(0.01)
os._exit(1)
"""
)


def test_who_died_for_want_of_memory_is_told_from_who_died_of_that(group):
    with group(BEREFT, HUNGRY) as two:
        two.connect([])
        with pytest.raises(LackedMemory, match=r"^rank 1 on host h2 ran out of memory .*std::bad_alloc"):
            two.train(1)


def test_a_lack_of_memory_that_was_dealt_with_explains_no_later_death(group):
    with group(BEREFT) as one:
        one.connect([])
        with pytest.raises(WorkerFailed) as told:
            one.train(1)
    assert not isinstance(told.value, LackedMemory)


KILLED = f"{TRAINING}os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.mark.parametrize(
    ("kills", "said"),
    [
        ((3, 4), "^rank 0 on host h1 was killed by the kernel, which ran out of memory, while training$"),
        ((4, 4), r"^rank 0 on host h1 died \(SIGKILL\) while training"),
    ],
)
def test_who_was_killed_while_the_kernel_ran_out_of_memory_lacked_memory(group, monkeypatch, kills, said):
    before, after = kills
    with group(KILLED) as one:
        one.connect([])
        counted = iter([before])
        monkeypatch.setattr(group_members, "kernel_kills", lambda: next(counted, after))
        with pytest.raises(WorkerFailed, match=said) as told:
            one.train(1)
    assert isinstance(told.value, LackedMemory) is (before < after)


def test_the_kernel_tells_how_many_it_has_killed():
    (told,) = re.findall(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    assert kernel_kills() >= int(told)


def test_what_earlier_workers_lacked_explains_no_death_of_new_ones(group, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank0.log").write_text("MemoryError of another launch\n")
    with pytest.raises(WorkerFailed, match=r"died \(status 3\) while starting$") as told:
        group("import os; os._exit(3)")
    assert not isinstance(told.value, LackedMemory)


FILLED = (
    READY
    + """
from ddlbench.workers.common.memory import used_bytes
limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
assert isinstance(control.command(), Connect)
held = bytearray(int(FILLED * limit) - used_bytes())
control.send(Connected())
assert isinstance(control.command(), Train)
ends_s = time.process_time() + 2
while time.process_time() < ends_s:
    pass
control.send(Trained([[1.0]]))
control.command()
"""
)


@pytest.mark.parametrize(("filled", "lacks"), [(0.99, True), (0.8, False)])
def test_a_member_that_makes_no_step_and_has_no_memory_left_lacks_memory(group, filled, lacks):
    with group(FILLED.replace("FILLED", str(filled)), memory_bytes=2**30) as one:
        one.connect([])
        expected = LackedMemory if lacks else WorkerStalled
        with pytest.raises(expected) as told:
            one._members.look_after("training", -math.inf, one._members.by_rank, still_s=300.0)
    assert ("no memory is left to rank 0 on host h1" in str(told.value)) == lacks


class Clock:
    """A monotonic clock that only a test moves."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(memory_signs, "monotonic", clock)
    return clock


@pytest.mark.parametrize(("filled", "lacks"), [(0.99, True), (0.8, False)])
def test_no_time_out_is_awaited_where_no_memory_is_left_and_nobody_computes(group, clock, filled, lacks):
    with group(FILLED.replace("FILLED", str(filled)), memory_bytes=2**30) as one:
        one.connect([])
        for clock.now_s in (10.0, 69.0):
            one._members.look_after("training", math.inf, [])
        clock.now_s = 75.0
        if not lacks:
            one._members.look_after("training", math.inf, [])
            return
        with pytest.raises(
            LackedMemory, match=r"^no member computes any more while training, and .* rank 0 on host h1$"
        ):
            one._members.look_after("training", math.inf, [])


def test_who_computes_with_no_memory_left_or_had_nothing_to_do_is_not_stuck(group, clock):
    with group(FILLED.replace("FILLED", "0.99"), memory_bytes=2**30) as one:
        one.connect([])
        watch = FullAndIdle([member.process.pid for member in one._members.by_rank])
        clock.now_s = 10.0
        assert watch.full() is None
        one.train(1)
        clock.now_s = 80.0
        assert watch.full() is None
        watch.restart()
        clock.now_s = 150.0
        assert watch.full() is None
        clock.now_s = 220.0
        assert watch.full() == 0
