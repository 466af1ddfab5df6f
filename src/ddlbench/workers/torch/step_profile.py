"""What a step of a model takes on this machine, measured in PyTorch's environment: on a CPU, or on a GPU.

    python -m ddlbench.workers.torch.step_profile resnet50 224x224x3 32 cpu 1 10

The arguments are the model, the shape of an image, the images of a batch, `cpu` or `gpu`, threads, and the steps that
count. It prints JSON: the device, the parts of a step in ms (medians over the steps), and the memory needed in MB.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ddlbench.workers.common.layers import Shape
from ddlbench.workers.torch.models import MODELS

_WARMUP_STEPS = 3
_LEARNING_RATE, _MOMENTUM = 1e-6, 0.9
_CLASSES_OF_ANY = 10


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
    """A step of training whose parts are timed.

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
        self.optimizer = torch.optim.SGD(self.parameters, lr=_LEARNING_RATE, momentum=_MOMENTUM)
        self.images = torch.randn(images, channels, height, width, device=device)
        self.labels = torch.randint(0, _CLASSES_OF_ANY, (images,), device=device)
        self.clock = Clock(device)
        self.ready: list[Callable[[], float]] = [lambda: 0.0] * len(self.parameters)
        for place, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(lambda _, place=place: self._note(place))

    def _note(self, place: int) -> None:
        self.ready[place] = self.clock.mark()

    def timed(self) -> tuple[float, list[float], float]:
        """Train a step.

        Returns:
            The time of the forward pass, of the backward pass before each parameter array from the last to the first,
            and of the optimizer, in ms.
        """
        self.clock.begin()
        began = self.clock.mark()
        loss = cross_entropy(self.model(self.images), self.labels)
        forward = self.clock.mark()
        loss.backward()
        backward = self.clock.mark()
        self.optimizer.step()
        done = self.clock.mark()
        self.optimizer.zero_grad()
        self.clock.end()
        gradients_ms = [mark() for mark in reversed(self.ready)]
        gradients_ms[-1] = max(*gradients_ms, backward())
        return forward() - began(), between(forward(), gradients_ms), done() - backward()


def between(start_ms: float, times_ms: Sequence[float]) -> list[float]:
    """Compute how long each of several events comes after those before it.

    Args:
        start_ms: when the first one is waited for.
        times_ms: of the events in order; one may come before those that stand before it.

    Returns:
        The time that passes until each, in ms; 0 for one that is already there.
    """
    found = []
    for time_ms in times_ms:
        found.append(max(0.0, time_ms - start_ms))
        start_ms = max(start_ms, time_ms)
    return found


def profile(name: str, shape: Shape, images: int, device: torch.device, steps: int) -> dict[str, object]:
    """Measure the parts of a step.

    Args:
        name: of the model, a key of MODELS.
        shape: of an image, (height, width, channels).
        images: of the batch.
        device: that computes.
        steps: how many count.

    Returns:
        By name: `device`, `torch`, `forward_ms`, `backward_ms`, `optimizer_ms`, `memory_mb`.
    """
    step = Step(name, shape, images, device)
    for _ in range(_WARMUP_STEPS):
        step.timed()
    forward, backward, optimizer = zip(*(step.timed() for _ in range(steps)), strict=True)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "torch": torch.__version__,
        "forward_ms": median(forward),
        "backward_ms": [median(times) for times in zip(*backward, strict=True)],
        "optimizer_ms": median(optimizer),
        "memory_mb": memory_mb(device),
    }


def memory_mb(device: torch.device) -> float:
    """Read the most memory that was in use.

    Args:
        device: that computes.

    Returns:
        The GPU's or this process's, in MB.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main(name: str, shape: str, images: str, devices: str, threads: str, steps: str) -> None:
    """Print a profile as JSON.

    Args:
        name: of the model.
        shape: of an image, as `224x224x3`.
        images: of the batch.
        devices: `cpu` or `gpu`.
        threads: on a CPU.
        steps: how many count.
    """
    torch.set_num_threads(int(threads))
    height, width, channels = map(int, shape.split("x"))
    device = torch.device("cuda", 0) if devices == "gpu" else torch.device("cpu")
    json.dump(profile(name, (height, width, channels), int(images), device, int(steps)), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
