"""What a step of a model takes on this machine's processor, measured in TensorFlow's environment.

    python -m ddlbench.workers.tensorflow.step_profile keras_sequential 28x28x1 cpu 1 10 16000

Arguments and output are those of `ddlbench.workers.torch.step_profile`, but the device is a CPU, and there is one
batch: memory is the most that the process has had. Marks are operations of the step's graph that ask for the time. They
run when TensorFlow runs what waits for a gradient, such as sending it: with one thread that is late.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import tensorflow as tf

from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.common.replay.step_profile import (
    CLASSES_OF_ANY,
    LEARNING_RATE,
    MOMENTUM,
    WARMUP_STEPS,
    between,
    peak_memory_mb,
    profiled,
)
from ddlbench.workers.tensorflow.group import spare_memory
from ddlbench.workers.tensorflow.training import Learner


class Step:
    """A step of training that is timed, whole or in parts.

    With one thread the whole is CPU time, so that what others take of the core does not count.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.
        images: Of the batch.
        threads: That compute.
    """

    def __init__(self, name: str, shape: Shape, images: int, threads: int) -> None:
        self.learner = Learner(name, shape)
        self.learner.optimizer.learning_rate = LEARNING_RATE
        self.learner.momentum.assign(MOMENTUM)
        self.learner.start_again(seed=1)
        self.images = tf.random.normal((images, *shape))
        self.labels = tf.random.uniform((images,), maxval=CLASSES_OF_ANY, dtype=tf.int64)
        self.now_s = time.process_time if threads == 1 else time.perf_counter

    def whole(self) -> float:
        """Train a step.

        Returns:
            Its time in ms.
        """
        began_s = self.now_s()
        self._step(self.images, self.labels).numpy()
        return (self.now_s() - began_s) * 1e3

    def parts(self) -> tuple[float, list[float], float]:
        """Train a step, whose time is longer by what the marks take.

        Returns:
            The time of the forward pass, of the backward pass before each parameter array from the last to the first,
            and of the optimizer, in ms.
        """
        began_ms = time.time() * 1e3  # the clock of TensorFlow's timestamps
        forward_ms, *gradients_ms = (1e3 * self._marked(self.images, self.labels).numpy()).tolist()
        done_ms = time.time() * 1e3
        return forward_ms - began_ms, between(forward_ms, gradients_ms), done_ms - max(gradients_ms)

    @tf.function
    def _step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        loss, gradients = self._backward(images, labels)
        self.learner.descend(gradients)
        return loss

    @tf.function
    def _marked(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """A step that gives the times, in s, when its loss was there, and each gradient from the last to the first."""
        loss, gradients = self._backward(images, labels)
        times_s = [_time_of(each) for each in (loss, *reversed(gradients))]
        with tf.control_dependencies(times_s):
            self.learner.descend(gradients)
        return tf.stack(times_s)

    def _backward(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.learner.losses(images, labels))
        return loss, tape.gradient(loss, self.learner.network.trainable_variables)


def _time_of(tensor: tf.Tensor) -> tf.Tensor:
    """When a tensor of a graph is there, in s."""
    with tf.control_dependencies([tensor]):
        return tf.timestamp()


def profile(name: str, shape: Shape, images: int, threads: int, steps: int) -> dict[str, object]:
    """Measure the parts of a step.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.
        images: Of the batch.
        threads: That compute.
        steps: How many count.

    Returns:
        By name: `forward_ms`, `backward_ms`, `optimizer_ms`, `steps_ms` (of each step), `memory_mb`.
    """
    step = Step(name, shape, images, threads)
    for _ in range(WARMUP_STEPS):
        step.whole()
        step.parts()
    return {**profiled(step, steps), "memory_mb": peak_memory_mb()}


def main(name: str, shape: str, devices: str, threads: str, steps: str, images: str) -> None:
    """Print a profile as JSON.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image, as `224x224x3`.
        devices: `cpu`.
        threads: That compute.
        steps: How many count.
        images: Of the batch.

    Raises:
        SystemExit: Another device is asked for.
    """
    if devices != "cpu":
        raise SystemExit("a GPU is profiled with PyTorch alone")
    spare_memory()
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(int(threads))
    tf.config.threading.set_inter_op_parallelism_threads(int(threads))
    height, width, channels = map(int, shape.split("x"))
    found = {
        "device": None,
        "precision": "fp32",
        "framework": f"TensorFlow {tf.__version__}",
        "profiles": [profile(name, (height, width, channels), int(images), int(threads), int(steps))],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
