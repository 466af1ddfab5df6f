"""`ddlbench interfaces`, as somebody calls it."""

import errno
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from ddlbench.cli.main import main
from tests.support.small_study import REPOSITORY


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in ("config", "workflow"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_lists_the_interfaces_and_what_each_fabric_and_transport_would_use(repository, capsys):
    assert main(["interfaces"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^lo +loopback .*127\.0\.0\.1", said, re.MULTILINE)
    assert re.search(r"^  loopback +lo$", said, re.MULTILINE)
    fabrics, transports = said.split("\nfabric\n")[1].split("\ntransport\n")
    assert [line.split()[0] for line in fabrics.splitlines()] == [
        "loopback",
        "emulated",
        "ethernet",
        "infiniband",
    ]
    assert [line.split()[0] for line in transports.splitlines()] == ["tcp", "ucx", "verbs"]
    assert all(len(line.split()) > 1 for line in [*fabrics.splitlines(), *transports.splitlines()])


def test_a_name_in_the_configuration_that_will_not_do_is_shown_with_its_reason(repository, capsys):
    config = yaml.safe_load((repository / "config/config.yaml").read_text())
    config["interfaces"]["ethernet"] = "lo"
    (repository / "config/config.yaml").write_text(yaml.safe_dump(config))
    assert main(["interfaces"]) == 0
    said = capsys.readouterr().out
    assert "'lo' is loopback; results over it would be called ethernet and not be it" in said


def test_it_works_outside_of_a_repository_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["interfaces"]) == 0
    assert main(["interfaces", "--configfile", "no_such.yaml"]) == 2


def test_it_works_in_another_project_that_has_a_configuration_too(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("ours: not\n")
    monkeypatch.chdir(tmp_path)
    assert main(["interfaces"]) == 0


def test_standard_output_on_a_full_disk_is_told_in_one_line(tmp_path):
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "ddlbench.cli", "interfaces"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == errno.ENOSPC
    (line,) = ended.stderr.splitlines()
    assert "the disk is full" in line


@pytest.mark.parametrize("command", ["doctor", "check", "probe link gigabit"])
def test_what_needs_a_checkout_says_so(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    assert "Start this in a checkout of ddlbench" in capsys.readouterr().err
