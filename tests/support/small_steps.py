"""What is true of every asynchronous training, however late each gradient comes: with steps so small that no gradient
changes by them, parameters end where the sum of all workers' gradients leads, whoever was first.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RATE = 1e-4
_STANDING, _TOGETHER, _EACH = "standing", "together", "each"


def points(folder: Path, point: dict[str, Any], workers: int) -> dict[str, dict[str, Any]]:
    """A point that stands still, one of steps by the sum of all workers' gradients, one of a step by each of them."""
    rates = {_STANDING: 0.0, _TOGETHER: workers * RATE, _EACH: RATE}
    return {
        name: point | {"momentum": 0.0, "learning_rate": rate, "save_to": str(folder / f"{name}.npz")}
        for name, rate in rates.items()
    }


def ways(
    train: Callable[..., list[dict[str, Any]]], folder: Path, point: dict[str, Any], workers: int
) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """How far ten steps lead from the first parameters: one worker with all images, and asynchronous workers.

    train: `inside.trainings` with its environment and data. Returns what the asynchronous members report too.
    """
    of = points(folder, point, workers)
    train(points=[of[_STANDING], of[_TOGETHER]], workers=1)
    (answer,) = train(points=[of[_EACH]], workers=workers)
    standing, together, each = (_parameters(of[name]["save_to"]) for name in (_STANDING, _TOGETHER, _EACH))
    return together - standing, each - standing, answer["ranks"]


def _parameters(file: str) -> np.ndarray:
    with np.load(file) as arrays:
        return np.concatenate([arrays[name].ravel() for name in arrays.files]).astype(np.float64)
