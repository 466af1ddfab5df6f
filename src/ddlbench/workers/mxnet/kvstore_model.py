"""A model whose parameters are in MXNet's kvstore: its keys there, its gradients here, and whether memory suffices."""

import hashlib
import math
import os
import resource
from collections.abc import Iterable
from functools import cache

import mxnet as mx
import numpy as np

from ddlbench.workers.common.models.architectures import layers
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.mxnet.models import build, dump, load, sequence, trained_parameters

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

        Args:
            images: how many; later calls with the same number get the same answer.

        Returns:
            Whether it finds memory.
        """
        if mx.current_context().device_type == "gpu":
            return self.is_tried(images)
        process = os.fork()
        if process == 0:
            os._exit(not self.is_tried(images))
        _, status = os.waitpid(process, 0)
        return status == 0

    def is_tried(self, images: int) -> bool:
        """Try a step in this process, and print the error if there is one.

        Args:
            images: how many the step has.

        Returns:
            False where MXNet could not allocate its memory.
        """
        try:
            self.try_out(images)
        except (mx.MXNetError, MemoryError) as error:
            print(f"{self.name}, {images} images: {error}", flush=True)
            return not any(sign in str(error) for sign in _SIGNS)
        return True

    def try_out(self, images: int) -> None:
        """Compute the gradients of images of zeros.

        Args:
            images: how many.

        Raises:
            MXNetError: something went wrong, for instance memory was too small.
        """
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
        """Set this worker's parameters to the seed's first weights.

        Args:
            seed: of the first weights.
        """
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
        """Hash all parameters.

        Returns:
            SHA-256 of their bytes, in the canonical order.
        """
        digest = hashlib.sha256()
        for parameter in dump(self.network):
            digest.update(parameter.tobytes())
        return digest.hexdigest()


def can_be_held(name: str, shape: Shape, workers: int) -> bool:
    """Check whether a server has memory for a model, on a host as large as the workers'.

    It holds the parameters, the sum of gradients, momentum, fresh parameters, and what each worker has sent.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        workers: how many send gradients to the server.

    Returns:
        Whether it has; True if this host has no limit.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    held = 4 * count(trained_parameters(sequence(layers(name, shape)))) * (4 + workers)
    return limit == resource.RLIM_INFINITY or held < limit


def count(parameters: Iterable[mx.gluon.Parameter]) -> int:
    """Count the numbers in parameters.

    Args:
        parameters: of any shape.

    Returns:
        The sum of their sizes.
    """
    return sum(math.prod(parameter.shape) for parameter in parameters)
