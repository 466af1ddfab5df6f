"""A worker group of real processes, which are small scripts here: how it starts, what it tells, what is left of it."""

import math
import os
from pathlib import Path

import pytest

from ddlbench.launch.group_member import WorkerCrashed, WorkerFailed, WorkerRefused, WorkerStalled
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.protocol.messages import Alive, Conclude, Concluded, Train, Trained
from tests.support.remains import eventually
from tests.support.scripted_group import ANSWER, HELLO, READY

SILENCE_S = 8.0  # beats come each second; of a group of which one member is silent the others must be heard


def are_gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{process}").exists() for process in processes)


def test_every_rank_gets_its_own_job_and_answers_in_order_of_rank(group):
    with group(ANSWER, ANSWER, ANSWER) as three:
        assert [ready.versions["rank"] for ready in three.ready] == ["0", "1", "2"]
        assert [reply.step_times_ms for reply in three.train(7)] == [[[rank] * 7] for rank in (0.0, 1.0, 2.0)]


def test_nothing_is_left_of_a_group_that_is_done(group):
    with group(ANSWER, ANSWER) as two:
        processes = two.pids()
        assert not are_gone(processes)
    assert are_gone(processes)


def test_nothing_is_left_of_a_group_whose_user_failed(group):
    two = group(ANSWER, ANSWER)
    with pytest.raises(ZeroDivisionError), two:
        1 // 0  # noqa: B018
    assert are_gone(two.pids())


def test_a_worker_has_the_cores_and_the_memory_of_its_host_which_is_a_session(group):
    facts = """
control.send(Ready({
    "cores": str(os.sched_getaffinity(0)),
    "memory": str(resource.getrlimit(resource.RLIMIT_DATA)),
    "session": str(os.getsid(0)),
}))
control.command()
"""
    with group(HELLO + facts, HELLO + facts, memory_bytes=2**30) as two:
        for ready in two.ready:
            assert ready.versions["cores"] == str({min(os.sched_getaffinity(0))})
            assert ready.versions["memory"] == str((2**30, 2**30))
        assert len({str(os.getsid(0)), *(ready.versions["session"] for ready in two.ready)}) == 3


@pytest.mark.long
def test_a_worker_that_dies_at_once_is_named_with_the_end_of_its_log(group):
    with pytest.raises(WorkerFailed, match="rank 1 on host h2 died \\(status 3\\) while ") as caught:
        group(ANSWER, "import sys; print('this is why', flush=True); sys.exit(3)")
    assert str(caught.value).endswith("\n    this is why")


def train(group: WorkerGroup) -> None:
    with group:
        group.train(1)


@pytest.mark.parametrize(
    ("misfortune", "told", "limits"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", r"rank 1 on host h2 died \(SIGKILL\) while training", {}),
        (
            "os.kill(os.getpid(), signal.SIGSTOP)",
            r"rank 1 on host h2 has been silent for \d+ s while training",
            {"heartbeat_s": SILENCE_S},
        ),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"rank 1 on host h2 died \(SIGSEGV\) while training", {}),
        ("time.sleep(600)", "took too long while training", {"prepare_s": 0.5, "step_s": 0.5}),
        (
            "raise ValueError(42)",
            r"rank 1 on host h2 died \(status 1\) while training[^$]*ValueError: 42",
            {},
        ),
    ],
    ids=["killed", "stopped", "crashing", "hanging", "failing"],
)
@pytest.mark.long
def test_a_worker_that_fails_is_named_with_what_happened_and_nothing_is_left(group, misfortune, told, limits):
    two = group(ANSWER, f"{READY}control.command()\n{misfortune}", **limits)
    with pytest.raises(WorkerFailed, match=told) as caught:
        train(two)
    assert isinstance(caught.value, WorkerCrashed) == ("SIGSEGV" in misfortune)
    assert are_gone(two.pids())


MAKES_ONE_STEP = """
from ddlbench.workers.common.progress import counted
control.command()
for number in counted(2):
    time.sleep(600 * number)
"""


@pytest.mark.long
def test_a_worker_that_makes_no_step_any_more_is_named_long_before_all_steps_could_have_been_made(group):
    two = group(ANSWER, READY + MAKES_ONE_STEP, prepare_s=1.0, step_s=1.0)
    with (
        pytest.raises(WorkerStalled, match=r"^rank 1 on host h2 has made no step for \d+ s while training: "),
        two,
    ):
        two.train(100_000)
    assert are_gone(two.pids())


