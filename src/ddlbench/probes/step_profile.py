"""A profile of this machine for config/devices.yaml: the parts of a step of training, measured with PyTorch."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json
from ddlbench.measurements import facts
from ddlbench.probes.torch_answer import answer_of

MODULE = "ddlbench.workers.torch.step_profile"
ENVIRONMENT = Path(".environments/torch/environment.json")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is profiled.

    Attributes:
        model: a name of the catalogue.
        image_shape: as `224x224x3`.
        batch: images of a step.
        devices: `cpu` or `gpu`.
        threads: on a CPU.
        steps: how many count.
    """

    model: str
    image_shape: str
    batch: int
    devices: str
    threads: int
    steps: int


def profiled(asked: Asked, environment: Path, *, timeout_s: float) -> dict[str, Any]:
    """Measure a step on this machine.

    Args:
        asked: what is profiled.
        environment: the file that describes PyTorch's environment.
        timeout_s: how long it may take.

    Returns:
        A device as in config/devices.yaml, by a name of its own, with one profile.

    Raises:
        DdlbenchError: there is no such environment, the measuring fails, or it takes too long.
    """
    if not environment.is_file():
        raise DdlbenchError(
            f"{environment} is missing: PyTorch's environment has not been made here. `snakemake --cores 2 "
            f"{ENVIRONMENT}` makes it"
        )
    measured = answer_of(
        read_json(environment)["python"],
        MODULE,
        [
            asked.model,
            asked.image_shape,
            str(asked.batch),
            asked.devices,
            str(asked.threads),
            str(asked.steps),
        ],
        timeout_s=timeout_s,
        failure="the step could not be profiled",
    )
    threads = f"{asked.threads} thread{'s' * (asked.threads > 1)}"
    machine = facts.short_label(facts.gather() | {"gpus": None})
    name = measured["device"] or f"{machine}, {threads}"
    profile = {
        "model": asked.model,
        "image_shape": asked.image_shape,
        "batch": asked.batch,
        "forward_ms": _short(measured["forward_ms"]),
        "backward_ms": [_short(time_ms) for time_ms in measured["backward_ms"]],
        "optimizer_ms": _short(measured["optimizer_ms"]),
        "memory_mb": _short(measured["memory_mb"]),
        "source": {
            "origin": "measured",
            "text": f"ddlbench profile, PyTorch {measured['torch']}, medians of {asked.steps} steps, on {machine}",
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        },
    }
    key = "gpu-here" if asked.devices == "gpu" else f"cpu-here-{asked.threads}"
    return {key: {"name": name, "kind": asked.devices, "precision": "fp32", "profiles": [profile]}}


def _short(value: float) -> float:
    """A measured value with four digits."""
    return float(f"{value:.4g}")
