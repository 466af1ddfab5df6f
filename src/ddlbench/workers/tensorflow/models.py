"""The models of the studies in TensorFlow (Keras 2), for images [n, h, w, c], which is how TensorFlow likes them."""

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

# From the canonical axes of a parameter to Keras', and back, by their number.
TO_KERAS = {1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}
FROM_KERAS = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}


class Sum(keras.layers.Layer):
    """A residual: what its body and its shortcut make of the same input."""

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
    """The model `name` for images of `shape`, its weights zero; its trainable variables are in the canonical order."""
    return keras.Sequential([keras.Input(shape), *parts(layers(name, shape, dropout=dropout))])


def parts(layers: Layers) -> Iterator[keras.layers.Layer]:
    """Layers in Keras' words."""
    for layer in layers:
        yield from part(layer)


def part(layer: Layer) -> Iterator[keras.layers.Layer]:
    """A layer in Keras' words, which may be several."""
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
            if padding:  # of rectified images: zeros are never more than what is there
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
    """Give a model its parameters, in the canonical order, and running statistics of a model that has seen nothing."""
    for variable, array in zip(model.trainable_variables, to_keras(arrays), strict=True):
        variable.assign(array)
    for each in model.submodules:
        if isinstance(each, keras.layers.BatchNormalization):
            each.moving_mean.assign(
                np.zeros(each.moving_mean.shape)
            )  # not read: under a strategy that is a collective
            each.moving_variance.assign(np.ones(each.moving_variance.shape))


def dump(model: keras.Model) -> list[np.ndarray]:
    """A model's parameters now, in the canonical order and layout."""
    return from_keras(variable.numpy() for variable in model.trainable_variables)


def to_keras(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Parameters with their canonical axes, one by one, with Keras'."""
    return (array.transpose(TO_KERAS[array.ndim]) for array in arrays)


def from_keras(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Parameters with Keras' axes with the canonical ones."""
    return [np.ascontiguousarray(array.transpose(FROM_KERAS[array.ndim])) for array in arrays]
