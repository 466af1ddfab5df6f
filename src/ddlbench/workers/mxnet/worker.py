"""An MXNet worker: data-parallel training through a kvstore, whose server has the optimizer.

It receives commands over the control socket (see `protocol.messages`). Its step pushes each parameter's gradient and
pulls the parameter back, as gluon.Trainer does. That class supports one model a group only: its keys always begin at 0.
MXNet's engine pushes the last layers' gradients while it computes those of the first; so a step has no parts that could
be timed separately, and is over when the engine is idle.

On a GPU all arrays of this module are there, as it is MXNet's current context while commands are carried out.
"""

import hashlib
import math
import os
import resource
import time
from collections.abc import Iterable
from functools import cache

import mxnet as mx
import numpy as np

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Prepare,
    Prepared,
    TestResult,
    Train,
    Trained,
)
from ddlbench.workers.common.architectures import layers
from ddlbench.workers.common.batches import batches_of, share_of
from ddlbench.workers.common.control import Control
from ddlbench.workers.common.devices import no_gpu_found, not_built_for_gpus, on_gpu
from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.layers import Shape
from ddlbench.workers.common.service import commands_of, say_ready, serve
from ddlbench.workers.mxnet.models import build, dump, load, sequence, trained_parameters
from ddlbench.workers.mxnet.optimizer import FreshSGD

KVSTORES = {  # strategy -> MXNet's name; with one device a worker, the first two do the same
    "parameter_server_sync": "dist_sync",
    "parameter_server_device_sync": "dist_device_sync",
    "parameter_server_async": "dist_async",
}
_WIDENING = 4  # round trips of all parameters
_SIGNS = ("allocate", "out of memory", "cudaMalloc")  # in errors where memory is too small
cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()


class Model:
    """A model of the group, and the keys of its parameters at the server."""

    def __init__(self, store: mx.kv.KVStore, name: str, shape: Shape, first_key: int) -> None:
        self.store, self.name, self.shape = store, name, shape
        self.network = build(name, shape)
        self.forget()
        self.parameters = trained_parameters(self.network)
        self.try_out(2)  # two images need little memory; an error has another cause
        self.keys = range(first_key, first_key + len(self.parameters))
        for key, parameter in zip(self.keys, self.parameters, strict=True):
            store.init(key, parameter.data())

    def forward_backward(self, images: np.ndarray, labels: np.ndarray, divisor: int) -> mx.nd.NDArray:
        """Compute the gradients of the sum of losses, divided by `divisor`.

        Args:
            images: Of this worker: (images, channels, height, width), float32.
            labels: (images,), int64.
            divisor: The global batch size with a synchronous server; the number of these images otherwise.

        Returns:
            The loss of each image in nats: (images,).
        """
        with mx.autograd.record():
            losses = cross_entropy(self.network(mx.nd.array(images)), mx.nd.array(labels))
        losses.backward(mx.nd.full(len(labels), 1 / divisor))
        return losses

    @cache  # noqa: B019 - models live as long as the process
    def fits(self, images: int) -> bool:
        """Check that a step of `images` images finds memory, in a process of its own: without memory MXNet may crash.

        CUDA does not survive a fork; but where a GPU's memory is too small, MXNet raises an error and can go on.
        """
        if mx.current_context().device_type == "gpu":
            return self.is_tried(images)
        process = os.fork()
        if process == 0:
            os._exit(not self.is_tried(images))
        _, status = os.waitpid(process, 0)
        return status == 0

    def is_tried(self, images: int) -> bool:
        """Try a step of `images` images; return False where MXNet could not allocate its memory."""
        try:
            self.try_out(images)
        except (mx.MXNetError, MemoryError) as error:
            print(f"{self.name}, {images} images: {error}", flush=True)
            return not any(sign in str(error) for sign in _SIGNS)
        return True

    def try_out(self, images: int) -> None:
        """Compute the gradients of `images` images of zeros."""
        height, width, channels = self.shape
        empty = np.zeros((images, channels, height, width), np.float32)
        self.forward_backward(empty, np.zeros(images), images)
        mx.nd.waitall()

    def forget(self) -> None:
        """Release the memory that MXNet keeps for activations of the next batch."""
        self.network.hybridize(static_alloc=True, static_shape=True)

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return count(self.parameters)

    def load(self, seed: int) -> None:
        """Set this worker's parameters to the seed's first weights."""
        load(self.network, initial(self.name, self.shape, seed))

    def push_and_pull(self) -> None:
        """Send the server the gradients, and receive its updated parameters; the first layers have priority."""
        for place, (key, parameter) in enumerate(zip(self.keys, self.parameters, strict=True)):
            self.store.pushpull(key, parameter.grad(), out=parameter.data(), priority=-place)

    def pull(self) -> None:
        """Receive the server's current parameters."""
        for key, parameter in zip(self.keys, self.parameters, strict=True):
            self.store.pull(key, out=parameter.data())

    def fingerprint(self) -> str:
        """SHA-256 of all parameters' bytes."""
        digest = hashlib.sha256()
        for parameter in dump(self.network):
            digest.update(parameter.tobytes())
        return digest.hexdigest()


