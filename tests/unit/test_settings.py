"""The settings that a plan carries: typed, and key by key what the schema describes."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from ddlbench.configuration.schema import Schema, schemas
from ddlbench.plan import load
from ddlbench.plan.settings import Settings, as_params
from tests.support.small_study import REPOSITORY, small_repository

pytestmark = pytest.mark.unit
RULES = schemas(REPOSITORY)
BY_NAME = {"cluster.studies", "cluster.figures", "grids"}  # blocks whose keys are the user's
AS_OVER_HTTP = "recommend.goal"  # a mapping, whose keys are those of a question


def keys_of(kind: Any, path: str = "") -> set[str]:
    """All keys of a class, as `measure.seed`; of one that may be left out too."""
    if isinstance(kind, UnionType):
        return set().union(*(keys_of(each, path) for each in get_args(kind)))
    if get_origin(kind) is not None or not is_dataclass(kind):
        return set()
    hints = get_type_hints(kind)
    assert Any not in hints.values(), path
    return {f"{path}{each.name}" for each in fields(kind)}.union(
        *(keys_of(hints[each.name], f"{path}{each.name}.") for each in fields(kind))
    )


def keys_in(schema: Schema, path: str = "") -> set[str]:
    """All keys of a block of the schema."""
    found = set()
    for key, given in schema.get("properties", {}).items():
        found |= {f"{path}{key}", *keys_in(RULES.resolved(given), f"{path}{key}.")}
    return found


def test_the_classes_have_the_keys_of_the_schema():
    mappings = {"interfaces", "environments"}  # by fabric, by framework
    described = {
        key
        for key in keys_in(RULES.documents["config"])
        if not any(key.startswith(f"{name}.") for name in {*mappings, *BY_NAME, AS_OVER_HTTP})
    }
    own = keys_of(Settings)
    assert own - described == {"datasets.imagenet.url"}  # a source has both
    assert described - own == set()
    hints = get_type_hints(Settings)
    assert {get_origin(hints[name]) for name in mappings} == {Mapping}
    of_framework = RULES.documents["config"]["properties"]["environments"]["properties"]["torch"]
    assert keys_in(of_framework) == keys_of(get_args(hints["environments"])[1])


@pytest.mark.parametrize("name", ["config", "paper"])
def test_the_configurations_that_ship_are_read_with_their_values(name):
    settings = load(REPOSITORY / f"config/{name}.yaml", REPOSITORY).settings
    assert settings.measure.max_repetitions == {"config": 24, "paper": 20}[name]
    assert (settings.dilation, settings.fresh, settings.results) == ("auto", False, "results")
    assert settings.environments["torch"].requirements == "containers/torch/requirements-cpu.txt"
    assert settings.datasets.source("mnist").url == "https://ossci-datasets.s3.amazonaws.com/mnist/"
    assert settings.datasets.source("digits").folder is None


def test_five_and_five_point_zero_are_the_same_parameter():
    measure = load(REPOSITORY / "config/config.yaml", REPOSITORY).settings.measure
    params = as_params(replace(measure, interval_percent=5.0))
    assert params == as_params(replace(measure, interval_percent=5))
    assert type(params["interval_percent"]) is int
    assert list(params) == sorted(params)
    assert params["step_budget_s"] == 0.2


def test_whole_numbers_may_be_written_as_fractions(tmp_path):
    settings, _ = small_repository(tmp_path)
    settings["measure"] |= {"max_steps": 50.0, "interval_percent": 5}
    measure = load(settings, tmp_path).settings.measure
    assert (measure.max_steps, measure.interval_percent) == (50, 5.0)
    assert (type(measure.max_steps), type(measure.interval_percent)) == (int, float)
