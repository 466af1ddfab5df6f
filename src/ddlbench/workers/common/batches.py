"""Batches of a data set, the same for every framework: their order depends on the seed alone.

The images of step i are the i-th batch of that order, and each rank takes its share of it, so N workers see what one
worker with the same global batch would see. Images that must be decoded or enlarged are prepared by threads while the
caller computes.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from ddlbench.protocol.messages import TrainingPoint
from ddlbench.workers.common.images import Inputs, Layout, Pixels, as_inputs, enlarged

Labels = NDArray[np.int64]
Numbers = NDArray[np.int64]
Shape = tuple[int, int, int]  # height, width, channels
Batch = tuple[Inputs, Labels]

AHEAD = 2  # batches that are being prepared


def order(images: int, batch_size: int, seed: int) -> Iterator[Numbers]:
    """Draw the images of each batch, without end; a new random order begins when the images run out.

    Args:
        images: how many the data set has.
        batch_size: images of a batch.
        seed: of the random orders.

    Yields:
        The numbers of a batch's images, (batch_size,), each from 0.
    """
    random = np.random.default_rng(seed)
    upcoming = np.empty(0, dtype=np.int64)
    while True:
        while len(upcoming) < batch_size:
            upcoming = np.concatenate([upcoming, random.permutation(images)])
        yield upcoming[:batch_size]
        upcoming = upcoming[batch_size:]


@dataclass(frozen=True)
class Choice:
    """Images of a part of the data set, and what the random crops of training images depend on.

    Attributes:
        part: `train` or `test`.
        images: their numbers in the part, (n,).
        seed: of the crops.
        places: of the images in the whole order of training images (None: crops are central).
    """

    part: str
    images: Numbers
    seed: int = 0
    places: range | None = None  # of the images in the whole order

    def crop(self, place: int) -> tuple[float, float]:
        """Say where an image that is too large is cropped: training images at random, test images in the middle.

        Args:
            place: of the image in `images`.

        Returns:
            The shares, 0 to 1, of what is cut off that lie above and to the left.
        """
        if self.places is None:
            return 0.5, 0.5
        down, across = np.random.default_rng((self.seed, self.places[place])).random(2)
        return float(down), float(across)


class Batches:
    """This rank's share of each batch of the training images, as an iterator without end; the test images in parts.

    A batch is a pair: images float32 of about mean 0 and spread 1, (n, height, width, channels) or, with `nchw`,
    (n, channels, height, width); labels int64, (n,).

    Args:
        path: the data set's .npz.
        image_shape: what the model takes, (height, width, channels).
        seed: of the order and of random crops.
        batch_size: images of a global batch, that of all ranks.
        share: which images of a global batch are this rank's.
        layout: where the channels are.
    """

    def __init__(
        self,
        path: str,
        image_shape: Shape,
        *,
        seed: int,
        batch_size: int,
        share: slice,
        layout: Layout = "nhwc",
    ) -> None:
        self.data = load(path, image_shape, layout)
        self.seed, self.batch_size, self.share = seed, batch_size, share
        self.start_again()

    def start_again(self) -> None:
        """Begin with the first batch again."""
        self.training = self.data.batches(self._choices())

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        return next(self.training)

    def test_parts(self, size: int) -> Iterator[Batch]:
        """Get all test images and their labels in order.

        Args:
            size: images of a part; the last part may have fewer.

        Returns:
            An iterator over batches, of the same shapes as those of training.
        """
        images = np.arange(len(self.data.labels["test"]))
        return self.data.batches(
            Choice("test", images[begin : begin + size]) for begin in range(0, len(images), size)
        )

    def _choices(self) -> Iterator[Choice]:
        chosen = order(len(self.data.labels["train"]), self.batch_size, self.seed)
        for first in count(0, self.batch_size):
            places = range(first, first + self.batch_size)[self.share]
            yield Choice("train", next(chosen)[self.share], self.seed, places)


def batches_of(
    point: TrainingPoint,
    paths: Mapping[str, str],
    *,
    seed: int,
    rank: int,
    world_size: int,
    layout: Layout = "nhwc",
) -> Batches:
    """Make the batches of a point for one of its workers.

    Args:
        point: its data set, image shape and global batch size.
        paths: data sets' files by name and image shape (`digits-28x28x1`).
        seed: of the order and of random crops.
        rank: of the worker among the workers, from 0.
        world_size: how many workers share a batch.
        layout: where the channels of an image are.

    Returns:
        The worker's share of each batch, and all test images.
    """
    return Batches(
        paths[f"{point.dataset}-{'x'.join(map(str, point.image_shape))}"],
        point.image_shape,
        seed=seed,
        batch_size=point.batch_size,
        share=share_of(point.batch_size, rank, world_size),
        layout=layout,
    )


def share_of(batch_size: int, rank: int, world_size: int) -> slice:
    """Find which images of a global batch are a rank's; shares differ by one image at most.

    Args:
        batch_size: images of the global batch.
        rank: from 0.
        world_size: how many ranks share the batch.

    Returns:
        The range of its images in the batch.
    """
    begin, end = (batch_size * each // world_size for each in (rank, rank + 1))
    return slice(begin, end)


@dataclass(frozen=True)
class Data:
    """A data set in memory, or an index of it.

    Attributes:
        labels: of each part, `train` and `test`, int64, (n,).
        begin: begins to make the images of a choice, and returns a function that waits for them.
    """

    labels: dict[str, Labels]
    begin: Callable[[Choice], Callable[[], Inputs]]

    def batches(self, choices: Iterator[Choice]) -> Iterator[Batch]:
        """Make the batches of some choices; the next ones are begun before the caller computes with this one.

        Args:
            choices: which images each batch has.

        Yields:
            Images, float32, (n, height, width, channels) or (n, channels, height, width), and labels, int64, (n,).
        """
        begun = deque((choice, self.begin(choice)) for choice in islice(choices, AHEAD))
        while begun:
            choice, finish = begun.popleft()
            images = finish()
            begun.extend((each, self.begin(each)) for each in islice(choices, 1))
            yield images, self.labels[choice.part][choice.images]


@cache  # points that differ in their batch size alone share one copy
def load(path: str, image_shape: Shape, layout: Layout) -> Data:
    """Load a data set: images of the right shape are kept ready in memory, others are made one by one.

    Args:
        path: its .npz.
        image_shape: what the model takes, (height, width, channels).
        layout: where the channels of the images are.

    Returns:
        The labels, and how images are made.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    labels = {part: arrays[f"{part}_labels"].astype(np.int64) for part in ("train", "test")}
    if "folder" in arrays:
        from ddlbench.workers.common.image_folder import ImageFolder

        folder = ImageFolder(arrays, *image_shape[:2])

        def decode(choice: Choice, place: int) -> Pixels:
            return folder.image(choice.part, int(choice.images[place]), choice.crop(place))

        return Data(labels, partial(one_by_one, decode, image_shape, layout))
    stored = {part: arrays[f"{part}_images"] for part in labels}
    if stored["train"].shape[1:] == image_shape:
        ready = {part: as_inputs(images, layout) for part, images in stored.items()}

        def take(choice: Choice) -> Inputs:
            return ready[choice.part].take(choice.images, axis=0)

        return Data(labels, lambda choice: partial(take, choice))

    def enlarge(choice: Choice, place: int) -> Inputs:
        image = choice.images[place]
        return enlarged(stored[choice.part][image : image + 1], *image_shape[:2])

    return Data(labels, partial(one_by_one, enlarge, image_shape, layout))


def one_by_one(
    one: Callable[[Choice, int], Pixels | Inputs], image_shape: Shape, layout: Layout, choice: Choice
) -> Callable[[], Inputs]:
    """Let threads make the images of a choice, and normalise them.

    Args:
        one: makes one image, of its choice and its place in that; uint8 or float32, (1, height, width, channels).
        image_shape: of each image, (height, width, channels).
        layout: where the channels of the result are.
        choice: which images are made.

    Returns:
        A function that waits for the threads; it returns float32 images, (n, height, width, channels) or (n, channels,
        height, width), and raises ValueError if a file is no image.
    """
    height, width, channels = image_shape
    size = (height, width, channels) if layout == "nhwc" else (channels, height, width)
    images = np.empty((len(choice.images), *size), np.float32)

    def make(place: int) -> None:
        images[place] = as_inputs(one(choice, place), layout)[0]

    making = [threads().submit(make, place) for place in range(len(images))]

    def finish() -> Inputs:
        for each in making:
            each.result()
        return images

    return finish


@cache  # only when it is needed: threads do not survive a fork
def threads() -> ThreadPoolExecutor:
    """As many threads as this process may use cores."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)))
