"""The coordinator of TensorFlow's asynchronous parameter server."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import tensorflow as tf

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Prepare,
    Prepared,
    Train,
    Trained,
)
from ddlbench.workers.common.batches import batches_of
from ddlbench.workers.common.memory import used_bytes
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.common.progress import counted
from ddlbench.workers.tensorflow.evaluation import evaluation, fingerprint
from ddlbench.workers.tensorflow.group import is_out_of_memory, refuse_what_cannot_fit, resolver, use
from ddlbench.workers.tensorflow.made_steps import MadeStep, made_steps
from ddlbench.workers.tensorflow.models import dump
from ddlbench.workers.tensorflow.server_model import Model


class Chief:
    """The coordinator: it schedules the workers' steps, and tests what was learned."""

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.paths = assignment.datasets
        self.world_size = assignment.world_size
        self.on_gpus = assignment.devices == "gpu"  # the workers; GPU memory is not estimated
        self.strategy = tf.distribute.ParameterServerStrategy(resolver(assignment, "worker", "ps", "chief"))
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        self.used_bytes = used_bytes()
        self.models: dict[tuple[str, Shape], Model] = {}
        self.commands = 0

    def connect(self, command: Connect) -> Connected:
        """Make the models, with their parameters on the server.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = Model(self.strategy, *key)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step on each worker, not applied, warms caches and shows whether memory suffices.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Whether the point fits into memory, and the number of its parameters.
        """
        self.point, self.seed = command.point, command.seed
        self.commands += 1
        self.model = self.models[self.point.key]
        try:
            if not self.on_gpus:
                refuse_what_cannot_fit(
                    "tensorflow_parameter_server", self.point, self.world_size, self.used_bytes
                )
            self.model.optimizer.learning_rate = self.point.learning_rate
            self.start_again()
            self.made(1, applied=False)
        except (tf.errors.OpError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return Prepared(fits=False)
        return Prepared(fits=True, parameter_count=self.model.network.count_params())

    def start_again(self) -> None:
        """Set parameters and optimizer as the seed determines them."""
        self.model.start_again(self.seed)

    def made(self, steps: int, *, applied: bool) -> list[list[MadeStep]]:
        """Schedule steps on free workers until each worker has made enough.

        Args:
            steps: How many each worker must make; fast workers make more.
            applied: Whether the server applies their gradients, and they are counted.

        Returns:
            By worker, all steps that it has made, in order.
        """
        made: list[list[MadeStep]] = [[] for _ in range(self.world_size)]
        wanted = steps * self.world_size
        while min(map(len, made)) < steps:
            scheduled = [self.schedule(applied) for _ in range(wanted)]
            if applied:
                count(scheduled)
            self.coordinator.join()
            found = [each.fetch() for each in scheduled]
            for worker, of_worker in enumerate(made):
                of_worker.extend(made_steps([step for index, *step in found if index == worker]))
            wanted = self.world_size  # fast workers may have made a slow one's share
        return made

    def schedule(self, applied: bool) -> Any:
        """Schedule one step on the next free worker.

        Args:
            applied: whether the server applies its gradients.

        Returns:
            TensorFlow's `RemoteValue`; its `fetch` gives the result of `Model.step`.
        """
        arguments = tf.constant(self.commands), self.point.momentum
        return self.coordinator.schedule(self.model.step, arguments, {"applied": applied})

    def train(self, command: Train) -> Trained:
        """Train.

        Args:
            command: how many steps each worker makes, and whether from fresh parameters.

        Returns:
            Step times in ms by worker, and the mean loss of their last steps in nats.
        """
        self.commands += 1
        if command.from_fresh:
            self.start_again()
        every = self.made(command.steps, applied=True)
        made = [of_worker[: command.steps] for of_worker in every]
        step_times_ms = [[each.time_ms for each in of_worker] for of_worker in made]
        loss = float(np.mean([of_worker[-1].loss for of_worker in made]))
        return Trained(step_times_ms, loss, made_steps=sum(map(len, every)))

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; test and save them if asked.

        Args:
            command: whether to test them, and where to save them (.npz).

        Returns:
            The hash, and the test's result if it was asked for.
        """
        network = self.model.network
        parameters = dump(network)
        if command.save_to:
            np.savez(command.save_to, *parameters)
        batches = batches_of(self.point, self.paths, seed=self.seed, rank=0, world_size=1)
        images = ceil(self.point.batch_size / self.world_size)
        tested = evaluation(network, batches, images) if command.evaluate else None
        return Concluded(fingerprint(parameters), tested)


def count(scheduled: Sequence[Any]) -> None:
    """Wait until steps are made, and count them in the order in which they were scheduled.

    Their results stay on the workers: fetching them here would use the links while others still train.

    Args:
        scheduled: TensorFlow's `RemoteValue` of each; an error of theirs is raised where the coordinator joins them.
    """
    for number in counted(len(scheduled)):
        scheduled[number]._status_available_event.wait()
