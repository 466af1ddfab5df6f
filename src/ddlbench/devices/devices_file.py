"""The file of devices: its mistakes, and the devices in it."""

from collections.abc import Iterator, Mapping
from typing import Any

from ddlbench.devices.device import Device, Profile, computed
from ddlbench.devices.step_division import Division, Rates, parameter_arrays
from ddlbench.workers.common.models.layers import Shape

FILE = "config/devices.yaml"
_PARTS = ("forward_ms", "backward_ms", "optimizer_ms")

Place = tuple[Any, ...]  # keys and indices from the top of the file


def problems(
    data: Mapping[str, Any], image_shapes: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[Place, str]]:
    """List the mistakes in a file of devices that its schema does not find.

    Args:
        data: the content of the file, as the schema accepts it.
        image_shapes: those that each model takes, as `224x224x3`.

    Yields:
        The place of each mistake, and what is wrong there.
    """
    for key, device in data.items():
        yield from _missing_rates(key, device)
        seen: set[tuple[str, str, int]] = set()
        for index, given in enumerate(device["profiles"]):
            place: Place = (key, "profiles", index)
            model, shape = given["model"], given["image_shape"]
            if shape not in image_shapes[model]:
                text = (
                    f"{model} does not take images of {shape} (expected {' or '.join(image_shapes[model])})"
                )
                yield (*place, "image_shape"), text
                continue
            if (what := (model, shape, given["batch"])) in seen:
                yield (*place, "batch"), f"{model} on {shape} with {given['batch']} images is given twice"
            seen.add(what)
            yield from (((*place, *where), text) for where, text in _wrong_times(given))


def _missing_rates(key: str, device: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """What a device lacks to divide published rates."""
    if any(each["source"]["origin"] == "computed" for each in device["profiles"]):
        for rate in ("tflops", "memory_gbytes_per_s", "source"):
            if rate not in device:
                yield (key, rate), "is missing (computed profiles are divided by the device's peaks)"


def _wrong_times(given: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """What is wrong with the times of a profile, with its place in the profile."""
    origin = given["source"]["origin"]
    parts = [key for key in _PARTS if key in given]
    if origin != "measured" and "link" not in given["source"]:
        yield ("source", "link"), "is missing (what was published needs the publication's address)"
    if origin == "computed":
        if "images_per_second" not in given:
            yield (
                ("images_per_second",),
                "is missing (a computed profile is a published rate that is divided)",
            )
        for key in parts:
            yield (key,), "has no place in a computed profile, whose parts follow from images_per_second"
        return
    if "images_per_second" in given:
        yield (
            ("images_per_second",),
            f"has no place in a {origin} profile (expected `origin: computed` for it)",
        )
    for key in _PARTS:
        if key not in given:
            yield (key,), f"is missing (a {origin} profile has the parts of a step)"
    if "backward_ms" in given:
        arrays = parameter_arrays(given["model"], _shape(given["image_shape"]))
        if len(given["backward_ms"]) != arrays:
            text = (
                f"has {len(given['backward_ms'])} times, and {given['model']} has {arrays} parameter arrays"
            )
            yield ("backward_ms",), text
    if len(parts) == len(_PARTS) and _division(given).step_ms == 0:
        yield ("forward_ms",), "a step that takes no time at all is none"


def devices_from(data: Mapping[str, Any]) -> dict[str, Device]:
    """Read the devices of a file without mistakes.

    Args:
        data: the content of the file.

    Returns:
        Name -> device.
    """
    return {
        key: Device(
            key=key,
            name=given["name"],
            kind=given["kind"],
            precision=given["precision"],
            profiles=tuple(_profile(each, given) for each in given["profiles"]),
        )
        for key, given in data.items()
    }


def _profile(given: Mapping[str, Any], device: Mapping[str, Any]) -> Profile:
    shape = _shape(given["image_shape"])
    stated = given["source"]
    source = ", ".join(str(stated[key]) for key in ("text", "link", "date") if key in stated)
    if "images_per_second" in given:
        rates = Rates(float(device["tflops"]), float(device["memory_gbytes_per_s"]))
        rate = float(given["images_per_second"])
        return computed(given["model"], shape, given["batch"], rate, rates, source)
    return Profile(
        model=given["model"],
        image_shape=shape,
        batch=given["batch"],
        origin=stated["origin"],
        source=source,
        division=_division(given),
        memory_mb=given.get("memory_mb"),
    )


def _division(given: Mapping[str, Any]) -> Division:
    backward_ms = tuple(map(float, given["backward_ms"]))
    return Division(float(given["forward_ms"]), backward_ms, float(given["optimizer_ms"]))


def _shape(text: str) -> Shape:
    height, width, channels = map(int, text.split("x"))
    return height, width, channels
