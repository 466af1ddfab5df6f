"""What a grid replays: why some of its points cannot be, beside what is impossible for every kind of compute."""

from collections.abc import Iterator, Mapping
from itertools import product

from ddlbench.configuration.schema import Path_, Problem
from ddlbench.devices.device import Device, NoProfile
from ddlbench.plan import grid
from ddlbench.plan.axis import Axes
from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.plan.study import Hosts


def mistakes(axes: Axes, hosts: Mapping[str, Hosts], file: str, path: Path_) -> Iterator[Problem]:
    """List the mistakes that make points of these axes impossible.

    Args:
        axes: of a grid or fault.
        hosts: the study's kinds of hosts, by name.
        file: that the grid is in, for messages.
        path: of the grid in the file.

    Yields:
        That replay learns nothing; those of any grid; if there are none of them, the others of one whose compute is
        replayed.
    """
    if "replay" in axes["compute"].values:
        yield from _nothing_to_learn(axes)  # first: what any grid lacks for `epochs` would not help this one
    if found := list(grid.problems(axes, hosts, file, path)):
        yield from found
    elif "replay" in axes["compute"].values:
        yield from _not_replayed(axes)
        yield from _without_profile(axes, hosts)
    if "hosts" in axes and "real" in axes["compute"].values:
        yield from _uneven_for_real(axes, hosts)


def _uneven_for_real(axes: Axes, hosts: Mapping[str, Hosts]) -> Iterator[Problem]:
    for name in dict.fromkeys(axes["hosts"].values):
        if name in hosts and (hosts[name].uneven or hosts[name].jitter):
            text = (
                f"hosts.{name} are uneven, and the cores that compute here are all alike: real compute can be neither "
                "that of another device nor slower by an exact factor (expected `compute: replay`)"
            )
            yield axes["compute"].problem("real", text)


def _nothing_to_learn(axes: Axes) -> Iterator[Problem]:
    if epochs := max(axes["epochs"].values):
        text = (
            f"{epochs} epochs of replayed compute learn nothing. A grid with `compute: real` and as many workers gives "
            "loss and accuracy, one with `compute: replay` and `epochs: 0` gives times; a figure can show both"
        )
        yield axes["epochs"].problem(epochs, text)


def _not_replayed(axes: Axes) -> Iterator[Problem]:
    for framework, strategy in product(
        dict.fromkeys(axes["framework"].values), dict.fromkeys(axes["strategy"].values)
    ):
        if strategy not in FRAMEWORKS[framework].replays:
            able = "; ".join(
                f"{name} with {', '.join(each.replays)}" for name, each in FRAMEWORKS.items() if each.replays
            )
            reason = FRAMEWORKS[framework].no_replay
            because = f": {reason}" if reason else ""
            text = f"the compute of {framework} with {strategy} cannot be replayed{because} (possible are {able})"
            yield axes["compute"].problem("replay", text)
    for key, possible in (("devices", "cpu"), ("fabric", "emulated")):
        for value in dict.fromkeys(axes[key].values):
            if value != possible:
                text = f"replayed compute needs {key}: {possible}, not {value}: nothing computes, and time is dilated"
                yield axes[key].problem(value, text)


def _without_profile(axes: Axes, hosts: Mapping[str, Hosts]) -> Iterator[Problem]:
    for name in dict.fromkeys(axes["hosts"].values):
        device = hosts[name].device
        if device is None:
            text = f"hosts.{name} has no `device` to replay (a name of config/devices.yaml)"
            yield axes["compute"].problem("replay", text)
            continue
        for other in (each for each in _others(hosts[name]) if each.kind != device.kind):
            text = (
                f"hosts.{name} mix {device.key}, a {device.kind}, with {other.key}, a {other.kind}: one is replayed by "
                "waiting, the other by burning CPU time (expected hosts of one kind)"
            )
            yield axes["compute"].problem("replay", text)
        for model, shape, batch in product(
            dict.fromkeys(axes["model"].values), grid.image_shapes(axes), sorted(_shares(axes))
        ):
            height, width, channels = map(int, shape.split("x"))
            try:
                for each in (*_main(device, hosts[name]), *_others(hosts[name])):
                    each.replay(model, (height, width, channels), batch)
            except NoProfile as error:
                on = " --devices gpu" if device.kind == "gpu" else ""
                command = f"ddlbench profile {model} --batch {batch} --image-shape {shape}{on}"
                text = f"{error}. On such a device, `{command}` measures one"
                yield axes["model"].problem(model, text)


def _shares(axes: Axes) -> set[int]:
    """The images of a worker, in all points."""
    if "batch_per_worker" in axes:
        return set(axes["batch_per_worker"].values)
    return {
        -(-batch // workers) for batch, workers in product(axes["batch_size"].values, axes["workers"].values)
    }


def _main(device: Device, hosts: Hosts) -> list[Device]:
    """The device of most hosts, where what it has no profile of is refused."""
    return [device] if hosts.without_profile == "refuse" else []


def _others(hosts: Hosts) -> list[Device]:
    """The devices of hosts that differ."""
    return [hosts.devices[each["device"]] for each in hosts.uneven if "device" in each]
