"""The optimizer that an MXNet server receives for each training: SGD that begins with fresh parameters."""

import mxnet as mx
import numpy as np

from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.common.models.layers import Shape


class FreshSGD(mx.optimizer.SGD):
    """SGD with momentum; before a parameter's first update it sets the parameter to its fresh value.

    A key of a kvstore can be initialised once only, but its optimizer can be replaced at any time. A new one has no
    momentum, and creates the state of each parameter just before that parameter's first update: there it sets the
    server's copy. So nothing remains of an earlier training, to the last bit, and no parameters are sent. MXNet's
    momentum includes the learning rate, which is the same as PyTorch's momentum while the rate is constant.

    Args:
        model: Name of the model whose parameters it updates.
        shape: Of an image: height, width, channels.
        seed: Of the fresh parameters.
        first_key: Of the model's first parameter in the kvstore; the others follow one by one.
        of_sgd: Arguments of MXNet's SGD, such as `learning_rate` and `momentum`.
    """

    def __init__(self, model: str, shape: Shape, seed: int, first_key: int, **of_sgd: float) -> None:
        super().__init__(**of_sgd)
        self.begins_with = model, shape, seed
        self.first_key = first_key

    def __setstate__(self, state: dict) -> None:
        """Make the fresh parameters on the server, before the workers learn that it has the optimizer."""
        super().__setstate__(state)
        self.fresh = dict(enumerate(initial(*self.begins_with), self.first_key))

    def create_state(self, index: int, weight: mx.nd.NDArray) -> mx.nd.NDArray | None:
        """Set a parameter to its fresh value, and make its momentum.

        Args:
            index: The parameter's key in the kvstore.
            weight: The server's copy of the parameter, which is overwritten.

        Returns:
            Zeros with the shape of `weight`; None for a momentum of 0.
        """
        weight[:] = np.reshape(self.fresh.pop(index), weight.shape)
        return super().create_state(index, weight)
