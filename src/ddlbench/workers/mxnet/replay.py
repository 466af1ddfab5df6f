"""An MXNet worker whose compute is replayed: real gradients to the kvstore's server, its parameters back.

The worker gives MXNet's engine each gradient when its time has passed, from the last array to the first, with the
priorities that the real worker gives. The engine pushes and pulls meanwhile. The server adds gradients up and descends
in earnest; the worker takes the optimizer's time when all parameters are there.
"""

from collections.abc import Mapping

import mxnet as mx

from ddlbench.protocol.messages import Assignment, Connect, Connected, Shape
from ddlbench.workers.common.control import Control
from ddlbench.workers.common.replay.arrays import (
    check,
    check_parameters,
    own_value,
    parameter_shapes,
    sum_of_values,
)
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.common.replay.worker import ReplayWorker
from ddlbench.workers.common.service import commands_of, say_ready, serve
from ddlbench.workers.mxnet.worker import KVSTORES

_WIDENING = 4  # steps of the largest model


class FromZeros(mx.optimizer.SGD):
    """SGD at a rate of 1, for which each parameter begins with zeros; so the server has the sum of all pushes."""

    def __init__(self) -> None:
        super().__init__(learning_rate=1.0)

    def create_state(self, index: int, weight: mx.nd.NDArray) -> None:
        """Set a parameter to zeros, before its first update.

        Args:
            index: The parameter's key in the kvstore.
            weight: The server's copy of the parameter, which is overwritten.
        """
        weight[:] = 0


class Model:
    """A model's gradients and parameters on this worker, and their keys in the kvstore.

    Args:
        assignment: of the worker.
        store: that has the parameters.
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
        first_key: of the first array; the others follow one by one.
    """

    def __init__(
        self, assignment: Assignment, store: mx.kv.KVStore, name: str, shape: Shape, first_key: int
    ) -> None:
        self.assignment, self.store = assignment, store
        shapes = list(parameter_shapes(name, shape))
        self.gradients, self.parameters = ([mx.nd.zeros(each) for each in shapes] for _ in range(2))
        self.keys = range(first_key, first_key + len(shapes))
        self.compute = ReplayedCompute(len(shapes))
        self.parameter_count = sum(each.size for each in self.parameters)
        self.steps = 0
        for key, each in zip(self.keys, self.parameters, strict=True):
            store.init(key, each)

    def start_again(self) -> None:
        """Give the server a new optimizer before any worker pushes; each step fills the gradients."""
        if self.assignment.index == 0:
            self.store.set_optimizer(FromZeros())
        self.store._barrier()
        mx.nd.waitall()
        self.steps = 0

    def step(self) -> None:
        """Replay a step; it is over when the engine is idle, as all parameters have come.

        MXNet receives parameters in the memory of the gradients. So these are filled anew, during the forward pass.
        """
        for each in self.gradients:
            each[:] = own_value(self.assignment)
        self.compute.forward()
        for place in reversed(range(len(self.keys))):
            self.compute.backward(range(place, place + 1))
            parameter, gradient = self.parameters[place], self.gradients[place]
            self.store.pushpull(self.keys[place], gradient, out=parameter, priority=-place)
        mx.nd.waitall()
        self.compute.optimizer()
        self.steps += 1

    def parts(self) -> Mapping[str, float]:
        """Return nothing: pushing overlaps with the backward pass."""
        return {}

    def check(self) -> None:
        """Check the parameters that came in the last step, and the server's present value of the smallest.

        Raises:
            RuntimeError: an update is missing.
        """
        check_parameters(self.assignment, self.steps, map(ends_of, self.parameters))
        by_all = self.steps * sum_of_values(self.assignment.world_size)
        place = min(range(len(self.parameters)), key=lambda place: self.parameters[place].size)
        self.store.pull(self.keys[place], out=self.parameters[place])
        check("parameter", [[-end for end in ends_of(self.parameters[place])]], by_all, by_all)


class Worker(ReplayWorker[Model]):
    """A worker that computes nothing and pushes as much as one that does.

    Args:
        assignment: of the worker.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.store = mx.kv.create(KVSTORES[assignment.strategy])

    def connect(self, command: Connect) -> Connected:
        """Make the models, and let TCP's windows grow to what they need.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """
        key = 0
        for each in command.models:
            model = Model(self.assignment, self.store, each.model, each.image_shape, key)
            self.models[each.model, each.image_shape] = model
            key = model.keys.stop
        largest = max(self.models.values(), key=lambda model: model.parameter_count)
        largest.start_again()
        for _ in range(_WIDENING):
            largest.step()
        return Connected()


def ends_of(array: mx.nd.NDArray) -> list[float]:
    """Read the first and the last element of an array.

    Args:
        array: of any shape.

    Returns:
        Both.
    """
    flat = array.reshape(-1)
    return [float(flat[place].asscalar()) for place in (0, array.size - 1)]


def work(control: Control, assignment: Assignment) -> None:
    """Run a worker until the supervisor sends `Stop`.

    Args:
        control: its connection to the supervisor.
        assignment: of this worker.
    """
    worker = Worker(assignment)
    say_ready(control, {"mxnet": mx.__version__}, reconnects=False)
    serve(control, commands_of(worker))
