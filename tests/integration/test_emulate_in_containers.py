"""`ddlbench emulate` with commands that run in containers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.emulate_command import EMULATE, LINK, lines_of, run
from tests.support.remains import eventually

pytestmark = [pytest.mark.needs("sandboxes")]


def tiny_image(folder: Path, address: str) -> str:
    """An image with this machine's shell and little else; its name."""
    root = folder / "image"
    for program in ("/bin/sh", "/bin/grep", "/usr/bin/sleep"):
        (root / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(program, root / "bin")
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"/\S+", libraries):
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
    archive = subprocess.run(["tar", "-C", str(root), "-c", "."], capture_output=True, check=True).stdout
    client = ["docker", "--host", address]
    subprocess.run([*client, "import", "-", "tiny"], input=archive, capture_output=True, check=True)
    return "tiny"


def test_a_command_in_containers_is_on_its_hosts_and_nothing_of_it_stays(
    tmp_path: Path, engine_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine_address)
    image = tiny_image(tmp_path, engine_address)
    script = """
echo "rank $RANK, $(grep -c 10.66.0.$((RANK + 1)) /proc/net/fib_trie) of its address"
grep h1 /etc/hosts
if [ $RANK = 1 ]; then until [ -e deaf ]; do sleep 0.1; done; exit 3; fi
trap '' TERM; : >deaf; while true; do sleep 1; done
"""
    options = ["--grace-s", "0", "--runtime", "docker", image]
    ended = run(*EMULATE, *LINK, *options, "--", "sh", "-c", script, folder=tmp_path)
    assert ended.returncode == 3, ended.stderr
    assert "h1 has not ended" in ended.stderr
    assert lines_of("h2", ended.stdout)[1].split() == ["10.66.0.1", "h1"]
    assert not any(" 0 of its address" in line for line in ended.stdout.splitlines())
    client = ["docker", "--host", engine_address]
    assert eventually(lambda: not run(*client, "ps", "--all", "--quiet", folder=tmp_path).stdout)


def test_an_image_that_is_missing_is_told(
    tmp_path: Path, engine_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine_address)
    ended = run(*EMULATE, *LINK, "--runtime", "docker", "no-such-image", "--", "true", folder=tmp_path)
    assert ended.returncode == 125
    assert "docker pull no-such-image" in ended.stderr
