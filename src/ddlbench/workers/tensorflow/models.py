"""The models of the studies in TensorFlow (Keras 2), for images (batch, height, width, channels), its usual layout."""

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ddlbench.workers.common.models.architectures import layers
from ddlbench.workers.common.models.layers import (
    AdaptiveAveragePool,
    AveragePool,
    BatchNorm,
    Concat,
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
    height_width,
)

# Permutations from a parameter's canonical axes to those of Keras, and back, by the number of axes.
TO_KERAS = {1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}
FROM_KERAS = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}


class Sum(keras.layers.Layer):
    """A residual block: the sum of its body's and its shortcut's output for the same input."""

    def __init__(self, body: keras.Model, shortcut: keras.Model) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.body(inputs) + self.shortcut(inputs)


class Concatenated(keras.layers.Layer):
    """What branches make of the same input, channels after channels."""

    def __init__(self, branches: Iterable[keras.Model]) -> None:
        super().__init__()
        self.branches = list(branches)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.concat([branch(inputs) for branch in self.branches], axis=-1)


class AveragePoolTo(keras.layers.Layer):
    """Adaptive average pooling to (batch, size, size, channels), which Keras lacks; only for our models' sizes."""

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


def build(name: str, shape: Shape) -> keras.Model:
    """Build a model with weights that are zero.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.

    Returns:
        A network from images (batch, height, width, channels) to logits (batch, classes). Its trainable variables
        are in the canonical order, with Keras' axes (see `to_keras`).
    """
    return keras.Sequential([keras.Input(shape), *parts(layers(name, shape))])


def parts(layers: Layers) -> Iterator[keras.layers.Layer]:
    """Translate layers into Keras layers.

    Args:
        layers: In the order in which data passes them.

    Yields:
        Keras layers in the same order; some layers need two.
    """
    for layer in layers:
        yield from part(layer)


def part(layer: Layer) -> Iterator[keras.layers.Layer]:
    """Translate one layer into Keras layers.

    Args:
        layer: From the framework-independent description.

    Yields:
        One or two Keras layers with weights that are zero.
    """
    match layer:
        case Conv(_, outputs, kernel, stride, padding, bias):
            margins = zip(height_width(kernel), height_width(padding), strict=True)
            same = stride == 1 and all(side == 2 * margin + 1 for side, margin in margins)
            if padding and not same:  # Keras' "same" is asymmetric where the stride is 2
                yield keras.layers.ZeroPadding2D(padding)
            options = {"padding": "same" if same else "valid", "use_bias": bias}
            yield keras.layers.Conv2D(outputs, kernel, stride, kernel_initializer="zeros", **options)
        case BatchNorm(_, epsilon, momentum):
            yield keras.layers.BatchNormalization(epsilon=epsilon, momentum=momentum)
        case ReLU():
            yield keras.layers.ReLU()
        case MaxPool(kernel, stride, padding):
            if padding:  # its inputs are rectified, so zeros never exceed them
                yield keras.layers.ZeroPadding2D(padding)
            yield keras.layers.MaxPooling2D(kernel, stride)
        case AveragePool(kernel, stride, padding):
            if padding:  # Keras' own does not count
                yield keras.layers.ZeroPadding2D(padding)
            yield keras.layers.AveragePooling2D(kernel, stride)
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
        case Concat(branches):
            yield Concatenated(keras.Sequential([*parts(branch)]) for branch in branches)


def load(model: keras.Model, arrays: Iterable[np.ndarray]) -> None:
    """Set a model's parameters, and reset the running statistics of batch normalisation to mean 0 and variance 1.

    Args:
        model: Of `build`.
        arrays: One for each trainable variable, in the canonical order and axes.
    """
    for variable, array in zip(model.trainable_variables, to_keras(arrays), strict=True):
        variable.assign(array)
    for each in model.submodules:
        if isinstance(each, keras.layers.BatchNormalization):
            # Assigned without reading the old values: under a strategy a read is a collective.
            each.moving_mean.assign(np.zeros(each.moving_mean.shape))
            each.moving_variance.assign(np.ones(each.moving_variance.shape))


def dump(model: keras.Model) -> list[np.ndarray]:
    """Copy a model's parameters.

    Args:
        model: Of `build`.

    Returns:
        One array for each trainable variable, in the canonical order and axes.
    """
    return from_keras(variable.numpy() for variable in model.trainable_variables)


def to_keras(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Transpose parameters from the canonical axes to Keras' axes.

    Args:
        arrays: Convolutions (outputs, inputs, height, width), dense layers (outputs, inputs), vectors (channels,).

    Returns:
        Views: convolutions (height, width, inputs, outputs), dense layers (inputs, outputs), vectors as they are.
    """
    return (array.transpose(TO_KERAS[array.ndim]) for array in arrays)


def from_keras(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Transpose parameters from Keras' axes to the canonical axes; the inverse of `to_keras`.

    Args:
        arrays: Convolutions (height, width, inputs, outputs), dense layers (inputs, outputs), vectors (channels,).

    Returns:
        Contiguous arrays: convolutions (outputs, inputs, height, width), dense layers (outputs, inputs), vectors.
    """
    return [np.ascontiguousarray(array.transpose(FROM_KERAS[array.ndim])) for array in arrays]
