"""A Horovod worker with PyTorch whose compute is replayed: Horovod's own fusion and ring, on layers that take time.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.horovod.torch_replay

Horovod's hooks run when the time of a gradient has passed, and its thread sums the arrays that lie in memory.
"""

import time
from collections.abc import Mapping

import horovod
import horovod.torch as hvd
import torch

from ddlbench.protocol.messages import Assignment, Shape
from ddlbench.workers.common.replay.arrays import own_value, sum_of_values
from ddlbench.workers.common.service import work
from ddlbench.workers.horovod.replay import HorovodWorker
from ddlbench.workers.torch.replayed_network import Network


class Model:
    """A network that takes time, and the optimizer that averages its gradients over all ranks.

    Args:
        assignment: of the rank.
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, assignment: Assignment, name: str, shape: Shape) -> None:
        self.assignment = assignment
        self.network = Network(name, shape)
        self.compute, self.parameter_count = self.network.compute, self.network.parameter_count
        self.network.fill_gradients(None)
        arrays = [(f"array{place}", each) for place, each in enumerate(self.network.arrays)]
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([array for _, array in arrays], lr=0.0), named_parameters=arrays
        )
        self.marks_s = (0.0, 0.0, 0.0)

    def start_again(self) -> None:
        """Fill all gradients with this rank's value."""
        self.network.fill_gradients(own_value(self.assignment))

    def step(self) -> None:
        """Replay one step of synchronous SGD."""
        began_s = time.perf_counter()
        token = self.network()
        forward_s = time.perf_counter()
        token.backward()
        self.marks_s = began_s, forward_s, time.perf_counter()
        self.optimizer.synchronize()
        self.compute.optimizer()

    def parts(self) -> Mapping[str, float]:
        """Return what is known of the last step, in ms: most of communication overlaps with the backward pass."""
        began_s, forward_s, backward_s = self.marks_s
        return {"forward_ms": (forward_s - began_s) * 1e3, "backward_ms": (backward_s - forward_s) * 1e3}

    def check(self) -> None:
        """Check that Horovod has averaged the gradients.

        Raises:
            RuntimeError: it has not.
        """
        world_size = self.assignment.world_size
        self.network.check_gradients(sum_of_values(world_size) / world_size)


class Worker(HorovodWorker[Model]):
    """One rank of the worker group.

    Args:
        assignment: of the rank.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment, hvd)
        torch.set_num_threads(assignment.threads)

    def model(self, name: str, shape: Shape) -> Model:
        """Make a model.

        Args:
            name: of a model in `architectures`.
            shape: of an image, (height, width, channels).

        Returns:
            The model.
        """
        return Model(self.assignment, name, shape)

    def await_others(self) -> None:
        """Wait until all ranks are here: who was ready sooner would wait in its first step."""
        hvd.barrier()


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    versions = {"horovod": horovod.__version__, "torch": torch.__version__}
    work(address, rank, Worker, lambda assignment: versions, reconnects=True)
