"""A Horovod worker with PyTorch whose compute is replayed: Horovod's own fusion and ring, on layers that take time.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.horovod.torch_replay

Horovod's hooks run when the time of a gradient has passed, and its thread sums the arrays that lie in memory.
"""

import sys
import time
from dataclasses import replace

import horovod
import horovod.torch as hvd
import torch

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Prepare,
    Prepared,
    Shape,
    Train,
    Trained,
)
from ddlbench.workers.common.replayed_device import device_of
from ddlbench.workers.common.service import work
from ddlbench.workers.horovod.group import meeting
from ddlbench.workers.torch.replayed_network import Network


class Model:
    """A network that takes time, and the optimizer that averages its gradients over all ranks.

    Args:
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.network = Network(name, shape)
        self.network.fill_gradients(None)
        arrays = [(f"array{place}", each) for place, each in enumerate(self.network.arrays)]
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([array for _, array in arrays], lr=0.0), named_parameters=arrays
        )

    def step(self) -> tuple[float, float, float]:
        """Replay one step of synchronous SGD.

        Returns:
            The times of the forward pass, of the backward pass, and from then until the last sum, in ms.
        """
        began_s = time.perf_counter()
        token = self.network()
        forward_s = time.perf_counter()
        token.backward()
        backward_s = time.perf_counter()
        self.optimizer.synchronize()
        summed_s = time.perf_counter()
        self.network.optimizer_step()
        return (forward_s - began_s) * 1e3, (backward_s - forward_s) * 1e3, (summed_s - backward_s) * 1e3


class Worker:
    """One rank of the worker group.

    Args:
        assignment: of the rank.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.meetings = 0
        self.models: dict[tuple[str, Shape], Model] = {}
        self.point: Model | None = None
        torch.set_num_threads(assignment.threads)

    def connect(self, command: Connect) -> Connected:
        """Replace all connections, and make the models that will be measured; two steps let TCP's windows grow.

        Args:
            command: the models and their image shapes; those that exist are kept.

        Returns:
            That it is done.
        """
        self.point = None
        self.meet()
        for each in command.models:
            if (key := (each.model, each.image_shape)) not in self.models:
                self.models[key] = Model(*key)
        self.widen()
        return Connected()

    def meet(self) -> None:
        """Initialise Horovod with new connections."""
        if hvd.is_initialized():
            hvd.shutdown()
        with meeting(self.assignment, self.meetings):
            hvd.init()
            hvd.barrier()
        self.meetings += 1

    def widen(self) -> None:
        """Let TCP's windows grow to what a step of each model needs, by steps that take no time."""
        for model in self.models.values():
            model.network.step = None
            for _ in range(2):
                model.step()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point: the step that is replayed. Another dilation of time is another cycle of Horovod.

        Args:
            command: the point.

        Returns:
            That it fits, and the number of parameters.
        """
        step = command.point.replay
        assert step is not None
        if step.dilation not in (None, self.assignment.dilation):
            self.assignment = replace(self.assignment, dilation=step.dilation)
            self.meet()
            self.widen()
        self.point = self.models[command.point.key]
        network = self.point.network
        network.step = step
        network.device = device_of(self.assignment, step)
        return Prepared(fits=True, parameter_count=sum(each.numel() for each in network.arrays))

    def train(self, command: Train) -> Trained:
        """Replay some steps, each timed from its start to its end on this rank.

        Args:
            command: how many, and whether each rank begins with gradients of its own.

        Returns:
            Step times in ms of wall-clock time, and the means of the forward and the backward pass. How long
            communication lasts is not known: most of it overlaps with the backward pass.
        """
        assert self.point is not None
        if command.from_fresh:
            self.point.network.fill_gradients(self.assignment.rank + 1.0)
        step_times_ms, forward_ms, backward_ms = [], 0.0, 0.0
        for _ in range(command.steps):
            started_s = time.perf_counter()
            forward, backward, _ = self.point.step()
            step_times_ms.append((time.perf_counter() - started_s) * 1e3)
            forward_ms += forward / command.steps
            backward_ms += backward / command.steps
        return Trained([step_times_ms], None, forward_ms, backward_ms)

    def conclude(self, command: Conclude) -> Concluded:
        """Check that the gradients are the mean of what all ranks began with; there are no parameters to hash.

        Args:
            command: not used; a replayed point is not tested.

        Returns:
            An empty reply.

        Raises:
            RuntimeError: Horovod has not averaged the gradients.
        """
        assert self.point is not None
        self.point.network.check_gradients((self.assignment.world_size + 1) / 2)
        return Concluded()


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    versions = {"horovod": horovod.__version__, "torch": torch.__version__}
    work(address, rank, Worker, lambda assignment: versions, reconnects=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
