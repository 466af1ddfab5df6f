"""Configurations that are no configuration: damaged or missing files, and anything at all in any place."""

import copy
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlbench.errors import ConfigError
from ddlbench.plan import Plan, load
from tests.support.small_study import small_repository, write_study


@pytest.mark.parametrize(
    "text", ["key: [1, 2", "a: b: c", "key: small2000\nkey: small2000", "\t", "key: &a [*a"]
)
def test_a_file_that_is_no_yaml_is_named(tmp_path, text):
    settings, _ = small_repository(tmp_path)
    (tmp_path / "config/studies/small2000.yaml").write_text(text)
    with pytest.raises(
        ConfigError, match=r"^config/studies/small2000.yaml, line \d, column \d+: is not valid YAML"
    ):
        load(settings, tmp_path)


@pytest.mark.parametrize("text", ["", "3", "[]", "key: small2000"])
def test_a_file_of_something_else_is_named(tmp_path, text):
    settings, _ = small_repository(tmp_path)
    (tmp_path / "config/studies/small2000.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"^config/studies/small2000\.yaml: "):
        load(settings, tmp_path)


def test_a_file_that_is_missing_is_named(tmp_path):
    settings, _ = small_repository(tmp_path)
    (tmp_path / "config/links.yaml").unlink()
    with pytest.raises(ConfigError, match=r"^config/links\.yaml: there is no such file$"):
        load(settings, tmp_path)
    with pytest.raises(ConfigError, match=r"^config/mine\.yaml: there is no such file$"):
        load(tmp_path / "config/mine.yaml", tmp_path)


def test_a_file_that_leads_to_itself_is_named(tmp_path):
    small_repository(tmp_path)
    (tmp_path / "config/mine.yaml").symlink_to("mine.yaml")
    with pytest.raises(ConfigError, match=r"^config/mine\.yaml: "):
        load(tmp_path / "config/mine.yaml", tmp_path)


@pytest.mark.parametrize("content", [None, [], "x", 3])
def test_settings_that_are_no_block_of_keys_are_refused(tmp_path, content):
    small_repository(tmp_path)
    with pytest.raises(ConfigError, match="is not a configuration"):
        load(content, tmp_path)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["mlp", "cpu"]),
    lambda some: (
        st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), some, max_size=3)
    ),
    max_leaves=4,
)


def places(data: object, path: tuple = ()) -> list[tuple]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> tuple[Path, dict]:
    """A small repository, and its settings and study."""
    root = tmp_path_factory.mktemp("repository")
    return root, dict(zip(("settings", "study"), small_repository(root), strict=True))


@given(st.data())
@settings(max_examples=80)
@pytest.mark.long
def test_whatever_stands_anywhere_the_answer_is_a_plan_or_a_config_error(repository, data):
    root, files = repository[0], copy.deepcopy(repository[1])
    where = data.draw(st.sampled_from(places(files)[1:]))
    parent = files
    for key in where[:-1]:
        parent = parent[key]
    parent[where[-1]] = data.draw(ANYTHING)
    write_study(root, files["study"])
    with suppress(ConfigError):  # anything else fails
        assert isinstance(load(files["settings"], root), Plan)