def test_who_was_killed_is_named_and_not_who_has_ended_because_of_that(group, tmp_path):
    lock = tmp_path / "lock"
    locked = f"import fcntl\nlock = open({str(lock)!r}, 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
    lost = f"{READY}control.command()\n{locked}raise ConnectionError('closed by peer')"  # the other has ended
    killed = (
        f"{HELLO}{locked}{READY.removeprefix(HELLO)}control.command()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    with group(lost, killed) as two:
        two.send(Train(1))
        for member in two._members.by_rank:
            member.process.wait()
        with pytest.raises(WorkerFailed, match=r"rank 1 on host h2 died \(SIGKILL\) while training"):
            two._members.look_after("training", math.inf, [])


LEAVING = (
    READY
    + """
assert isinstance(control.command(), Connect)
control.send(Connected())
control._channel.close()
print("left", flush=True)
time.sleep(0.5)
os._exit(3)
"""
)


def test_a_worker_whose_connection_ends_before_its_process_is_dead_and_no_error_of_ours(group, tmp_path):
    with group(LEAVING) as one:
        one.connect([])
        assert eventually(lambda: "left" in (tmp_path / "logs/rank0.log").read_text())
        with pytest.raises(WorkerFailed, match=r"died \(status 3\) while receiving its orders"):
            one.train(1)


def test_those_are_named_that_are_waited_for_and_not_who_is_done(group):
    with group(ANSWER, ANSWER, ANSWER) as three:
        _, *late = three._members.by_rank
        with pytest.raises(
            WorkerFailed, match=r"^rank 1 on host h2 and 1 more took too long while training: "
        ):
            three._members.look_after("training", -math.inf, late)
        three._members.look_after("training", -math.inf, [])
        with pytest.raises(WorkerStalled) as caught:
            three._members.look_after("training", -math.inf, late, still_s=300.0)
        assert caught.value.lasted_s >= 0
        late[0].begin()
        late[0].hear(Alive(3))  # made by the command before, after its last heartbeat
        with pytest.raises(WorkerStalled):
            three._members.look_after("training", -math.inf, late, still_s=300.0)
        late[0].hear(Alive(4))
        with pytest.raises(WorkerFailed, match="more than `timeouts` of the configuration allow") as slow:
            three._members.look_after("training", -math.inf, late, still_s=300.0)
        assert not isinstance(slow.value, WorkerStalled), "steps are made, slowly"


@pytest.mark.long
def test_a_worker_that_never_says_hello_is_too_late(group):
    with pytest.raises(WorkerFailed, match="took too long while starting"):
        group(ANSWER, "import time; time.sleep(600)", launch_s=2)


def test_what_the_links_need_is_looked_after_while_waiting(group):
    def check() -> None:
        raise WorkerFailed("the delay process died")

    with pytest.raises(WorkerFailed, match="the delay process died"):
        group(ANSWER, check=check)


def test_workers_end_when_their_supervisor_has_gone(group, tmp_path):
    two = group(ANSWER, ANSWER)
    processes = [member.process for member in two._members.by_rank]
    for member in two._members.by_rank:
        assert member.channel is not None
        member.channel.close()
    for process in processes:
        process.wait(60)
    two._members.kill()


DIES_IN_TRAINING = READY + "control.command(); print('peer closed', file=sys.stderr); sys.exit(3)"
SAYS_NOTHING = READY + "control.command(); time.sleep(60)"


@pytest.mark.long
def test_what_becomes_of_each_rank_is_found_out_although_some_die_are_killed_or_say_nothing(group):
    with group(ANSWER, DIES_IN_TRAINING, SAYS_NOTHING, SAYS_NOTHING) as four:
        four.send(Train(1))
        four.kill([3])
        answered, died, silent, killed = four.fates(Trained, SILENCE_S)
        assert answered.reply == Trained([[0.0]])
        assert (died.name, died.ended) == ("rank 1 on host h2", "status 3")
        assert "peer closed" in died.log_tail
        assert (silent.reply, silent.ended) == (None, None)
        assert silent.after_s >= SILENCE_S
        assert killed.ended == "SIGKILL"
        processes = four.pids()
    assert are_gone(processes)


def test_survivors_can_be_told_more_after_others_have_died(group):
    with group(ANSWER, ANSWER) as two:
        two.kill([1])
        two.send(Conclude(evaluate=False))
        survivor, killed = two.fates(Concluded, 60.0)
        assert survivor.reply == Concluded("parameters of 0")
        assert killed.ended == "SIGKILL"


TELLING = (
    HELLO
    + """
control.send(Ready({"sees": os.environ["CUDA_VISIBLE_DEVICES"]}))
control.command()
"""
)


def test_each_worker_has_variables_of_its_own_although_all_are_forked_from_one_process(group):
    with group(TELLING, TELLING) as two:
        assert [ready.versions["sees"] for ready in two.ready] == ["GPU-0", "GPU-1"]


REFUSING = HELLO + 'control.refuse("devices: gpu needs PyTorch built for CUDA")\n'


def test_a_worker_that_cannot_do_what_its_job_says_is_heard_and_nothing_is_said_of_its_death(group):
    with pytest.raises(WorkerRefused) as told, group(ANSWER, REFUSING):
        pass
    assert str(told.value) == "rank 1 on host h2: devices: gpu needs PyTorch built for CUDA"


@pytest.mark.long
def test_who_is_there_first_waits_for_the_others_however_long_its_heartbeats_stay_unheard(group):
    late = f"import time; time.sleep({SILENCE_S + 1})\n" + ANSWER
    with group(ANSWER, late, heartbeat_s=SILENCE_S) as both:
        assert len(both.ready) == 2


def test_a_worker_that_nobody_asks_anything_for_an_hour_answers_when_it_is_asked(group, tmp_path):
    beats_of_an_hour = "for _ in range(3600):\n    control.beat()\nprint('an hour', flush=True)\n"
    with group(ANSWER.replace(READY, READY + beats_of_an_hour)) as one:
        assert eventually(lambda: "an hour" in (tmp_path / "logs/rank0.log").read_text())
        assert one.train(2)[0].step_times_ms == [[0.0, 0.0]]


FROZEN = (
    HELLO
    + "import gc; control.send(Ready({'frozen': str(gc.get_freeze_count()), 'collects': str(gc.isenabled())}))\n"
    + "control.command()\n"  # whoever ends at once may be found dead before it is heard
)


def test_a_worker_collects_its_own_garbage_and_looks_at_nothing_that_was_imported_before_it_was_forked(group):
    with group(FROZEN) as one:
        (ready,) = one.ready
    assert int(ready.versions["frozen"]) > 1000
    assert ready.versions["collects"] == "True"
