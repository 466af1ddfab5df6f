"""A PyTorch worker: synchronous data-parallel training (DDP) over Gloo or NCCL, one point after another.

    python -m ddlbench.workers.torch_worker CONTROL_SOCKET RANK

It is told what to do over the control socket (see `channel`):
    connect  make new connections, and the DDP models on them, while the links are open
    prepare  take a point: fresh parameters, its batches; a step without communication shows whether it fits
    train    some steps, each timed
    conclude hash the parameters and, if asked, evaluate the test set
    stop
The images of step i are the i-th batch of an order that depends on the seed alone, and each rank takes its share of it,
so N workers see what one worker with the same global batch would see.
"""

import gc
import hashlib
import os
import resource
import socket
import sys
import time
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import torch
import torch._dynamo  # DDP does it otherwise, a second after the workers have been forked, in each of them
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from ddlbench.workers.channel import Channel, Message
from ddlbench.workers.torch_models import MODELS

Arrays = dict[str, torch.Tensor]
MEAN, SPREAD = 0.1307, 0.3081  # of MNIST's pixels between 0 and 1, as PyTorch's own example has them


class Point:
    """What is measured now: a model with fresh parameters, and the batches of this rank."""

    def __init__(self, worker: "Worker", point: Message, seed: int) -> None:
        self.worker = worker
        self.seed = seed
        self.data = worker.dataset(point["dataset"], tuple(point["image_shape"]))
        self.model = worker.model(point["model"], tuple(point["image_shape"]))
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=point["learning_rate"], momentum=point["momentum"]
        )
        self.batch_size: int = point["batch_size"]
        bounds = [self.batch_size * rank // worker.world_size for rank in (worker.rank, worker.rank + 1)]
        self.share = slice(*bounds)
        # DDP averages over ranks; where shares differ by one image, this keeps the mean over the whole batch.
        self.weight = (bounds[1] - bounds[0]) * worker.world_size / self.batch_size
        self.start_again()  # the trial trains from here; a measurement starts again

    def start_again(self) -> None:
        """Set parameters, optimizer and the order of images to what the seed says."""
        torch.manual_seed(self.seed)
        fresh = MODELS[self.worker.names[self.model]](self.worker.shapes[self.model])
        self.model.module.load_state_dict(fresh.state_dict())
        self.optimizer.state.clear()
        self.order = np.random.default_rng(self.seed)
        self.upcoming = np.empty(0, dtype=np.int64)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels of this rank in the next step; a new random order begins when the images run out."""
        while len(self.upcoming) < self.batch_size:
            order = self.order.permutation(len(self.data["train_labels"]))
            self.upcoming = np.concatenate([self.upcoming, order])
        chosen, self.upcoming = self.upcoming[: self.batch_size], self.upcoming[self.batch_size :]
        mine = torch.from_numpy(chosen[self.share])
        device = self.worker.device
        return self.data["train_images"][mine].to(device), self.data["train_labels"][mine].to(device)

    def step(self) -> torch.Tensor:
        """One step of synchronous SGD; returns this rank's loss."""
        images, labels = self.batch()
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(images), labels)
        (loss if self.weight == 1.0 else loss * self.weight).backward()
        self.worker.pace.begin()
        self.optimizer.step()
        return loss

    def train(self, steps: int) -> Message:
        """Time `steps` steps, each from its start to its end on this rank, in milliseconds of wall clock."""
        step_times_ms: list[float] = []
        splits: dict[str, list[float]] = {"forward_ms": [], "backward_ms": [], "communication_ms": []}
        loss = torch.tensor(float("nan"))
        self.worker.pace.begin()
        for _ in range(steps):
            started = time.perf_counter()
            loss = self.step()
            if self.worker.device.type == "cuda":
                torch.cuda.synchronize()
            step_times_ms.append((time.perf_counter() - started) * 1e3)
            for name, value in self.split_of_last_step().items():
                splits[name].append(value)
        return {
            "step_times_ms": step_times_ms,
            "train_loss": loss.item(),
            **{name: sum(values) / len(values) if values else None for name, values in splits.items()},
        }

    def split_of_last_step(self) -> dict[str, float]:
        """How DDP's own timers divide the step; communication overlaps with the backward pass."""
        timers = self.model._get_ddp_logging_data()
        return {
            "forward_ms": timers["forward_compute_time"] / 1e6,
            "backward_ms": timers["backward_compute_time"] / 1e6,
            "communication_ms": timers["backward_comm_time"] / 1e6,
        }

    @torch.no_grad()
    def evaluate(self) -> Message:
        """Mean negative log-likelihood and accuracy over the test images."""
        self.model.eval()
        loss, right = 0.0, 0
        images, labels = self.data["test_images"], self.data["test_labels"].to(self.worker.device)
        for part in range(0, len(labels), 1000):
            outputs = self.model.module(images[part : part + 1000].to(self.worker.device))
            loss += cross_entropy(outputs, labels[part : part + 1000], reduction="sum").item()
            right += int((outputs.argmax(1) == labels[part : part + 1000]).sum())
        self.model.train()
        return {"test_loss": loss / len(labels), "test_accuracy_percent": 100 * right / len(labels)}

    def fingerprint(self) -> str:
        """SHA-256 of all parameters' bytes."""
        parameters = (parameter.detach().cpu().contiguous().numpy() for parameter in self.model.parameters())
        digest = hashlib.sha256()
        for parameter in parameters:
            digest.update(parameter.tobytes())
        return digest.hexdigest()


