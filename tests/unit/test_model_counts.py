"""What models are made of, drawn beside the paper's numbers."""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_tables import figure

from ddlbench.errors import DdlbenchError
from ddlbench.figures import captioning, draw, drawing, drawn_rows
from ddlbench.plan.study import Figure
from ddlbench.probes import environment_answer
from ddlbench.probes.model_counts import write_counts

pytestmark = pytest.mark.unit


def test_a_failure_is_told_with_its_last_words(tmp_path: Path) -> None:
    described = {"python": sys.executable, "packages": {"torch": "0.0"}}  # an environment without PyTorch
    (tmp_path / "environment.json").write_text(json.dumps(described))
    with pytest.raises(DdlbenchError, match=r"(?s)models could not be counted: .*No module named 'torch'"):
        write_counts(["mlp"], "28x28x1", tmp_path / "models.csv", environment=tmp_path / "environment.json")
    assert not (tmp_path / "models.csv").exists()


def test_what_an_import_prints_is_not_taken_for_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counting.py").write_text("""print("welcome"); print('{"flops": 2}', end="")""")
    monkeypatch.setattr(environment_answer, "package_root", lambda: str(tmp_path))
    assert environment_answer.answer_of(sys.executable, "counting", [], timeout_s=600, failure="no") == {
        "flops": 2
    }


# ------------------------------------------------------------------------------------------- shi2019_table3_1


@pytest.fixture
def shown() -> Figure:
    return figure(
        "shi2019_table3_1",
        "model",
        "multiply_adds",
        kind="models",
        grids=(),
        image_shape="224x224x3",
        published={"vgg16": {"size_mb": 528, "gflops": 15.5}, "alexnet": {"size_mb": 233, "gflops": 0.7}},
    )


@pytest.fixture
def table() -> pd.DataFrame:
    """Made up, not counted."""
    return pd.DataFrame(
        {
            "model": ["alexnet", "vgg16"],
            "image_shape": "224x224x3",
            "parameters": [1000, 2 << 20],
            "bytes": [4000, 8 << 20],
            "flops": [20_000, 4_000_000_000],
            "multiply_adds": [10_000, 2_000_000_000],
            "counted_by": "PyTorch 0.0",
        }
    )


def shown_by(plot: Any) -> list[pd.DataFrame]:
    return [layer.geom.data for layer in plot.layers if isinstance(layer.geom.data, pd.DataFrame)]


def test_each_model_stands_beside_the_papers_numbers(table: pd.DataFrame, shown: Figure) -> None:
    plot = drawing(shown)(table, shown)
    rows = drawn_rows(plot)
    assert list(rows["model"]) == ["vgg16", "alexnet"]  # the figure's order
    assert list(rows["size_mb"]) == [8, 4000 / (1 << 20)]
    assert list(rows["published_size_mb"]) == [528, 233]
    texts = {text for data in shown_by(plot) if "text" in data for text in data["text"]}
    assert {"VGG16", "2,097,152", "8.0", "528", "2.00", "15.5"} <= texts


def test_it_says_how_operations_are_counted(table: pd.DataFrame, shown: Figure) -> None:
    caption = captioning(shown)(drawn_rows(drawing(shown)(table, shown)), shown)
    assert "counts a multiplication and an addition together as one" in caption
    assert "counted by PyTorch 0.0, not measured" in caption
    assert shown.tables == ("models/shi2019_table3_1.csv",)


def test_all_its_files_are_drawn(table: pd.DataFrame, shown: Figure, tmp_path: Path) -> None:
    files = [
        tmp_path / f"{shown.name}{ending}" for ending in (".svg", ".pdf", ".png", ".csv", ".caption.rst")
    ]
    draw(shown.name, [table], shown, files)
    assert all(file.stat().st_size for file in files)
