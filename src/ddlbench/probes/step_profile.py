"""A profile of this machine for config/devices.yaml: the parts of a step of training, measured with PyTorch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.environments.failed_environments import read_description
from ddlbench.errors import DdlbenchError
from ddlbench.launch.bare import KEEPS_MEMORY
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
        batches: images of a step, of each profile.
        devices: `cpu` or `gpu`.
        threads: on a CPU.
        steps: how many count.
    """

    model: str
    image_shape: str
    batches: Sequence[int]
    devices: str
    threads: int
    steps: int


def profiled(asked: Asked, environment: Path, *, timeout_s: float) -> dict[str, Any]:
    """Measure steps on this machine, one after the other.

    Args:
        asked: what is profiled.
        environment: the file that describes PyTorch's environment.
        timeout_s: how long each batch may take.

    Returns:
        A device as in config/devices.yaml, by a name of its own, with a profile for each batch.

    Raises:
        DdlbenchError: there is no such environment, it could not be made, the measuring fails, or it takes too long.
    """
    python = _interpreter(environment)
    # On a CPU memory is the most that a process has had: each batch has a process of its own.
    together = [asked.batches] if asked.devices == "gpu" else [[batch] for batch in asked.batches]
    answers = [_measured(asked, batches, python, timeout_s) for batches in together]
    parts = [found for answer in answers for found in answer["profiles"]]
    threads = f"{asked.threads} thread{'s' * (asked.threads > 1)}"
    machine = facts.short_label(facts.gather() | {"gpus": None})
    first = answers[0]
    source = {
        "origin": "measured",
        "text": f"ddlbench profile, PyTorch {first['torch']}, medians of {asked.steps} steps, on {machine}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    key = "gpu-here" if asked.devices == "gpu" else f"cpu-here-{asked.threads}"
    device = {
        "name": first["device"] or f"{machine}, {threads}",
        "kind": asked.devices,
        "precision": first["precision"],
        "profiles": [
            {"model": asked.model, "image_shape": asked.image_shape, "batch": batch}
            | _rounded(found)
            | {"source": dict(source)}
            for batch, found in zip(asked.batches, parts, strict=True)
        ],
    }
    return {key: device}


def _interpreter(environment: Path) -> str:
    """The path of the interpreter that a description of an environment names."""
    try:
        return str(read_description(environment)["python"])
    except FileNotFoundError:
        raise DdlbenchError(
            f"{environment} is missing: PyTorch's environment has not been made here. `snakemake --cores 2 "
            f"{ENVIRONMENT}` makes it"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DdlbenchError(
            f"{environment} describes no environment ({error!r}). Expected is a file as {ENVIRONMENT}, which Snakemake "
            "makes; not an interpreter"
        ) from None


def _measured(asked: Asked, batches: Sequence[int], python: str, timeout_s: float) -> dict[str, Any]:
    """What a worker measures of batches, one after the other."""
    options = [asked.model, asked.image_shape, asked.devices, asked.threads, asked.steps]
    return answer_of(
        python,
        MODULE,
        [str(each) for each in (*options, *batches)],
        timeout_s=timeout_s * len(batches),
        failure=f"a step of {asked.model} could not be profiled",
        variables=KEEPS_MEMORY,  # as workers do, whose steps take less time by that
    )


def _rounded(parts: dict[str, Any]) -> dict[str, Any]:
    """The measured parts of a step with four digits."""
    return {
        key: [_short(each) for each in value] if isinstance(value, list) else _short(value)
        for key, value in parts.items()
    }


def _short(value: float) -> float:
    """A measured value with four digits."""
    return float(f"{value:.4g}")
