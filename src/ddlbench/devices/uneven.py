"""Hosts that are not like their neighbours: another device, a constant slow-down, or times that vary by step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ddlbench.devices.device import Device, Replay
from ddlbench.workers.common.models.layers import Shape

Distribution = Literal["lognormal", "exponential"]


@dataclass(frozen=True)
class Jitter:
    """By how much the device's time of each step is longer or shorter, drawn for each worker and step.

    Attributes:
        distribution: `lognormal`: the time is multiplied by a number of mean 1 whose logarithm has the standard
            deviation `scale`; `exponential`: a share of the time is added, with the mean `scale`.
        scale: as above, without a unit.
        seed: of the draws; each worker has its own, from this one and its rank.
    """

    distribution: Distribution
    scale: float
    seed: int


@dataclass(frozen=True)
class Odd:
    """A host that differs.

    Attributes:
        host: its number, from 1.
        slowdown: how many times as long its device takes.
        replay: the step of its own device; None: it has that of the others.
    """

    host: int
    slowdown: float = 1.0
    replay: Replay | None = None


@dataclass(frozen=True)
class Uneven:
    """How the hosts of a point differ.

    Attributes:
        name: all of it in words, for tables and captions.
        odd: the hosts that differ.
        jitter: of all workers; None: every step takes the same time.
    """

    name: str
    odd: tuple[Odd, ...]
    jitter: Jitter | None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Uneven":
        """Rebuild it from JSON data.

        Args:
            data: what `as_dict` returned.

        Returns:
            An equal one.
        """
        odd = tuple(
            Odd(each["host"], each["slowdown"], each["replay"] and Replay.from_dict(each["replay"]))
            for each in data["odd"]
        )
        return cls(data["name"], odd, data["jitter"] and Jitter(**data["jitter"]))

    def slowest_ms(self, usual: Replay) -> float:
        """Find what a step takes on the slowest host, without jitter.

        Args:
            usual: the step of hosts that do not differ; of these there may be none.

        Returns:
            The time in ms, without time dilation.
        """
        odd_ms = [each.slowdown * (each.replay or usual).step_ms for each in self.odd]
        return max([usual.step_ms, *odd_ms])

    def as_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        odd = [asdict(each) | {"replay": each.replay and each.replay.as_dict()} for each in self.odd]
        return {"name": self.name, "odd": odd, "jitter": self.jitter and asdict(self.jitter)}


def mistakes(given: Sequence[Mapping[str, Any]], hosts: int) -> Iterator[tuple[int, str]]:
    """List what is wrong with a study's entries beyond their schema.

    Args:
        given: the entries: `host`, `slowdown`, `device`.
        hosts: how many there are.

    Yields:
        The index of each wrong entry, and what is wrong with its host.
    """
    seen: set[int] = set()
    for index, each in enumerate(given):
        host = each["host"]
        if host > hosts:
            yield index, f"there is no host {host} (expected 1 to {hosts})"
        elif host in seen:
            yield index, f"host {host} is given twice"
        elif "device" not in each and each.get("slowdown", 1) == 1:
            yield index, f"host {host} is like the others (expected `device` or a `slowdown` above 1)"
        seen.add(host)


def uneven_of(
    given: Sequence[Mapping[str, Any]],
    jitter: Jitter | None,
    devices: Mapping[str, Device],
    hosts: int,
    step: tuple[str, Shape, int],
) -> Uneven | None:
    """Find how the hosts of a point differ.

    Args:
        given: the study's entries: `host`, `slowdown`, `device` (a key of `devices`).
        jitter: as of `Uneven`.
        devices: by name.
        hosts: how many have workers of the point.
        step: its model, image shape and images of a worker.

    Returns:
        What concerns these hosts; None if all are alike.

    Raises:
        NoProfile: nothing is known of the step on one of the devices.
    """
    odd, words = [], []
    for each in sorted(given, key=lambda each: each["host"]):
        if each["host"] > hosts:
            continue
        replay = devices[each["device"]].replay(*step) if "device" in each else None
        slowdown = float(each.get("slowdown", 1.0))
        odd.append(Odd(each["host"], slowdown, replay))
        what = [f"has {replay.name}"] if replay else []
        what += [f"is {slowdown:g} times as slow"] if slowdown != 1 else []
        words.append(f"host {each['host']} {' and '.join(what)}")
    if jitter:
        words.append(f"{jitter.distribution} jitter {jitter.scale:g} of each step, seed {jitter.seed}")
    return Uneven("; ".join(words), tuple(odd), jitter) if words else None
