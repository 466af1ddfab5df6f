"""The memory that a worker takes at most is what the plan predicts of it, within the error that it allows for."""

from math import prod

import pytest

from ddlbench.datasets import prepare
from ddlbench.datasets.synthetic import image_counts
from ddlbench.launch.roles import WORKER, worker_of
from ddlbench.memory.misfits import ERROR_PERCENT
from ddlbench.workers.common.footprint.footprint import Training, process_bytes
from ddlbench.workers.common.footprint.step_memory import FLOAT_BYTES
from tests.support.sandboxes import run_inside

pytestmark = pytest.mark.long
SHAPE, WORKERS, STRATEGY = (28, 28, 1), 2, "ring_allreduce"


@pytest.mark.parametrize(("model", "images"), [("mlp", 256), ("conv2", 4096)])
def test_a_worker_of_pytorch_takes_as_much_memory_as_is_predicted(tmp_path, torch_environment, model, images):
    prepare("synthetic", None, tmp_path / "images.npz", SHAPE)
    measured = run_inside(
        tmp_path,
        "most_memory",
        python=torch_environment["python"],
        datasets={"synthetic-28x28x1": str(tmp_path / "images.npz")},
        strategy=STRATEGY,
        workers=WORKERS,
        point={"model": model, "dataset": "synthetic", "batch_size": WORKERS * images, "seed": 1},
    )
    data_bytes = FLOAT_BYTES * prod(SHAPE) * sum(image_counts(prod(SHAPE)))
    training = Training(
        model, SHAPE, images, WORKERS, ((model, SHAPE),), has_momentum=True, data_bytes=data_bytes
    )
    predicted = process_bytes(worker_of("torch", STRATEGY), WORKER, training)
    assert [predicted / each for each in measured] == [pytest.approx(1, abs=ERROR_PERCENT / 100)] * WORKERS
