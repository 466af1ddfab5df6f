"""Models as PyTorch counts them have the size and the operations of the literature."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ddlbench.plan.catalogue import MODELS
from ddlbench.probes.model_counts import write_counts

# Parameters and multiply-adds of torchvision's definitions, as its documentation gives them ("GFLOPS").
pytestmark = pytest.mark.long
LITERATURE = {
    "alexnet": (61_100_840, 0.71),
    "vgg16": (138_357_544, 15.47),
    "vgg19": (143_667_240, 19.63),
    "resnet18": (11_689_512, 1.81),
    "resnet50": (25_557_032, 4.09),
    "resnet101": (44_549_160, 7.80),
    "resnet152": (60_192_808, 11.51),
    "inception_v3": (23_834_568, 5.71),
}


def test_the_large_models_have_the_size_and_operations_of_the_literature(
    torch_environment: dict[str, Any], tmp_path: Path
) -> None:
    environment = Path(torch_environment["python"]).parents[1] / "environment.json"
    tables = []
    for shape in ("224x224x3", "299x299x3"):
        names = [name for name in LITERATURE if shape in MODELS[name]]
        write_counts(names, shape, tmp_path / f"{shape}.csv", environment=environment)
        tables.append(pd.read_csv(tmp_path / f"{shape}.csv"))
    table = pd.concat(tables).set_index("model")
    for name, (parameters, giga_multiply_adds) in LITERATURE.items():
        counted = table.loc[name]
        assert counted["parameters"] == parameters
        assert counted["bytes"] == 4 * parameters
        assert counted["multiply_adds"] / 1e9 == pytest.approx(giga_multiply_adds, abs=0.005)
        assert counted["flops"] == 2 * counted["multiply_adds"]
        assert counted["counted_by"].startswith("PyTorch 2.")
