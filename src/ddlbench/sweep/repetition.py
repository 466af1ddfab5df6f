"""One repetition: what the workers get of its point, and what its record takes from their reports."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from ddlbench.devices.device import Replay
from ddlbench.devices.uneven import Uneven
from ddlbench.errors import DdlbenchError
from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.group_member import WorkerStalled
from ddlbench.plan import Point
from ddlbench.protocol.messages import (
    Concluded,
    ModelShape,
    Prepared,
    ReplayedJitter,
    ReplayedStep,
    StepOfHost,
    Trained,
    TrainingPoint,
)
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.sweep.steps import TrainedSteps, joined_times_ms

_TIMES = (
    "forward_ms",
    "backward_ms",
    "communication_ms",
)  # what members report of a step, means over their steps


def training_point(
    point: Point, dilation: float | None = None, *, takes_time: bool = True, repetition: int = 0
) -> TrainingPoint:
    """Select the part of a point that workers need.

    Args:
        point: of the plan.
        dilation: of time, where compute is replayed by waiting (None: that of the workers' assignments).
        takes_time: whether replayed compute takes any.
        repetition: of the point, for what is drawn anew in each.

    Returns:
        Model, image shape (height, width, channels), data set, global batch size, learning rate and momentum; and what
        is replayed, if compute is.
    """
    share = 1.0 if takes_time else 0.0
    return TrainingPoint(
        point.model,
        point.image_shape,
        point.dataset,
        point.batch_size,
        point.learning_rate,
        point.momentum,
        _replayed_step(point.replay, point.uneven, dilation, share, repetition) if point.replay else None,
    )


def _replayed_step(
    replay: Replay, uneven: Uneven | None, dilation: float | None, share: float, repetition: int
) -> ReplayedStep:
    odd = [
        StepOfHost(each.host - 1, *_times(each.replay or replay, share * each.slowdown))
        for each in (uneven.odd if uneven else ())
    ]
    jitter = (
        ReplayedJitter(**asdict(uneven.jitter), repetition=repetition) if uneven and uneven.jitter else None
    )
    return ReplayedStep(replay.kind, *_times(replay, share), dilation, odd, jitter)


def _times(replay: Replay, factor: float) -> tuple[float, list[float], float]:
    """The times of the forward pass, of the backward pass and of the optimizer, in ms."""
    backward_ms = [factor * each for each in replay.backward_ms]
    return factor * replay.forward_ms, backward_ms, factor * replay.optimizer_ms


def model_shapes(points: Iterable[Point]) -> list[ModelShape]:
    """List the models of some points.

    Args:
        points: of the plan.

    Returns:
        Each pair of a model and an image shape (height, width, channels) once, sorted.
    """
    models = sorted({(point.model, point.image_shape) for point in points})
    return [ModelShape(model, shape) for model, shape in models]


def trained(
    made: TrainedSteps,
    ends: Sequence[Concluded],
    dilation: float,
    startup_s: float | None,
    *,
    synchronous: bool,
) -> dict[str, object]:
    """Make the part of a record that says what a training took and led to.

    Args:
        made: its steps.
        ends: the members' last replies; at most one has a test. None of a training that was given up.
        dilation: by which times on the hosts are divided.
        startup_s: from the start of the group's first process until its last member was there; None: not known.
        synchronous: whether all ranks must have ended with the same parameters.

    Returns:
        The step times in ms (dilated) of each worker, the hashes of the parameters, and the metrics: means over the
        ranks that report them (times in ms, as without dilation; the loss of the last part), the test's loss and
        accuracy in %, and `startup_s`; None for what no rank reports. Of a training that was given up the last step is
        none: it has the time until then (`stalled_s`) since the steps before it.

    Raises:
        DdlbenchError: the ranks of a synchronous training have ended with different parameters.
    """
    parts = made.counted
    hashes = [end.parameters_sha256 for end in ends if end.parameters_sha256]
    if synchronous and len(set(hashes)) > 1:
        raise DdlbenchError(f"the ranks' parameters differ after synchronous training: {hashes}")
    test = next((end.test for end in ends if end.test), None)
    return {
        "status": "measured",
        "reason": None,
        "step_times_ms": joined_times_ms(parts),
        "metrics": {
            "train_loss": _mean_of("train_loss", parts[-1:]),
            **{key: None if (time := _mean_of(key, parts)) is None else time / dilation for key in _TIMES},
            "test_loss": test.loss if test else None,
            "test_accuracy_percent": test.accuracy_percent if test else None,
            "startup_s": startup_s,
        },
        "parameters_sha256": hashes,
        "parameters_identical": len(set(hashes)) == 1 if hashes else None,
        "synchronous": synchronous,
        "stalled_s": made.stalled_s,
    }


def stalled_at_once(
    point: Point, link: object, error: WorkerStalled, timeouts: Timeouts
) -> dict[str, object]:
    """Make the part of a record of a repetition that was given up before any of its steps was reported; print why.

    It says nothing of how long a step takes, so it is kept and is no value.

    Args:
        point: that was measured.
        link: the part of the record about its emulated link.
        error: by which it was given up.
        timeouts: by which that was decided.

    Returns:
        The keys of a record that a training would have filled, without values; the status is `stalled`, and the reason
        is the same for all points.

    Raises:
        WorkerStalled: no link is emulated, so something else is wrong; or it is a training to an accuracy, of which
            nothing is left.
    """
    if link is None or point.epochs:
        raise error
    print(error, file=sys.stderr, flush=True)
    allowed_s = timeouts.prepare_s + timeouts.step_s
    return {
        **not_fitting(f"the link stalled, or a step takes more than {allowed_s:g} s (`timeouts`)"),
        "status": "stalled",
        "link": link,
        "stalled_s": error.lasted_s,
    }


def not_fitting(reason: str) -> dict[str, object]:
    """Make the part of a record that says that a point does not fit into the memory of its hosts.

    Args:
        reason: what does not fit into what, for a person.

    Returns:
        The keys of a record that a training would have filled, without values; the status is `does_not_fit`.
    """
    return {
        "status": "does_not_fit",
        "reason": reason,
        "step_times_ms": [],
        "metrics": {},
        "parameter_count": None,
        "parameters_sha256": [],
        "parameters_identical": None,
    }


def lacked_memory(job: GroupJob, group: GroupOnHosts, prepared: Sequence[Prepared]) -> str:
    """Say on which hosts a step does not fit into memory, and into how much.

    Args:
        job: for the hosts' memory, and whether workers compute on GPUs.
        group: that was asked.
        prepared: the members' replies.

    Returns:
        `does not fit into 4 GB (the study's host) on h1, h2`.
    """
    members = zip(group.members, prepared, strict=True)
    hosts = dict.fromkeys(group.hosts.hosts[member.host].name for member, reply in members if not reply.fits)
    whose = "this machine's share" if job.placement.memory_reduced else "the study's host"
    what = f"{job.placement.hosts[0].memory_bytes / 2**30:.3g} GB ({whose})"
    if job.devices == "gpu":
        least = min((share.memory_bytes for share in group.gpus), default=None)
        what = f"{'its GPU' if least is None else f'{least / 2**30:.3g} GB of its GPU'} or {what}"
    return f"does not fit into {what} on {', '.join(hosts)}"


def _mean_of(key: str, parts: Sequence[Sequence[Trained]]) -> float | None:
    """The mean of what members report, over members and parts; a longer part counts as much more."""
    found = [
        (value, len(next(iter(report.step_times_ms), ())) or 1)
        for part in parts
        for report in part
        if (value := getattr(report, key)) is not None
    ]
    return sum(value * steps for value, steps in found) / sum(steps for _, steps in found) if found else None
