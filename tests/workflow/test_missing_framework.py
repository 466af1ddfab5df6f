"""A framework that cannot be had: other lines are drawn, it is named with the cause, and the exit status says so."""

import copy
import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipeline import Pipeline
from tests.support.repository import dry_run
from tests.support.tiny_study import TINY_STUDY


@pytest.fixture
def two_frameworks(prepared: Pipeline) -> Pipeline:
    """A pipeline whose only figure compares PyTorch with MXNet, of which there is only an empty lock."""
    study: dict[str, Any] = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {"framework": ["torch", "mxnet"], "strategy": "parameter_server_sync"}
    config = prepared.root / "config/config.yaml"
    broken = {"environments": read_environments(config) | {"mxnet": {"requirements": "lock.txt"}}}
    prepared.configure(broken, study)
    (prepared.root / "lock.txt").write_text("")
    return prepared


@pytest.mark.long
def test_a_framework_that_cannot_be_had_is_a_gap_with_its_cause_and_is_tried_again(
    two_frameworks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = two_frameworks.attempt("tiny2000_fig1")
    cause = "no mxnet environment: ModuleNotFoundError: No module named 'mxnet'"
    assert answer.returncode != 0
    assert "No module named 'mxnet'" in answer.stderr.splitlines()[-1]
    assert statuses(two_frameworks) == {"torch": ("measured", ""), "mxnet": ("no_environment", cause)}
    caption = (two_frameworks.root / "results/figures/tiny2000_fig1.caption.rst").read_text()
    assert cause in caption
    measured = two_frameworks.measurements()
    assert Counter(record["point"]["framework"] for record in two_frameworks.records()) == {"torch": 4}

    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (two_frameworks.root / "nowhere").as_uri())
    (two_frameworks.root / "lock.txt").write_text(f"mxnet==0.0 --hash=sha256:{'0' * 64}\n")
    again = two_frameworks.attempt("tiny2000_fig1")
    cause = "no mxnet environment: No matching distribution found for mxnet==0.0"
    assert again.returncode != 0
    assert statuses(two_frameworks)["mxnet"] == ("no_environment", cause)
    assert two_frameworks.measurements() == measured


def statuses(pipeline: Pipeline) -> dict[str, tuple[str, str]]:
    """What the figure's rows say of each framework."""
    with open(pipeline.root / "results/figures/tiny2000_fig1.csv") as file:
        return {row["framework"]: (row["status"], row["reason"]) for row in csv.DictReader(file)}


def read_environments(config: Path) -> dict[str, Any]:
    """The environments of a configuration."""
    from ddlbench.configuration.yaml_file import read_yaml

    return dict(read_yaml(config, config.parent)["environments"])


def test_an_environment_that_has_lost_its_interpreter_is_made_again(prepared: Pipeline) -> None:
    stamp = prepared.root / ".environments/torch/environment.json"
    described = json.loads(stamp.read_text())
    assert "environment" not in dry_run(prepared.root, "tiny2000_fig1")
    stamp.write_text(json.dumps({**described, "python": str(prepared.root / "moved/bin/python")}))
    assert dry_run(prepared.root, "tiny2000_fig1")["environment"] == 1
