"""What models are made of, drawn beside the paper's numbers."""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_tables import figure

from ddlbench.environments.failed_environments import record_failure
from ddlbench.errors import DdlbenchError
from ddlbench.figures import captioning, draw, drawing, drawn_rows
from ddlbench.launch.bare import KEEPS_MEMORY, workers_environment
from ddlbench.plan.study import Figure
from ddlbench.probes import environment_answer, step_profile
from ddlbench.probes.model_counts import write_counts
from ddlbench.probes.step_profile import Asked, profiled

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


def test_steps_are_profiled_with_the_workers_use_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment.json"
    environment.write_text(json.dumps({"python": sys.executable}))
    (tmp_path / "environment_of.py").write_text(
        "import json, os, sys; sys.exit(json.dumps(dict(os.environ)))"
    )
    monkeypatch.setattr(environment_answer, "package_root", lambda: str(tmp_path))
    monkeypatch.setitem(step_profile.MODULES, "torch", "environment_of")
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[16], devices="cpu", threads=1, steps=1)
    with pytest.raises(DdlbenchError) as told:
        profiled(asked, environment, timeout_s=600)
    seen = json.loads(str(told.value).splitlines()[-1])
    of_workers = workers_environment({}, threads=1, interface="eth0")
    assert {name: seen[name] for name in KEEPS_MEMORY} == {name: of_workers[name] for name in KEEPS_MEMORY}


def worker_that_answers(folder: Path, answer: str) -> Path:
    """An environment whose worker prints what an expression of its arguments is; its description."""
    (folder / "answering.py").write_text(
        f"import json, sys; asked = sys.argv[1:]; print(json.dumps({answer}), end='')"
    )
    described = folder / "environment.json"
    described.write_text(json.dumps({"python": sys.executable}))
    return described


def test_more_threads_than_cores_are_extrapolated_by_amdahls_law_and_the_source_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_answer, "package_root", lambda: str(tmp_path))
    monkeypatch.setitem(step_profile.MODULES, "torch", "answering")
    monkeypatch.setattr(step_profile.os, "sched_getaffinity", lambda _: {0, 1})
    # A third of the step is one thread's: 120 ms with one, 80 with two, and so 60 with four.
    step = "'forward_ms': 40.0, 'backward_ms': [30.0, 48.0], 'optimizer_ms': 2.0, 'memory_mb': 9.0"
    steps = "'steps_ms': [40 + 80 / int(asked[3])] * 3"
    environment = worker_that_answers(
        tmp_path,
        f"{{'framework': 'PyTorch 0', 'device': None, 'precision': 'fp32', 'profiles': [{{{step}, {steps}}}]}}",
    )
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[8], devices="cpu", threads=4, steps=3)
    (device,) = profiled(asked, environment, timeout_s=600).values()
    (found,) = device["profiles"]
    assert (found["forward_ms"], found["backward_ms"], found["optimizer_ms"]) == (20.0, [15.0, 24.0], 1.0)
    assert "4 threads are 2.00 times as fast as one" in found["source"]["text"]
    assert "by Amdahl's law from 1, 2" in found["source"]["text"]


def test_threads_are_not_extrapolated_from_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_profile.os, "sched_getaffinity", lambda _: {0})
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[8], devices="cpu", threads=4, steps=3)
    with pytest.raises(DdlbenchError, match="4 threads were asked for, and there is 1 core here"):
        profiled(asked, worker_that_answers(tmp_path, "{}"), timeout_s=600)


def test_an_environment_that_could_not_be_made_is_told_with_its_reason(tmp_path: Path) -> None:
    environment = tmp_path / "environment.json"
    record_failure(environment, "bare", "the index cannot be reached")
    with pytest.raises(DdlbenchError, match="the index cannot be reached"):
        write_counts(["mlp"], "28x28x1", tmp_path / "models.csv", environment=environment)
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[16], devices="cpu", threads=1, steps=1)
    with pytest.raises(DdlbenchError, match="the index cannot be reached"):
        profiled(asked, environment, timeout_s=1)


@pytest.mark.parametrize("content", [b"\x7fELF\x02\xff", b"some text", b"[]", b"{}"])
def test_a_file_that_describes_no_environment_is_told_with_what_is_expected(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a-file").write_bytes(content)
    (tmp_path / "a-circle").symlink_to("a-circle")
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[16], devices="cpu", threads=1, steps=1)
    for name in ("a-file", "a-circle"):
        with pytest.raises(DdlbenchError, match=rf"{name} describes no environment .*environment\.json"):
            profiled(asked, tmp_path / name, timeout_s=1)
    with pytest.raises(DdlbenchError, match="is missing"):
        profiled(asked, tmp_path / "nowhere", timeout_s=1)


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
