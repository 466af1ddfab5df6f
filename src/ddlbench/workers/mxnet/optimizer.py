"""The optimizer that an MXNet server receives for each training: SGD that begins with the fresh parameters."""

import mxnet as mx
import numpy as np

from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.layers import Shape


class FreshSGD(mx.optimizer.SGD):
    """SGD with momentum; a parameter's first update first sets the parameter to its fresh value.

    A key of a kvstore can be given a value only once, but the kvstore can be given an optimizer again and again. A new
    optimizer has accumulated no momentum, and MXNet asks it for the state of each parameter just before that
    parameter's first update; there the server's copy is set. So nothing of an earlier training is left, to the last
    bit, and no parameters are sent for it. MXNet's momentum contains the learning rate; this is equivalent to
    PyTorch's while the rate is constant.

    Args:
        model: its name, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        seed: of the fresh parameters.
        first_key: the kvstore's key of the model's first parameter; the others follow it.
        **of_sgd: learning rate and momentum.
    """

    def __init__(self, model: str, shape: Shape, seed: int, first_key: int, **of_sgd: float) -> None:
        super().__init__(**of_sgd)
        self.begins_with = model, shape, seed
        self.first_key = first_key

    def __setstate__(self, state: dict) -> None:
        """Make the fresh parameters at the server, before the workers learn that the optimizer is set."""
        super().__setstate__(state)
        self.fresh = dict(enumerate(initial(*self.begins_with), self.first_key))

    def create_state(self, index: int, weight: mx.nd.NDArray) -> mx.nd.NDArray | None:
        """Set a parameter to its fresh value, and make its momentum.

        Args:
            index: its key.
            weight: the server's copy, which is overwritten.

        Returns:
            The momentum, zeros of the shape of `weight`; None if the optimizer has no momentum.
        """
        weight[:] = np.reshape(self.fresh.pop(index), weight.shape)
        return super().create_state(index, weight)
