"""The models of the studies in TensorFlow (Keras 2), for images (n, height, width, channels), its usual layout."""

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ddlbench.workers.common.architectures import layers
from ddlbench.workers.common.layers import (
    AdaptiveAveragePool,
    BatchNorm,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    Layers,
    MaxPool,
    ReLU,
    Residual,
    Shape,
)

# From the canonical axes of a parameter to Keras', and back, by their number: a kernel (outputs, inputs, height, width)
# is (height, width, inputs, outputs) in Keras, and a matrix (outputs, inputs) is (inputs, outputs).
TO_KERAS = {1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}
FROM_KERAS = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}


class Sum(keras.layers.Layer):
    """A residual: the sum of what its body and its shortcut make of the same input."""

    def __init__(self, body: keras.Model, shortcut: keras.Model) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.body(inputs) + self.shortcut(inputs)


class AveragePoolTo(keras.layers.Layer):
    """Adaptive average pooling, which Keras lacks, between the sizes that the models have."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def call(self, images: tf.Tensor) -> tf.Tensor:
        _, height, width, _ = images.shape
        if (height, width) == (self.size, self.size):
            return images
        if self.size == 1:
            return tf.reduce_mean(images, axis=(1, 2), keepdims=True)
        if (height, width) == (1, 1):
            return tf.tile(images, (1, self.size, self.size, 1))
        raise ValueError(f"images of {height}x{width} are not averaged to {self.size}x{self.size} here")


def build(name: str, shape: Shape, *, dropout: bool = False) -> keras.Model:
    """Build a model, its weights zero; its trainable variables are in the canonical order.

    Args:
        name: a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        dropout: keep the dropout layers.

    Returns:
        A model from images, (n, height, width, channels), to logits, (n, classes).
    """
    return keras.Sequential([keras.Input(shape), *parts(layers(name, shape, dropout=dropout))])


def parts(layers: Layers) -> Iterator[keras.layers.Layer]:
    """Build layers one after another.

    Args:
        layers: of a model, or of a part of it.

    Yields:
        Keras layers; images that they take are (n, height, width, channels), vectors (n, features).
    """
    for layer in layers:
        yield from part(layer)


def part(layer: Layer) -> Iterator[keras.layers.Layer]:
    """Build a layer from Keras layers, sometimes several.

    Args:
        layer: of a model.

    Yields:
        Keras layers; images that they take are (n, height, width, channels), vectors (n, features).
    """
    match layer:
        case Conv(_, outputs, kernel, stride, padding, bias):
            same = stride == 1 and kernel == 2 * padding + 1
            if padding and not same:  # Keras' own "same" pads one side only where the stride is 2
                yield keras.layers.ZeroPadding2D(padding)
            options = {"padding": "same" if same else "valid", "use_bias": bias}
            yield keras.layers.Conv2D(outputs, kernel, stride, kernel_initializer="zeros", **options)
        case BatchNorm(_, epsilon, momentum):
            yield keras.layers.BatchNormalization(epsilon=epsilon, momentum=momentum)
        case ReLU():
            yield keras.layers.ReLU()
        case MaxPool(kernel, stride, padding):
            if padding:  # images are rectified here, so padding with zeros never changes a maximum
                yield keras.layers.ZeroPadding2D(padding)
            yield keras.layers.MaxPooling2D(kernel, stride)
        case AdaptiveAveragePool(size):
            yield AveragePoolTo(size)
        case Flatten():
            yield keras.layers.Permute((3, 1, 2))
            yield keras.layers.Flatten()
        case Dense(_, outputs):
            yield keras.layers.Dense(outputs, kernel_initializer="zeros")
        case Dropout(rate):
            yield keras.layers.Dropout(rate)
        case Residual(body, shortcut):
            yield Sum(keras.Sequential([*parts(body)]), keras.Sequential([*parts(shortcut)]))


def load(model: keras.Model, arrays: Iterable[np.ndarray]) -> None:
    """Set a model's parameters, and reset its running statistics to those of a model that has seen no image.

    Args:
        model: with Keras' axes.
        arrays: its parameters in the canonical order and shapes, float32.
    """
    for variable, array in zip(model.trainable_variables, to_keras(arrays), strict=True):
        variable.assign(array)
    for each in model.submodules:
        if isinstance(each, keras.layers.BatchNormalization):
            each.moving_mean.assign(
                np.zeros(each.moving_mean.shape)
            )  # reading the old values would be a collective under a strategy
            each.moving_variance.assign(np.ones(each.moving_variance.shape))


def dump(model: keras.Model) -> list[np.ndarray]:
    """Copy a model's parameters to the host.

    Args:
        model: with Keras' axes.

    Returns:
        Its parameters in the canonical order and shapes, float32.
    """
    return from_keras(variable.numpy() for variable in model.trainable_variables)


def to_keras(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Transpose parameters from their canonical axes to Keras'.

    Args:
        arrays: (outputs, inputs, height, width), (outputs, inputs) or (n,).

    Returns:
        An iterator over views: (height, width, inputs, outputs), (inputs, outputs) or (n,).
    """
    return (array.transpose(TO_KERAS[array.ndim]) for array in arrays)


def from_keras(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Transpose parameters from Keras' axes to the canonical ones.

    Args:
        arrays: (height, width, inputs, outputs), (inputs, outputs) or (n,).

    Returns:
        Contiguous arrays: (outputs, inputs, height, width), (outputs, inputs) or (n,).
    """
    return [np.ascontiguousarray(array.transpose(FROM_KERAS[array.ndim])) for array in arrays]
