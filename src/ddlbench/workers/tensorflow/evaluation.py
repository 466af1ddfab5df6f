"""Test of a TensorFlow model: its loss and accuracy on the test images, and the hash of its parameters."""

import hashlib
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ddlbench.protocol.messages import TestResult
from ddlbench.workers.common.batches import Batches

_MOST_AT_ONCE = 100  # images; more are no faster


def evaluation(
    network: keras.Model, batches: Batches, images: int, strategy: tf.distribute.Strategy | None = None
) -> TestResult:
    """Test a network on all test images.

    Args:
        network: Takes images (images, height, width, channels), returns logits (images, classes).
        batches: The source of the test images.
        images: Of a worker's step. No more are tested at once, because so many fit into memory.
        strategy: That mirrors the network's variables. Each replica then uses its own statistics of batch
            normalisation; outside `strategy.run` TensorFlow would ask all other workers for theirs. None: not mirrored.

    Returns:
        The mean negative log-likelihood (nats per image) and the accuracy (percent).
    """
    run = strategy.run if strategy else lambda call, arguments, named: call(*arguments, **named)
    loss, right, total = 0.0, 0, 0
    for part, labels in batches.test_parts(min(images, _MOST_AT_ONCE)):
        outputs = run(network, (tf.convert_to_tensor(part),), {"training": False})
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)
        loss += float(tf.reduce_sum(losses))
        right += int(np.sum(np.argmax(outputs, axis=1) == labels))
        total += len(labels)
    return TestResult(loss / total, 100 * right / total)


def fingerprint(parameters: Iterable[np.ndarray]) -> str:
    """Hash parameters.

    Args:
        parameters: Arrays of any shape, in the canonical order; the bytes of each are hashed as they lie in memory.

    Returns:
        SHA-256 of all bytes, as 64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.tobytes())
    return digest.hexdigest()