class Worker:
    """Computes gradients of its share of each batch."""

    def __init__(self, assignment: Assignment) -> None:
        self.index = assignment.index
        self.world_size = assignment.world_size
        self.paths = assignment.datasets
        self.is_synchronous = assignment.strategy != "parameter_server_async"
        self.store = mx.kv.create(KVSTORES[assignment.strategy])
        self.models: dict[tuple[str, Shape], Model] = {}

    def connect(self, command: Connect) -> Connected:
        """Make the models, and let TCP's windows grow to what they need: on a slow link that would take many steps."""
        key = 0
        for each in command.models:
            name, shape = each.model, each.image_shape
            if can_be_held(name, shape, self.world_size):
                model = self.models[name, shape] = Model(self.store, name, shape, key)
                key = model.keys.stop
        self.set_optimizer(mx.optimizer.SGD(learning_rate=0.0))
        for model in sorted(self.models.values(), key=lambda model: model.parameter_count)[-1:]:
            for _ in range(_WIDENING):
                model.push_and_pull()
                mx.nd.waitall()
        return Connected()

    def set_optimizer(self, optimizer: mx.optimizer.Optimizer) -> None:
        """Give the server its optimizer, before any worker pushes."""
        if self.index == 0:
            self.store.set_optimizer(optimizer)
        self.store._barrier()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it without the server warms caches and shows whether memory suffices."""
        self.point, self.seed = command.point, command.seed
        share = share_of(self.point.batch_size, self.index, self.world_size)
        self.images = share.stop - share.start
        for each in self.models.values():
            each.forget()
        model = self.models.get(self.point.key)
        if model is None or not model.fits(self.images):
            return Prepared(fits=False)
        self.model = model
        self.batches = batches_of(
            self.point, self.paths, seed=self.seed, rank=self.index, world_size=self.world_size, layout="nchw"
        )
        # A synchronous server sums to the mean over the whole batch; asynchronous gradients are each worker's mean.
        self.divisor = self.point.batch_size if self.is_synchronous else self.images
        self.is_fresh = False
        self.model.load(self.seed)
        self.forward_backward()
        mx.nd.waitall()
        return Prepared(fits=True, parameter_count=self.model.parameter_count)

    def start_again(self) -> None:
        """Set parameters, optimizer and the order of the images to the seed's, on the server too."""
        self.model.load(self.seed)
        self.batches.start_again()
        self.set_optimizer(
            FreshSGD(
                self.model.name,
                self.model.shape,
                self.seed,
                self.model.keys.start,
                learning_rate=self.point.learning_rate,
                momentum=self.point.momentum,
            )
        )
        self.is_fresh = True

    def train(self, command: Train) -> Trained:
        """Time steps, each from start to end on this worker (ms of wall clock); report the last mean loss (nats)."""
        if command.from_fresh or not self.is_fresh:
            self.start_again()
        mx.nd.waitall()
        step_times_ms: list[float] = []
        for _ in range(command.steps):
            started = time.perf_counter()
            losses = self.step()
            step_times_ms.append((time.perf_counter() - started) * 1e3)
        return Trained([step_times_ms], losses.mean().asscalar().item())

    def step(self) -> mx.nd.NDArray:
        """Make one step of SGD; return this worker's losses (images,), in nats."""
        losses = self.forward_backward()
        self.model.push_and_pull()
        mx.nd.waitall()
        return losses

    def forward_backward(self) -> mx.nd.NDArray:
        """Compute the gradients of the next batch; return this worker's losses (images,), in nats."""
        return self.model.forward_backward(*next(self.batches), self.divisor)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters of the last step; worker 0 pulls the current ones, to test and save them if asked."""
        hashed, tested = self.model.fingerprint(), None
        if self.index == 0:
            self.model.pull()
            tested = self.evaluate() if command.evaluate else None
            if command.save_to:
                np.savez(command.save_to, *dump(self.model.network))
        return Concluded(hashed, tested)

    def evaluate(self) -> TestResult:
        """Test on all test images, as many at a time as fit in training: mean loss (nats), accuracy (percent)."""
        loss, right, total = 0.0, 0, 0
        for images, labels in self.batches.test_parts(self.images):
            outputs = self.model.network(mx.nd.array(images))
            loss += cross_entropy(outputs, mx.nd.array(labels)).sum().asscalar().item()
            right += int((outputs.asnumpy().argmax(1) == labels).sum())
            total += len(labels)
        return TestResult(loss / total, 100 * right / total)


def can_be_held(name: str, shape: Shape, workers: int) -> bool:
    """Check whether a server has memory for a model (True without a limit), on a host as large as the workers'.

    It holds the parameters, the sum of gradients, momentum, fresh parameters, and what each worker has sent.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    held = 4 * count(trained_parameters(sequence(layers(name, shape)))) * (4 + workers)
    return limit == resource.RLIM_INFINITY or held < limit


def count(parameters: Iterable[mx.gluon.Parameter]) -> int:
    """Count the numbers in parameters of any shape."""
    return sum(math.prod(parameter.shape) for parameter in parameters)


def why_not(assignment: Assignment) -> str | None:
    """Explain why this worker cannot use the device that it is assigned, for a person; None if it can."""
    if not on_gpu(assignment):
        return None
    if not mx.runtime.Features().is_enabled("CUDA"):
        return not_built_for_gpus("MXNet", mx.__version__, "mxnet")
    return None if mx.context.num_gpus() else no_gpu_found(f"MXNet {mx.__version__}", "CUDA 11.2")


def work(control: Control, assignment: Assignment) -> None:
    """Run a worker until the supervisor sends `Stop`."""
    if why := why_not(assignment):
        control.refuse(why)
    with mx.gpu(0) if on_gpu(assignment) else mx.cpu():
        worker = Worker(assignment)
        say_ready(control, {"mxnet": mx.__version__}, reconnects=False)
        serve(control, commands_of(worker))