class Pace:
    """Keeps a host that shares its core from computing faster than its share while its neighbours wait.

    The kernel lends an idle neighbour's share; a host of its own has no such neighbour.
    """

    def __init__(self, core_share: float) -> None:
        self.core_share = core_share
        self.begin()

    def begin(self) -> None:
        """Computing begins now."""
        self.wall_s, self.cpu_s = time.perf_counter(), time.thread_time()

    def keep(self) -> None:
        """Wait until what has been computed since would be done on the host's own share."""
        computed_s = time.thread_time() - self.cpu_s
        early_s = computed_s / self.core_share - (time.perf_counter() - self.wall_s)
        if early_s > 0:
            time.sleep(early_s)
        self.begin()


def reduce_at_pace(worker: "Worker", bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's own mean of a bucket's gradients over the ranks, begun when the host's share of a core has made them."""
    worker.pace.keep()
    return allreduce_hook(worker.group, bucket)  # type: ignore[arg-type]


class Worker:
    """One rank of the worker group."""

    def __init__(self, job: Message) -> None:
        self.rank: int = job["rank"]
        self.world_size: int = job["world_size"]
        self.device = torch.device("cuda" if job["devices"] == "gpu" else "cpu")
        self.paths: dict[str, str] = job["datasets"]
        self.loaded: dict[str, Arrays] = {}
        self.group: dist.ProcessGroup | None = None
        self.models: dict[tuple[str, tuple[int, ...]], DistributedDataParallel] = {}
        self.names: dict[nn.Module, str] = {}
        self.shapes: dict[nn.Module, Any] = {}
        self.point: Point | None = None
        self.pace = Pace(job["core_share"])
        self.timeout = timedelta(seconds=job["timeout_s"])
        torch.set_num_threads(job["threads"])
        if self.rank > 0:
            await_listener(job["rendezvous"], job["timeout_s"])
        dist.init_process_group(
            "nccl" if job["devices"] == "gpu" else "gloo",
            init_method=f"tcp://{job['rendezvous']}",
            rank=self.rank,
            world_size=self.world_size,
            timeout=self.timeout,
        )

    def model(self, name: str, shape: tuple[int, ...]) -> DistributedDataParallel:
        """The DDP model of that name; it is made once a connection, and two steps settle its buckets."""
        if (name, shape) not in self.models:
            model = DistributedDataParallel(
                MODELS[name](shape).to(self.device),  # type: ignore[arg-type]
                process_group=self.group,
            )
            model._set_ddp_runtime_logging_sample_rate(1)
            if self.pace.core_share < 1:
                model.register_comm_hook(self, reduce_at_pace)
            height, width, channels = shape
            for _ in range(2):
                model(torch.zeros(1, channels, height, width, device=self.device)).sum().backward()
            self.models[name, shape], self.names[model], self.shapes[model] = model, name, shape
        return self.models[name, shape]

    def dataset(self, name: str, shape: tuple[int, ...]) -> Arrays:
        """Images [n, c, h, w] as numbers around 0 and labels [n], of the training and the test set."""
        key = f"{name}-{'x'.join(map(str, shape))}"
        if key not in self.loaded:
            with np.load(self.paths[key], allow_pickle=False) as arrays:
                self.loaded[key] = {
                    part: as_input(arrays[part]) if part.endswith("images") else as_labels(arrays[part])
                    for part in ("train_images", "train_labels", "test_images", "test_labels")
                }
        return self.loaded[key]

    def connect(self, command: Message) -> Message:
        """Replace all connections, and make the models that will be measured on them: [name, image shape] each."""
        self.point = None
        self.models, self.names, self.shapes = {}, {}, {}
        gc.collect()
        if self.group is not None:
            dist.destroy_process_group(self.group)
        self.group = dist.new_group(timeout=self.timeout)
        for name, shape in command["models"]:
            self.model(name, tuple(shape))
        self.widen()
        return {"event": "connected"}

    def widen(self) -> None:
        """Let TCP's windows grow to what training needs: on a slow link that would take them many steps."""
        largest = max(sum(each.numel() for each in model.parameters()) for model in self.models.values())
        for _ in range(4):
            dist.all_reduce(torch.zeros(4 * largest, device=self.device), group=self.group)

    def prepare(self, command: Message) -> Message:
        """Take a point; a step of it, on this rank alone, warms caches and tells whether it fits into memory."""
        self.point = None
        try:
            if self.device.type == "cpu":
                refuse_what_cannot_fit(command["point"], self.world_size)
            self.point = Point(self, command["point"], command["seed"])
            with self.point.model.no_sync():
                self.point.step()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if self.point is not None:
                self.point.optimizer.zero_grad(set_to_none=True)
            self.point = None
            del error
            gc.collect()
            return {"event": "prepared", "fits": False}
        self.point.optimizer.zero_grad(set_to_none=True)
        count = sum(parameter.numel() for parameter in self.point.model.parameters())
        return {"event": "prepared", "fits": True, "parameter_count": count}

    def train(self, command: Message) -> Message:
        """Train the point for some steps, going on where it is or from its fresh parameters."""
        assert self.point is not None
        if command["from_fresh"]:
            self.point.start_again()
        return {"event": "trained", **self.point.train(command["steps"])}

    def conclude(self, command: Message) -> Message:
        """Hash the parameters; rank 0 evaluates the test set if asked."""
        assert self.point is not None
        tested = self.point.evaluate() if command["evaluate"] and self.rank == 0 else {}
        return {"event": "concluded", "parameters_sha256": self.point.fingerprint(), **tested}


def as_input(images: np.ndarray) -> torch.Tensor:
    """Images of bytes [n, h, w, c] as the models take them: [n, c, h, w], with about MNIST's mean 0 and spread 1."""
    return torch.from_numpy(
        (images.transpose(0, 3, 1, 2).astype(np.float32, order="C") / 255 - MEAN) / SPREAD
    )


def as_labels(labels: np.ndarray) -> torch.Tensor:
    """Class numbers as the loss takes them."""
    return torch.from_numpy(labels.astype(np.int64))


def await_listener(address: str, timeout_s: float) -> None:
    """Wait until somebody listens at `host:port`; PyTorch would sleep for seconds before it tries a second time."""
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout_s).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return


