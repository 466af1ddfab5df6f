"""A point: one cell of a grid, with exactly what determines its measurement; and its names."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from ddlbench.devices.device import Replay
from ddlbench.devices.uneven import Uneven
from ddlbench.files import sha256_json
from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.plan.sites import Sites
from ddlbench.workers.strategies import STRATEGIES, host_total


@dataclass(frozen=True)
class Inside:
    """What connects each worker of a host to the others there: a link's name and values; latency is one way."""

    name: str
    bandwidth_mbit: float
    latency_ms: float


@dataclass(frozen=True)
class Point:
    """What is measured. bandwidth_mbit, latency_ms and loss_percent are None without an emulated link, and with sites.

    A point does not know its study, so that two grids with an equal point share its measurement.
    """

    framework: str
    strategy: str
    runtime: str
    devices: str
    fabric: str
    model: str
    dataset: str
    image_shape: tuple[int, int, int]  # height, width, channels
    batch_size: int  # global: of all workers together
    workers: int
    host_count: int  # of the study's hosts of this kind: time is dilated as much as all of them would need
    vcpus: int  # of each host
    memory_gb: float  # of each host
    bandwidth_mbit: float | None  # of each host's connection
    latency_ms: float | None  # one way, on what a host sends
    loss_percent: float | None
    congestion_control: str
    learning_rate: float
    momentum: float
    epochs: int  # trained for real; 0: only times are measured
    steps_per_epoch: int | None  # None: as many as the data set's images need
    seed: int
    sites: Sites | None = None  # those that the workers use, with the values of all their links
    compute: str = "real"
    replay: Replay | None = None  # what a worker replays, where compute is not real
    workers_per_host: int = 1
    inside: Inside | None = None  # between the workers of a host, where it is emulated
    uneven: Uneven | None = None  # how hosts differ, where compute is replayed

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Point":
        """Make the point from what `as_dict` returned.

        Args:
            data: JSON data.

        Returns:
            An equal point.
        """
        sites, replay, inside = data.get("sites"), data.get("replay"), data.get("inside")
        given = {
            "image_shape": tuple(data["image_shape"]),
            "sites": sites and Sites.from_dict(sites),
            "replay": replay and Replay.from_dict(replay),
            "inside": inside and Inside(**inside),
            "uneven": data.get("uneven") and Uneven.from_dict(data["uneven"]),
        }
        return cls(**{**data, **given})

    def as_dict(self) -> dict[str, Any]:
        """Return JSON data. What is not used has no keys, as in records from before."""
        data = {key: getattr(self, key) for key in POINT_KEYS} | {"image_shape": list(self.image_shape)}
        for key in ("sites", "compute", "replay", "workers_per_host", "inside", "uneven"):
            del data[key]
        return (
            data
            | ({"sites": self.sites.as_dict()} if self.sites else {})
            | ({"compute": self.compute, "replay": self.replay.as_dict()} if self.replay else {})
            | ({"workers_per_host": self.workers_per_host} if self.workers_per_host > 1 else {})
            | ({"inside": asdict(self.inside)} if self.inside else {})
            | ({"uneven": self.uneven.as_dict()} if self.uneven else {})
        )

    def shown(self, key: str) -> Any:
        """Give the value of a key as a figure's `where` writes it.

        Args:
            key: one of POINT_KEYS.

        Returns:
            The value; for sites, replays and what is inside a host their name, for a shape 28x28x1.
        """
        value = getattr(self, key)
        if key == "image_shape":
            return "x".join(map(str, value))
        return value.name if isinstance(value, Sites | Replay | Inside | Uneven) else value

    @cached_property
    def id(self) -> str:
        """A stable name with a hash of everything: torch-ring-mlp-digits-b128-2w-400mbit-0ms-0loss-1f3a9c."""
        parts = [self.framework.replace("_", "-"), STRATEGIES[self.strategy].short]
        parts += [self.model.replace("_", "-"), self.dataset]
        parts += [f"b{self.batch_size}", f"{self.workers}w"]
        parts += [f"{self.workers_per_host}ph"] if self.workers_per_host > 1 else []
        if self.bandwidth_mbit is not None:
            parts += [f"{self.bandwidth_mbit:g}mbit", f"{self.latency_ms:g}ms", f"{self.loss_percent:g}loss"]
        elif self.hosts > 1:
            parts += [self.sites.name if self.sites else self.fabric]
        if self.runtime != _USUAL_RUNTIME:
            parts += [self.runtime]
        if self.replay:
            parts += [self.replay.device]
        return "-".join([*parts, sha256_json(self.as_dict())[:6]])

    @property
    def environment(self) -> str:
        """The environment that its workers need."""
        return FRAMEWORKS[self.framework].environment

    @property
    def hosts(self) -> int:
        """How many hosts its workers and servers need."""
        return host_total(self.workers, self.strategy, self.host_count, self.workers_per_host)

    @property
    def places(self) -> int:
        """How many emulated hosts it takes: on a host of several workers each of them is one, behind its card."""
        return self.hosts - -(-self.workers // self.workers_per_host) + self.workers

    @property
    def last_place_is(self) -> int:
        """How many times as large as the first place the last one is: a server's own host is no part of a host."""
        return self.workers_per_host if self.places > self.workers else 1

    @property
    def waits(self) -> bool:
        """Whether compute is replayed by waiting, as a GPU's is; steps then take long, and differ by jitter alone."""
        return self.replay is not None and self.replay.waits

    @property
    def slowest_replay_ms(self) -> float:
        """What a replayed step takes on the slowest host, without dilation and jitter, in ms; 0: none is replayed."""
        if self.replay is None:
            return 0.0
        return self.uneven.slowest_ms(self.replay) if self.uneven else self.replay.step_ms

    @property
    def dataset_key(self) -> str:
        """The data set with the images' shape: digits-28x28x1."""
        return f"{self.dataset}-{'x'.join(map(str, self.image_shape))}"


POINT_KEYS = tuple(field.name for field in fields(Point))


def point_id(point: Point | Mapping[str, Any]) -> str:
    """Give the stable id of a point.

    Args:
        point: the point, or its JSON data.

    Returns:
        The id, as of `Point.id`.
    """
    return _as_point(point).id


def words(point: Point | Mapping[str, Any]) -> str:
    """Describe a point for people: mlp, digits, batch 128, 2 workers, 400 Mbit/s, 0 ms, 0 % loss.

    Args:
        point: the point, or its JSON data.

    Returns:
        Model, data set, global batch size, workers, link, and what is not usual (another framework than torch, ...).
    """
    point = _as_point(point)
    parts = [point.model, point.dataset, f"batch {point.batch_size}"]
    parts += [f"{point.workers} worker" + "s" * (point.workers > 1)]
    parts += [f"{point.workers_per_host} a host"] if point.workers_per_host > 1 else []
    parts += [link_words(point)] if point.hosts > 1 else []
    unusual = (point.framework, point.strategy, point.runtime, point.devices)
    parts += [name.replace("_", " ") for name, usual in zip(unusual, _USUAL, strict=True) if name != usual]
    parts += [f"{point.replay.device} replayed"] if point.replay else []
    parts += [point.uneven.name] if point.uneven else []
    return ", ".join(parts)


def link_words(point: Point | Mapping[str, Any]) -> str:
    """Describe what connects a point's workers: 400 Mbit/s, 0 ms, 0 % loss.

    Args:
        point: the point, or its JSON data.

    Returns:
        The link's values, the name of the sites or of the fabric, or `no link` for one host.
    """
    point = _as_point(point)
    if point.bandwidth_mbit is not None:
        return f"{point.bandwidth_mbit:g} Mbit/s, {point.latency_ms:g} ms, {point.loss_percent:g} % loss"
    if point.hosts == 1:
        return "no link"
    return point.sites.name if point.sites else point.fabric


_USUAL_RUNTIME = "bare"
_USUAL = ("torch", "ring_allreduce", _USUAL_RUNTIME, "cpu")


def _as_point(point: Point | Mapping[str, Any]) -> Point:
    return point if isinstance(point, Point) else Point.from_dict(point)
