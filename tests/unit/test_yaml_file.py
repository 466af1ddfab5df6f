"""Configuration is data: what the one parser takes, and what it refuses, with the line."""

import math
from pathlib import Path

import pytest

from ddlbench.configuration.yaml_file import MOST_BYTES, parse_yaml, read_yaml
from ddlbench.errors import ConfigError
from ddlbench.plan.config_files import configuration


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("on", "on"),
        ("no", "no"),
        ("2026-11-01", "2026-11-01"),
        ("017", 17),
        ("0o17", 15),
        ("0x1f", 31),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("+7", 7),
        ("true", True),
        ("null", None),
        ("~", None),
        ("'400'", "400"),
        ("[1, 2.5, a]", [1, 2.5, "a"]),
        ("", None),
        ("{a: &x {b: 1}, c: {<<: *x, d: 2}}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
        ("__use_yte__: true\nx: ?1 + 1", {"__use_yte__": True, "x": "?1 + 1"}),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    found = parse_yaml(text, "x.yaml")
    assert found == value
    assert type(found) is type(value)


def test_infinity_is_a_number_that_the_schema_can_refuse():
    assert math.isinf(parse_yaml("-.inf", "x.yaml"))


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{key}: &{key} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, key in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\nb: 2\na: 3", r"x.yaml, line 3, column 1: .*a is given twice"),
        ("a: !!python/object/apply:os.system ['true']", "line 1: has the tag .*os.system"),
        ("b: 1\na: !!float 1:30", "line 2: has the tag .*float"),
        ("a: !!bool maybe", "line 1: has the tag .*bool"),
        ("a: !!map [1]", "line 1: has the tag .*map"),
        ("a: !own 1", "line 1: has the tag !own"),
        ("a: 0x" + "f" * 500_000, "a number of 500002 digits"),
        (BOMB, "its aliases stand for [0-9]+ values"),
        ("a: &a [*a]", "an alias stands for what it is in"),
        ("[" * 100_000, "line 1: is nested too deep"),
        ("a: [1, 2", "line [12], column"),
        ("a: 1\n---\nb: 2", "line 2"),
    ],
    ids=["twice", "object", "float", "bool", "map", "own", "number", "bomb", "cycle", "depth", "open", "two"],
)
def test_what_is_no_data_is_refused_with_its_line(text, why):
    with pytest.raises(ConfigError, match=why):
        parse_yaml(text, "x.yaml")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("a: 1".encode("utf-16"), "x.yaml: is not UTF-8 text"),
        (b"a: \xff", r"is not UTF-8 text \(byte 4\)"),
        (b"#" * (MOST_BYTES + 1), "cannot be read .is larger than the 1048576 bytes"),
    ],
    ids=["utf-16", "latin", "large"],
)
def test_a_file_is_bounded_and_utf_8(tmp_path, content, why):
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=why):
        read_yaml(tmp_path / "x.yaml", tmp_path)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    (tmp_path / "link.yaml").symlink_to("/dev/zero")
    for path, why in (
        (Path("/dev/zero"), "is no regular file"),
        (tmp_path / "link.yaml", "is a symbolic link"),
    ):
        with pytest.raises(ConfigError, match=why):
            read_yaml(path, tmp_path)


def test_files_and_the_command_line_replace_values_key_by_key(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("measure: {seed: 1, min_steps: 1}\nstudies: [a, b]\n")
    (tmp_path / "other.yaml").write_text("studies: [c]\n")
    (tmp_path / "own.yaml").write_text("measure: {seed: 2}\n")
    found = configuration(
        [tmp_path / "other.yaml"], {"configuration": "own.yaml", "fresh": True}, root=tmp_path
    )
    values = {"measure": {"seed": 2, "min_steps": 1}, "studies": ["c"], "fresh": True}
    assert found.settings == {**values, "name": "other-own"}
    assert [path.name for path in found.files] == ["config.yaml", "other.yaml", "own.yaml"]


@pytest.mark.parametrize(
    ("files", "values", "name"),
    [
        ([], {}, None),
        ([], {"fresh": True, "studies": ["a"], "measure": {"seed": 1}}, None),
        (["config/config.yaml"], {}, None),
        (["paper.yaml"], {}, "paper"),
        (["paper.yaml"], {"dilation": 2.5}, "paper-dilation-2.5"),
        (["named.yaml"], {"dilation": 2}, "trial"),
        ([], {"measure": {"seed": 2}}, "measure.seed-2"),
        ([], {"measure": {"seed": 2}, "name": "mine"}, "mine"),
    ],
)
def test_a_configuration_has_the_name_of_its_files_and_of_what_differs(tmp_path, files, values, name):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("measure: {seed: 1}\nstudies: [a, b]\n")
    (tmp_path / "paper.yaml").write_text("studies: [a]\n")
    (tmp_path / "named.yaml").write_text("name: trial\n")
    found = configuration([tmp_path / file for file in files], values, root=tmp_path)
    assert found.settings.get("name") == name


def test_two_long_changes_have_two_names(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("grids: {}\n")
    first, second = (
        configuration([], {"grids": {"zhao2016": {"a": {"workers": [1, 2, last]}}}}, root=tmp_path).settings[
            "name"
        ]
        for last in (3, 4)
    )
    assert first != second
    assert first.startswith("grids-")
