"""A profile of this machine for config/devices.yaml: the parts of a step of training, measured in a framework."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.environments.environment import STAMP
from ddlbench.environments.failed_environments import read_description
from ddlbench.errors import DdlbenchError
from ddlbench.launch.bare import KEEPS_MEMORY
from ddlbench.measurements import facts
from ddlbench.plan.catalogue import PROFILED_IN
from ddlbench.probes.environment_answer import answer_of
from ddlbench.shares.amdahl import speedup, thread_counts

MODULES = {framework: f"ddlbench.workers.{framework}.step_profile" for framework in PROFILED_IN}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is profiled.

    Attributes:
        model: a name of the catalogue.
        image_shape: as `224x224x3`.
        batches: images of a step, of each profile.
        devices: `cpu` or `gpu`.
        threads: on a CPU; more than it has cores are extrapolated by Amdahl's law.
        steps: how many count.
        framework: a key of MODULES, that computes; a GPU's steps are PyTorch's.
    """

    model: str
    image_shape: str
    batches: Sequence[int]
    devices: str
    threads: int
    steps: int
    framework: str = "torch"


def environment_of(framework: str) -> Path:
    """Tell where the environment of a framework is described in a checkout.

    Args:
        framework: a key of MODULES.

    Returns:
        The path.
    """
    return Path(".environments", framework, STAMP)


def profiled(asked: Asked, environment: Path, *, timeout_s: float) -> dict[str, Any]:
    """Measure steps on this machine, one after the other.

    Args:
        asked: what is profiled.
        environment: the file that describes the framework's environment.
        timeout_s: how long each batch may take.

    Returns:
        A device as in config/devices.yaml, by a name of its own, with a profile for each batch.

    Raises:
        DdlbenchError: there is no such environment, it could not be made, the measuring fails, or it takes too long.
    """
    python = _interpreter(asked.framework, environment)
    if asked.devices == "gpu":
        answer = _measured(asked, asked.batches, asked.threads, python, timeout_s)
        steps = [(parts, "") for parts in answer["profiles"]]
    else:  # the memory that is told is the most that a process has had: each batch has a process of its own
        of_batches = [_of_threads(asked, batch, python, timeout_s) for batch in asked.batches]
        answer = next(iter(of_batches[0].values()))
        steps = [_with_threads(each, asked.threads) for each in of_batches]
    machine = facts.short_label(facts.gather() | {"gpus": None})
    text = f"ddlbench profile, {answer['framework']}, medians of {asked.steps} steps, on {machine}"
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    key = "gpu-here" if asked.devices == "gpu" else f"cpu-here-{asked.threads}"
    device = {
        "name": answer["device"] or f"{machine}, {asked.threads} thread{'s' * (asked.threads > 1)}",
        "kind": asked.devices,
        "precision": answer["precision"],
        "profiles": [
            {"model": asked.model, "image_shape": asked.image_shape, "batch": batch}
            | _rounded({name: each for name, each in parts.items() if name != "steps_ms"})
            | {"source": {"origin": "measured", "text": text + how, "date": today}}
            for batch, (parts, how) in zip(asked.batches, steps, strict=True)
        ],
    }
    return {key: device}


def _of_threads(asked: Asked, batch: int, python: str, timeout_s: float) -> dict[int, dict[str, Any]]:
    """What a worker measures of a batch, by its threads: those asked for, or as many as there are cores for."""
    cores = len(os.sched_getaffinity(0))
    if asked.threads <= cores:
        counts = [asked.threads]
    elif len(counts := thread_counts(cores, asked.threads)) < 2 or asked.steps < 2:
        raise DdlbenchError(
            f"{asked.threads} threads were asked for, and there {'is' if cores == 1 else 'are'} {cores} "
            f"core{'s' * (cores > 1)} here. How fast more threads are is extrapolated, from two cores and two steps on"
        )
    return {threads: _measured(asked, [batch], threads, python, timeout_s) for threads in counts}


def _with_threads(answers: Mapping[int, dict[str, Any]], threads: int) -> tuple[dict[str, Any], str]:
    """The parts of a step with so many threads, and how they are known if that is not by measuring alone."""
    parts = {count: answer["profiles"][0] for count, answer in answers.items()}
    if threads in parts:
        return parts[threads], ""
    faster = speedup({count: each["steps_ms"] for count, each in parts.items()}, threads)
    how = (
        f"; {threads} threads are {faster.value:.2f} times as fast as one ({faster.low:.2f} to {faster.high:.2f}), by "
        f"Amdahl's law from {', '.join(map(str, parts))}"
    )
    one = parts[1]
    return {
        "forward_ms": one["forward_ms"] / faster.value,
        "backward_ms": [each / faster.value for each in one["backward_ms"]],
        "optimizer_ms": one["optimizer_ms"] / faster.value,
        "memory_mb": one["memory_mb"],
    }, how


def _interpreter(framework: str, environment: Path) -> str:
    """The path of the interpreter that a description of an environment names."""
    try:
        return str(read_description(environment)["python"])
    except FileNotFoundError:
        raise DdlbenchError(
            f"{environment} is missing: the environment of {framework} has not been made here. `snakemake --cores 2 "
            f"{environment_of(framework)}` makes it"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DdlbenchError(
            f"{environment} describes no environment ({error!r}). Expected is a file as "
            f"{environment_of(framework)}, which Snakemake makes; not an interpreter"
        ) from None


def _measured(
    asked: Asked, batches: Sequence[int], threads: int, python: str, timeout_s: float
) -> dict[str, Any]:
    """What a worker measures of batches, one after the other."""
    options = [asked.model, asked.image_shape, asked.devices, threads, asked.steps]
    return answer_of(
        python,
        MODULES[asked.framework],
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
