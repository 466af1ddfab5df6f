"""An MXNet worker: data-parallel training through a kvstore, whose server has the optimizer.

It receives commands over the control socket (see `protocol.messages`). Its step pushes each parameter's gradient and
pulls the parameter back, as gluon.Trainer does. That class supports one model a group only: its keys always begin at 0.
MXNet's engine pushes the last layers' gradients while it computes those of the first; so a step has no parts that could
be timed separately, and is over when the engine is idle.

On a GPU all arrays of this module are there, as it is MXNet's current context while commands are carried out.
"""

import time

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
from ddlbench.workers.common.batches import batches_of, share_of
from ddlbench.workers.common.control import Control
from ddlbench.workers.common.devices import no_gpu_found, not_built_for_gpus, on_gpu
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.common.progress import counted
from ddlbench.workers.common.service import await_turn, commands_of, say_ready, serve
from ddlbench.workers.mxnet.kvstore_model import Model, can_be_held, cross_entropy
from ddlbench.workers.mxnet.models import dump
from ddlbench.workers.mxnet.optimizer import FreshSGD

KVSTORES = {  # strategy -> MXNet's name; with one device a worker, the first two do the same
    "parameter_server_sync": "dist_sync",
    "parameter_server_device_sync": "dist_device_sync",
    "parameter_server_async": "dist_async",
}
_WIDENING = 4  # round trips of all parameters


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
        """Make the models, and let TCP's windows grow to what they need: on a slow link that would take many steps.

        Args:
            command: the models that will be measured; those that the server cannot hold are left out.

        Returns:
            That it is done.
        """
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
        """Give the server its optimizer, before any worker pushes.

        Args:
            optimizer: a new one, without any state; worker 0 sends it.
        """
        if self.index == 0:
            self.store.set_optimizer(optimizer)
        self.store._barrier()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it without the server warms caches and shows whether memory suffices.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Whether the point fits into memory, and the number of its parameters.
        """
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
        """Time steps, each from start to end on this worker.

        Args:
            command: how many steps, and whether from fresh parameters.

        Returns:
            Their times in ms of wall clock, and the mean loss of the last one in nats.
        """
        if command.from_fresh or not self.is_fresh:
            self.start_again()
        mx.nd.waitall()
        await_turn(self.index, command)
        step_times_ms: list[float] = []
        for _ in counted(command.steps):
            started = time.perf_counter()
            losses = self.step()
            step_times_ms.append((time.perf_counter() - started) * 1e3)
        return Trained([step_times_ms], losses.mean().asscalar().item())

    def step(self) -> mx.nd.NDArray:
        """Make one step of SGD.

        Returns:
            This worker's losses (images,), in nats.
        """
        losses = self.forward_backward()
        self.model.push_and_pull()
        mx.nd.waitall()
        return losses

    def forward_backward(self) -> mx.nd.NDArray:
        """Compute the gradients of the next batch.

        Returns:
            This worker's losses (images,), in nats.
        """
        return self.model.forward_backward(*next(self.batches), self.divisor)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters of the last step; worker 0 pulls the current ones, to test and save them if asked.

        Args:
            command: whether to test them, and where to save them (.npz).

        Returns:
            The hash, and worker 0's test if it was asked for.
        """
        hashed, tested = self.model.fingerprint(), None
        if self.index == 0:
            self.model.pull()
            tested = self.evaluate() if command.evaluate else None
            if command.save_to:
                np.savez(command.save_to, *dump(self.model.network))
        return Concluded(hashed, tested)

    def evaluate(self) -> TestResult:
        """Test on all test images, as many at a time as fit in training.

        Returns:
            The mean loss in nats, and the accuracy in percent.
        """
        loss, right, total = 0.0, 0, 0
        for images, labels in self.batches.test_parts(self.images):
            outputs = self.model.network(mx.nd.array(images))
            loss += cross_entropy(outputs, mx.nd.array(labels)).sum().asscalar().item()
            right += int((outputs.asnumpy().argmax(1) == labels).sum())
            total += len(labels)
        return TestResult(loss / total, 100 * right / total)


def why_not(assignment: Assignment) -> str | None:
    """Explain why this worker cannot use the device that it is assigned.

    Args:
        assignment: of this worker.

    Returns:
        The reason and what to do, for a person; None if it can.
    """
    if not on_gpu(assignment):
        return None
    if not mx.runtime.Features().is_enabled("CUDA"):
        return not_built_for_gpus("MXNet", mx.__version__, "mxnet")
    return None if mx.context.num_gpus() else no_gpu_found(f"MXNet {mx.__version__}", "CUDA 11.2")


def work(control: Control, assignment: Assignment) -> None:
    """Run a worker until the supervisor sends `Stop`.

    Args:
        control: its connection to the supervisor.
        assignment: of this worker.
    """
    if why := why_not(assignment):
        control.refuse(why)
    with mx.gpu(0) if on_gpu(assignment) else mx.cpu():
        worker = Worker(assignment)
        say_ready(control, {"mxnet": mx.__version__}, reconnects=False)
        serve(control, commands_of(worker))
