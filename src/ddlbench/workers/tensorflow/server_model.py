"""A model whose parameters are on TensorFlow's asynchronous server, and the step that a worker computes of it."""

from typing import Any

import tensorflow as tf
from tensorflow import keras

from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.tensorflow.models import build, load

NEXT = "ddlbench_next"  # a function of a worker that the graph calls


class Model:
    """A model whose parameters are on the server, and the step that the coordinator sends to a worker."""

    def __init__(self, strategy: tf.distribute.Strategy, name: str, shape: Shape) -> None:
        self.strategy, self.name, self.shape = strategy, name, shape
        with strategy.scope():
            self.network = build(name, shape)
            self.optimizer = keras.optimizers.SGD()
            self.optimizer.build(self.network.trainable_variables)

    def start_again(self, seed: int) -> None:
        """Set the parameters to the seed's first weights, and the optimizer's velocities to zero.

        Args:
            seed: Of the first weights.
        """
        load(self.network, initial(self.name, self.shape, seed))
        for velocity in self.optimizer.momentums:
            velocity.assign(tf.zeros(velocity.shape))

    @tf.function
    def step(self, number: tf.Tensor, momentum: float, *, applied: bool) -> tf.Tensor:
        """Make one step on a worker, as a graph.

        Args:
            number: Counts the commands from `prepare` on, a scalar; the worker waits until it has received as many.
            momentum: Of SGD, from 0 to 1.
            applied: False: compute gradients only; the parameters stay as they are.

        Returns:
            (4,), float64: the worker's index, start and end by its host's clock (seconds since 1970), mean loss (nats).
        """
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            index, images, labels = tf.raw_ops.PyFunc(
                input=[number], token=NEXT, Tout=[tf.float64, tf.float32, tf.int64]
            )
        images = tf.ensure_shape(images, (None, *self.shape))
        labels = tf.ensure_shape(labels, (None,))
        loss, written = self.strategy.run(self.descend, (images, labels, momentum, applied))
        with tf.control_dependencies(written):
            return tf.stack([tf.reshape(index, ()), began, tf.timestamp(), tf.cast(loss, tf.float64)])

    @tf.function  # of its own: what depends on its outputs begins once the server has applied all gradients
    def descend(
        self, images: tf.Tensor, labels: tf.Tensor, momentum: float, applied: bool
    ) -> tuple[tf.Tensor, list[Any]]:
        """Compute gradients, and have the server apply them.

        Args:
            images: Of one worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            momentum: Of SGD, from 0 to 1.
            applied: Whether the server applies the gradients.

        Returns:
            The mean loss of these images, a scalar; and what must be computed before the step is over.
        """
        with tf.GradientTape() as tape:
            outputs = self.network(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))
        gradients = tape.gradient(loss, self.network.trainable_variables)
        if not applied:
            return loss, gradients
        self.optimizer.momentum = momentum
        pairs = zip(gradients, self.network.trainable_variables, strict=True)
        return loss, [self.optimizer.apply_gradients(pairs)]