def refuse_what_cannot_fit(point: Message, world_size: int) -> None:
    """Raise MemoryError where the backward pass alone would need more than this process may have.

    To find that out by trying would fill the memory first: seconds for each gigabyte on some virtual machines.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return
    kept = kept_bytes(point["model"], tuple(point["image_shape"]), point["batch_size"] // world_size)
    if kept > limit:
        raise MemoryError(f"a step keeps {kept} bytes for its backward pass, and there are {limit}")


@cache
def kept_bytes(name: str, shape: tuple[int, ...], images: int) -> int:
    """What autograd keeps of a forward pass, found on tensors that have a shape and no content."""
    height, width, channels = shape
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage  # held, so that no other can take its place
        return tensor

    with torch.device("meta"), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model = MODELS[name](shape)  # type: ignore[arg-type]
        outputs = model(torch.empty(images, channels, height, width))
        cross_entropy(outputs, torch.empty(images, dtype=torch.int64))
    return sum(storage.nbytes() for storage in kept.values())


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the framework could not get memory; it has several ways to say so."""
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        sign in text for sign in ("can't allocate memory", "bad_alloc", "out of memory", "cannot allocate")
    )


def main(control: str, rank: int) -> None:
    """Serve the supervisor at `control` as `rank` until it says stop."""
    channel = Channel(control, rank)
    worker = Worker(channel.receive())
    channel.send({"event": "ready", "torch": torch.__version__, "python": sys.version.split()[0]})
    commands = {
        "connect": worker.connect,
        "prepare": worker.prepare,
        "train": worker.train,
        "conclude": worker.conclude,
    }
    while (command := channel.receive())["do"] != "stop":
        channel.send(commands[command["do"]](command))
    os._exit(0)  # Gloo may abort in its own clean-up; everything has been reported


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
