"""Loss and accuracy of a TensorFlow model on the test images, and the hash of its parameters."""

import hashlib
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ddlbench.protocol.messages import TestResult
from ddlbench.workers.common.batches import Batches

_PART = 100  # images at once; more large ones would not fit into memory


def evaluation(
    network: keras.Model, batches: Batches, strategy: tf.distribute.Strategy | None = None
) -> TestResult:
    """Test a network on all test images.

    It runs as a replica of a mirrored `strategy` and so reads its own statistics of batch normalisation. Outside of the
    strategy, TensorFlow would ask all other workers for theirs.

    Args:
        network: from images, (n, height, width, channels), to logits, (n, classes).
        batches: of the point.
        strategy: that the network is mirrored by (None: it is not mirrored).

    Returns:
        The mean negative log-likelihood, and the accuracy in per cent.
    """
    run = strategy.run if strategy else lambda call, arguments, named: call(*arguments, **named)
    loss, right, total = 0.0, 0, 0
    for images, labels in batches.test_parts(_PART):
        outputs = run(network, (tf.convert_to_tensor(images),), {"training": False})
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)
        loss += float(tf.reduce_sum(losses))
        right += int(np.sum(np.argmax(outputs, axis=1) == labels))
        total += len(labels)
    return TestResult(loss / total, 100 * right / total)


def fingerprint(parameters: Iterable[np.ndarray]) -> str:
    """Hash all parameters' bytes.

    Args:
        parameters: float32 arrays in the canonical order and shapes.

    Returns:
        SHA-256 in hexadecimal digits.
    """
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.tobytes())
    return digest.hexdigest()
