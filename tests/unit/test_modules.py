"""Which modules decide what a measurement, a table or a figure is."""

import ast
from pathlib import Path

import pytest

from ddlbench import modules

LISTS = {name: getattr(modules, name) for name in ("MEASURING", "PROBING", "TABULATING", "DRAWING")}


@pytest.mark.parametrize("name", LISTS)
def test_every_module_that_is_listed_exists(name):
    assert [module for module in LISTS[name] if not (modules.PACKAGE / module).is_file()] == []


def test_a_worker_of_the_probe_imports_nothing_of_ours_that_does_not_count_as_probing_but_the_channel():
    imported = set()
    for module in modules.PROBING:
        if module.startswith("workers/"):
            for node in ast.walk(ast.parse((modules.PACKAGE / module).read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ddlbench."):
                    imported.add(node.module.removeprefix("ddlbench.").replace(".", "/") + ".py")
    assert imported <= {*modules.PROBING, "workers/common/channel.py"}


def test_all_that_a_worker_imports_counts_as_measuring_and_nothing_of_another_framework_does():
    found = {
        str(Path(each).resolve().relative_to(modules.PACKAGE))
        for each in modules.measuring("ddlbench.workers.torch.ring_allreduce")
    }
    assert {
        "workers/torch/ring_allreduce.py",
        "workers/torch/memory.py",
        "workers/torch/models.py",
        "workers/common/batches.py",
        "workers/common/images.py",
        "network/star.py",
    } <= found
    others = ("workers/tensorflow", "workers/horovod", "workers/mxnet", "workers/common/channel")
    assert not {each for each in found if each.startswith(others)}


def test_files_are_named_relative_to_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (found,) = modules.files("modules.py", "no_such_module.py")
    assert not Path(found).is_absolute()
    assert Path(found).resolve() == modules.PACKAGE / "modules.py"
