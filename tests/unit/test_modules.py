"""Which modules decide what a measurement, a table or a figure is."""

import ast
from pathlib import Path

import pytest

from ddlbench import modules

LISTS = {"MEASURING": modules.MEASURING, "TABULATING": modules.TABULATING, "DRAWING": modules.DRAWING}


@pytest.mark.parametrize("name", LISTS)
def test_every_module_that_is_listed_exists(name):
    assert [module for module in LISTS[name] if not (modules.PACKAGE / module).is_file()] == []


def test_a_worker_imports_nothing_of_ours_that_does_not_count_as_measuring_but_the_channel():
    imported = set()
    for module in modules.MEASURING:
        if module.startswith("workers/"):
            for node in ast.walk(ast.parse((modules.PACKAGE / module).read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ddlbench."):
                    imported.add(node.module.removeprefix("ddlbench.").replace(".", "/") + ".py")
    assert imported <= {*modules.MEASURING, "workers/channel.py"}


def test_files_are_named_relative_to_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (found,) = modules.files("modules.py", "no_such_module.py")
    assert not Path(found).is_absolute()
    assert Path(found).resolve() == modules.PACKAGE / "modules.py"
