"""A TensorFlow worker whose compute is replayed: MultiWorkerMirroredStrategy's own packs and ring, in device's time.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.tensorflow.replay

As in `ring_allreduce`, TensorFlow packs all gradients into one and sends that after the backward pass.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines

import tensorflow as tf

from ddlbench.protocol.messages import Assignment, Connect, Connected
from ddlbench.workers.common.replay.worker import ReplayWorker
from ddlbench.workers.common.service import work
from ddlbench.workers.tensorflow.gpu import versions
from ddlbench.workers.tensorflow.group import use
from ddlbench.workers.tensorflow.replayed_graph import Gradients, RingModel, keep_a_thread_free
from ddlbench.workers.tensorflow.ring_allreduce import barrier, join


class Worker(ReplayWorker[RingModel]):
    """One worker of the group.

    Args:
        assignment: of the worker.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        use(assignment)
        keep_a_thread_free(assignment)
        self.strategy = join(assignment)
        self.gradients = Gradients(assignment)

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured.

        Args:
            command: these models.

        Returns:
            That it is done.
        """
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = RingModel(self.assignment, self.gradients, add_up, *key, self.strategy)
            self.models[key].warm_up()
        return Connected()

    def await_others(self) -> None:
        """Wait until all workers are here: who was ready sooner would wait in its first step."""
        barrier(self.strategy)


def add_up(gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    """Make the operations that add up gradients over all workers, as a replica of the strategy.

    Args:
        gradients: of this worker.

    Returns:
        The sums, in the same order.
    """
    context = tf.distribute.get_replica_context()
    sums: list[tf.Tensor] = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    return sums


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    work(address, rank, Worker, versions, reconnects=False)
