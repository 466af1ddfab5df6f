"""The optimizer that an MXNet server is given for each training: SGD that begins with the fresh parameters."""

import mxnet as mx
import numpy as np

from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.layers import Shape


class FreshSGD(mx.optimizer.SGD):
    """SGD with momentum; a parameter's first update sets it to its fresh value before.

    A key of a kvstore can be given a value once only, but an optimizer as often as one likes: it begins without
    momentum, and is asked for the state of each parameter just before that one's first update, which is where the
    server's copy is set. So nothing of an earlier training is left, to the last bit, and nothing travels for it.
    MXNet's momentum has the learning rate in it, which is the same as PyTorch's while that does not change.
    """

    def __init__(self, model: str, shape: Shape, seed: int, first_key: int, **of_sgd: float) -> None:
        super().__init__(**of_sgd)
        self.begins_with = model, shape, seed
        self.first_key = first_key

    def __setstate__(self, state: dict) -> None:
        """At the server, make the fresh parameters, before the workers are told that the optimizer is there."""
        super().__setstate__(state)
        self.fresh = dict(enumerate(initial(*self.begins_with), self.first_key))

    def create_state(self, index: int, weight: mx.nd.NDArray) -> mx.nd.NDArray | None:
        """The momentum of a parameter, which is set to its fresh value."""
        weight[:] = np.reshape(self.fresh.pop(index), weight.shape)
        return super().create_state(index, weight)
