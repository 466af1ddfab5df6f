"""Devices whose compute can be replayed: what a step of a model takes on them, and where that is known from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

from ddlbench.devices.step_division import Division, Rates, divided
from ddlbench.errors import DdlbenchError
from ddlbench.workers.common.models.layers import Shape

Origin = Literal["measured", "published", "computed"]
_ORIGIN = re.compile(rf" \((?:{'|'.join(get_args(Origin))})(?:, interpolated)?\)$")


class NoProfile(DdlbenchError):
    """Nothing is known of a model's step on a device."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What a worker replays of a point: the step of a device, in ms without time dilation.

    Attributes:
        name: for tables and captions: the device's name, and how its times are known.
        device: a key of config/devices.yaml.
        kind: `gpu`, which is replayed by waiting, or `cpu`, by burning CPU time.
        precision: of the device's numbers.
        origin: `measured`, `published`, or `computed` from a published rate; of several batches the least certain.
        source: where the times are from.
        forward_ms: the whole forward pass.
        backward_ms: the time before the gradient of each parameter array is ready, from the last array to the first.
        optimizer_ms: the update of all parameters.
        unknown: why nothing is known of the step, and the times are 0; empty if it is known.
    """

    name: str
    device: str
    kind: Literal["gpu", "cpu"]
    precision: str
    origin: Origin
    source: str
    forward_ms: float
    backward_ms: tuple[float, ...]
    optimizer_ms: float
    unknown: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Replay":
        """Make the replay from what `as_dict` returned.

        Args:
            data: JSON data.

        Returns:
            An equal replay.
        """
        return cls(**{**data, "backward_ms": tuple(data["backward_ms"])})

    def as_dict(self) -> dict[str, Any]:
        """Return JSON data. A step that is known has no key for what is not, as in records from before."""
        data = asdict(self) | {"backward_ms": list(self.backward_ms)}
        return data if self.unknown else {key: value for key, value in data.items() if key != "unknown"}

    @property
    def step_ms(self) -> float:
        """The whole step on one device, without any communication."""
        return self.forward_ms + sum(self.backward_ms) + self.optimizer_ms

    @property
    def waits(self) -> bool:
        """Whether it is replayed by waiting, as a GPU's step is."""
        return self.kind == "gpu"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A step of one model with one batch.

    Attributes:
        model: a name of the catalogue.
        image_shape: of an image, (height, width, channels).
        batch: images of one worker.
        origin: how the times are known.
        source: where they are from, with the date.
        division: the parts of the step, in ms.
        memory_mb: what the step needs on the device (None: not known).
    """

    model: str
    image_shape: Shape
    batch: int
    origin: Origin
    source: str
    division: Division
    memory_mb: float | None = None


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device and the profiles that are known of it.

    Attributes:
        key: its name in config/devices.yaml.
        name: of the product.
        kind: `gpu` or `cpu`.
        precision: of its numbers in all profiles.
        profiles: at most one for a model, an image shape and a batch.
    """

    key: str
    name: str
    kind: Literal["gpu", "cpu"]
    precision: str
    profiles: Sequence[Profile]

    def replay(self, model: str, image_shape: Shape, batch: int) -> Replay:
        """Find what a step takes; between two batches that have a profile it is interpolated.

        Args:
            model: a name of the catalogue.
            image_shape: of an image, (height, width, channels).
            batch: images of one worker.

        Returns:
            The parts of the step.

        Raises:
            NoProfile: there is none for this batch, or on both sides of it; with those that there are.
        """
        known = sorted(
            (each for each in self.profiles if (each.model, each.image_shape) == (model, image_shape)),
            key=lambda each: each.batch,
        )
        if exact := [each for each in known if each.batch == batch]:
            return self._replayed(exact[0].division, exact)
        for below, above in pairwise(known):
            if below.batch < batch < above.batch:
                share = (batch - below.batch) / (above.batch - below.batch)
                return self._replayed(_between(below.division, above.division, share), [below, above])
        shape = "x".join(map(str, image_shape))
        batches = ", ".join(str(each.batch) for each in known) or "none"
        raise NoProfile(
            f"{self.key} has no profile of {model} on {shape} with {batch} images a worker (known batches: {batches}; "
            "between two of them it is interpolated)"
        )

    def unknown(self, model: str, image_shape: Shape) -> Replay:
        """Stand for a step that no profile has, so that a figure can show a gap and say why.

        Args:
            model: a name of the catalogue.
            image_shape: of an image, (height, width, channels).

        Returns:
            A replay that nobody can run.
        """
        batches = sorted(
            each.batch for each in self.profiles if (each.model, each.image_shape) == (model, image_shape)
        )
        step = f"{model} on {'x'.join(map(str, image_shape))}"
        known = f"such a batch of {step}, only of {', '.join(map(str, batches))}" if batches else step
        return Replay(
            name=self.name,
            device=self.key,
            kind=self.kind,
            precision=self.precision,
            origin="measured",
            source="",
            forward_ms=0.0,
            backward_ms=(),
            optimizer_ms=0.0,
            unknown=f"{self.key} has no profile of {known}",
        )

    def _replayed(self, division: Division, profiles: Sequence[Profile]) -> Replay:
        origins = {each.origin for each in profiles}
        origin: Origin = (
            "computed" if "computed" in origins else "published" if "published" in origins else "measured"
        )
        how = origin if len(profiles) == 1 else f"{origin}, interpolated"
        return Replay(
            name=f"{self.name}, {self.precision} ({how})",
            device=self.key,
            kind=self.kind,
            precision=self.precision,
            origin=origin,
            source="; ".join(dict.fromkeys(each.source for each in profiles)),
            forward_ms=division.forward_ms,
            backward_ms=division.backward_ms,
            optimizer_ms=division.optimizer_ms,
        )


def without_origin(name: str) -> str:
    """Tell which device a replay is of, whatever is known of its times: batches of one device differ in that.

    Args:
        name: of a replay.

    Returns:
        The names of the device and of its precision.
    """
    return _ORIGIN.sub("", name)


def _between(one: Division, other: Division, share: float) -> Division:
    """The parts at a share (0 to 1) of the way from one division to another of the same model."""

    def at(low: float, high: float) -> float:
        return low + share * (high - low)

    return Division(
        at(one.forward_ms, other.forward_ms),
        tuple(at(low, high) for low, high in zip(one.backward_ms, other.backward_ms, strict=True)),
        at(one.optimizer_ms, other.optimizer_ms),
    )


def computed(
    model: str, image_shape: Shape, batch: int, images_per_second: float, rates: Rates, source: str
) -> Profile:
    """Make a profile of a published rate of training on one device.

    Args:
        model: a name of the catalogue.
        image_shape: of an image, (height, width, channels).
        batch: images of one step.
        images_per_second: as published.
        rates: of the device, by which the step is divided among the layers.
        source: of the published rate.

    Returns:
        The profile, `computed`.
    """
    division = divided(model, image_shape, batch, 1000 * batch / images_per_second, rates)
    return Profile(
        model=model,
        image_shape=image_shape,
        batch=batch,
        origin="computed",
        source=source,
        division=division,
    )
