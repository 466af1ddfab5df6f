"""A Horovod worker with TensorFlow whose compute is replayed: Horovod's own fusion and ring, in a device's time.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.horovod.tensorflow_replay

Each gradient's all-reduce begins when its time has passed, as Horovod's tape makes one for each gradient.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

from ddlbench.protocol.messages import Assignment, Shape
from ddlbench.workers.common.service import work
from ddlbench.workers.horovod.replay import HorovodWorker
from ddlbench.workers.tensorflow.group import use
from ddlbench.workers.tensorflow.replayed_graph import Gradients, RingModel, keep_a_thread_free


class Worker(HorovodWorker[RingModel]):
    """One rank of the worker group.

    Args:
        assignment: of the rank.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment, hvd)
        use(assignment)
        keep_a_thread_free(assignment)
        self.gradients = Gradients(assignment)

    def model(self, name: str, shape: Shape) -> RingModel:
        """Make a model.

        Args:
            name: of a model in `architectures`.
            shape: of an image, (height, width, channels).

        Returns:
            The model.
        """
        return RingModel(self.assignment, self.gradients, add_up, name, shape)

    def await_others(self) -> None:
        """Wait until all ranks are here: Horovod has no barrier for TensorFlow, so they add up one number."""
        hvd.allreduce(tf.zeros(1), op=hvd.Sum, name="barrier")


def add_up(gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    """Make the operations that add up gradients over all workers.

    Args:
        gradients: of this worker.

    Returns:
        The sums, in the same order.
    """
    return [hvd.allreduce(each, op=hvd.Sum, name=f"gradient{place}") for place, each in enumerate(gradients)]


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    versions = {"horovod": horovod.__version__, "tensorflow": tf.__version__}
    work(address, rank, Worker, lambda assignment: versions, reconnects=True)
