"""The images that workers trained on, in words."""

import pandas as pd

from ddlbench.figures.words import listed, values_of
from ddlbench.plan.catalogue import DATASETS

TESTED = ("test_loss", "test_accuracy_percent")

# Data set -> its images in words, with their size ({size}, from 28x28x1) and number ({images}).
IMAGES = {
    "digits": "{images} handwritten digits of 8 x 8 pixels (scikit-learn), enlarged to {size}",
    "mnist": "{images} handwritten digits of {size} pixels (MNIST)",
    "cifar10": "{images} colour images of 32 x 32 pixels (CIFAR-10){enlarged}",
    "imagenet": "{images} photographs (ImageNet), {size} pixels of each",
    "synthetic": "made-up images of {size} pixels{colours}, for timing only",
}
TEST_IMAGES = {"digits": 360, "mnist": 10_000, "cifar10": 10_000, "imagenet": 50_000}


def images(rows: pd.DataFrame, y: str) -> list[str]:
    """Describe the data set.

    Args:
        rows: the points that are drawn.
        y: the column that is shown; of a test's result the test images are counted too.

    Returns:
        Sentences; none if the rows have no data set.
    """
    if not {"dataset", "image_shape"} <= set(rows):
        return []
    kinds = rows[["dataset", "image_shape"]].assign(
        is_replayed=rows["replay"].notna() if "replay" in rows else False
    )
    words = [
        _unread(shape) if is_replayed else _in_words(dataset, shape)
        for dataset, shape, is_replayed in kinds.dropna().drop_duplicates().itertuples(index=False)
    ]
    return [f"Data: {'; '.join(words)}{_tested(rows, y)}.", *_repeated(rows)] if words else []


def _in_words(dataset: str, shape: str) -> str:
    """`1,437 handwritten digits of 8 x 8 pixels (scikit-learn), enlarged to 28 x 28`."""
    size, colours = _size(shape)
    return IMAGES.get(dataset, f"{dataset} of {{size}} pixels").format(
        images=f"{DATASETS[dataset].training_images or 0:,}",
        size=size,
        colours=colours,
        enlarged="" if size == "32 x 32" else f", enlarged to {size}",
    )


def _unread(shape: str) -> str:
    """The images of a device whose compute is replayed."""
    size, colours = _size(shape)
    return f"images of {size} pixels{colours}, of which replayed compute reads none"


def _size(shape: str) -> tuple[str, str]:
    """`28 x 28` and whether it is in colour, from `28x28x1`."""
    height, width, channels = shape.split("x")
    return f"{height} x {width}", " in colour" if channels == "3" else ""


def _tested(rows: pd.DataFrame, y: str) -> str:
    """How many images the test has, where its result is shown."""
    counts = [TEST_IMAGES[name] for name in values_of(rows, "dataset") if name in TEST_IMAGES]
    return f"; tested on {listed(f'{count:,}' for count in counts)} others" if y in TESTED and counts else ""


def _repeated(rows: pd.DataFrame) -> list[str]:
    """Say where a trained batch has more images than the data set."""
    if not {"epochs", "batch_size"} <= set(rows):
        return []
    trained = rows[rows["epochs"] > 0]
    counts = [(DATASETS[name].training_images, batch) for name, batch in _pairs(trained)]
    batches = sorted({int(batch) for count, batch in counts if count is not None and batch > count})
    return (
        [f"A batch of {listed(f'{each:,}' for each in batches)} holds some of them twice or more."]
        if batches
        else []
    )


def _pairs(rows: pd.DataFrame) -> list[tuple[str, int]]:
    """The data sets with their batch sizes."""
    return [(str(name), int(batch)) for name, batch in zip(rows["dataset"], rows["batch_size"], strict=True)]
