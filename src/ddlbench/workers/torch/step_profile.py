"""What a step of a model takes on this machine, measured in PyTorch's environment: on a CPU, or on a GPU.

    python -m ddlbench.workers.torch.step_profile resnet50 224x224x3 cpu 1 10 32

The arguments are the model, the shape of an image, `cpu` or `gpu`, threads, the steps that count, and the images of
each batch. It prints JSON: the device and its precision, and of each batch the parts of a step in ms, and the memory
needed in MB. On a CPU this is the most that the process has had, so each batch needs its own.
"""

import json
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.common.replay.step_profile import (
    CLASSES_OF_ANY,
    LEARNING_RATE,
    MOMENTUM,
    WARMUP_STEPS,
    between,
    peak_memory_mb,
    profiled,
)
from ddlbench.workers.torch.gpu import why_no_gpu
from ddlbench.workers.torch.models import MODELS

_WARMUP_S = 1.0  # of a GPU, whose clock rises under load


class Clock:
    """When work on a device has been done: on a CPU at once, on a GPU when the GPU reaches the mark.

    With one thread of a CPU its CPU time is told, so that what others take of its core does not count.

    Args:
        device: that computes.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.now_s = time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def mark(self) -> Callable[[], float]:
        """Note the present place in the device's work.

        Returns:
            A function that gives the time of it in ms, once the device has done all.
        """
        if self.device.type == "cpu":
            now_ms = self.now_s() * 1e3
            return lambda: now_ms
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return lambda: self.start.elapsed_time(event)

    def begin(self) -> None:
        """Begin a step; what is marked before does not count."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            self.start = torch.cuda.Event(enable_timing=True)
            self.start.record()

    def end(self) -> None:
        """Wait until the device has done all."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class Step:
    """A step of training that is timed, whole or in parts.

    Args:
        name: of the model, a key of MODELS.
        shape: of an image, (height, width, channels).
        images: of the batch.
        device: that computes.
    """

    def __init__(self, name: str, shape: Shape, images: int, device: torch.device) -> None:
        height, width, channels = shape
        self.model: nn.Module = MODELS[name](shape).to(device)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=LEARNING_RATE, momentum=MOMENTUM)
        self.images = torch.randn(images, channels, height, width, device=device)
        self.labels = torch.randint(0, CLASSES_OF_ANY, (images,), device=device)
        self.clock = Clock(device)
        self.ready: list[Callable[[], float]] = [lambda: 0.0] * len(self.parameters)

    def whole(self) -> float:
        """Train a step.

        Returns:
            Its time in ms.
        """
        self.clock.begin()
        began = self.clock.mark()
        self._forward().backward()
        self.optimizer.step()
        done = self.clock.mark()
        self._end()
        return done() - began()

    def parts(self) -> tuple[float, list[float], float]:
        """Train a step, whose time is longer by what the marks take.

        Returns:
            The time of the forward pass, of the backward pass before each parameter array from the last to the first,
            and of the optimizer, in ms.
        """
        hooks = [
            parameter.register_post_accumulate_grad_hook(lambda _, place=place: self._note(place))
            for place, parameter in enumerate(self.parameters)
        ]
        self.clock.begin()
        began = self.clock.mark()
        loss = self._forward()
        forward = self.clock.mark()
        loss.backward()
        backward = self.clock.mark()
        self.optimizer.step()
        done = self.clock.mark()
        self._end()
        for hook in hooks:
            hook.remove()
        gradients_ms = [mark() for mark in reversed(self.ready)]
        gradients_ms[-1] = max(*gradients_ms, backward())
        return forward() - began(), between(forward(), gradients_ms), done() - backward()

    def _forward(self) -> torch.Tensor:
        return cross_entropy(self.model(self.images), self.labels)

    def _note(self, place: int) -> None:
        self.ready[place] = self.clock.mark()

    def _end(self) -> None:
        self.optimizer.zero_grad()
        self.clock.end()


def profile(name: str, shape: Shape, images: int, device: torch.device, steps: int) -> dict[str, object]:
    """Measure the parts of a step.

    Args:
        name: of the model, a key of MODELS.
        shape: of an image, (height, width, channels).
        images: of the batch.
        device: that computes.
        steps: how many count.

    Returns:
        By name: `forward_ms`, `backward_ms`, `optimizer_ms`, `steps_ms` (of each step), `memory_mb`.

    Raises:
        SystemExit: the GPU's memory is too small.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    try:
        step = Step(name, shape, images, device)
        warm_up(step)
        found = profiled(step, steps)
    except torch.OutOfMemoryError as error:
        raise SystemExit(f"the GPU's memory does not hold {images} images a step: {error}") from error
    return {**found, "memory_mb": memory_mb(device)}


def warm_up(step: Step) -> None:
    """Train steps that do not count.

    Args:
        step: of the model.
    """
    until_s = time.monotonic() + (_WARMUP_S if step.clock.device.type == "cuda" else 0.0)
    taken = 0
    while taken < WARMUP_STEPS or time.monotonic() < until_s:
        step.parts()
        taken += 1


def precision(device: torch.device) -> str:
    """Find in which precision PyTorch's convolutions compute, where nobody has chosen one, as in the workers.

    Args:
        device: that computes.

    Returns:
        `tf32` (numbers of 10 bits of mantissa are multiplied) on GPUs that have it, else `fp32`.
    """
    has_tf32 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    return "tf32" if has_tf32 and torch.backends.cudnn.allow_tf32 else "fp32"


def memory_mb(device: torch.device) -> float:
    """Read the most memory that was in use.

    Args:
        device: that computes.

    Returns:
        The GPU's or this process's, in MB.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    return peak_memory_mb()


def main(name: str, shape: str, devices: str, threads: str, steps: str, *batches: str) -> None:
    """Print profiles as JSON.

    Args:
        name: of the model.
        shape: of an image, as `224x224x3`.
        devices: `cpu` or `gpu`.
        threads: on a CPU.
        steps: how many count.
        batches: images of each.

    Raises:
        SystemExit: there is no GPU that can be used, or its memory is too small.
    """
    if devices == "gpu" and (why_not := why_no_gpu()):
        raise SystemExit(why_not)
    torch.set_num_threads(int(threads))
    height, width, channels = map(int, shape.split("x"))
    device = torch.device("cuda", 0) if devices == "gpu" else torch.device("cpu")
    found = {
        "device": torch.cuda.get_device_name(device) if devices == "gpu" else None,
        "precision": precision(device),
        "framework": f"PyTorch {torch.__version__}",
        "profiles": [
            profile(name, (height, width, channels), int(images), device, int(steps)) for images in batches
        ],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
