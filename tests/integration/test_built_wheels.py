"""What a framework's environment builds from its source: patched, whole or not there, and kept for the next time."""

import io
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import psutil
import pytest

from ddlbench.environments.environment import create
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file
from tests.support.repository import REPOSITORY, environment

pytestmark = [pytest.mark.needs("patch"), pytest.mark.long]
NAME = "madehere"
SOURCE = {
    f"{NAME}.py": 'WORD = "theirs"\n',
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "PKG-INFO": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
    "backend.py": f"""
import os, time, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    if os.environ.get("SLOWLY"):
        time.sleep(1000)
    with zipfile.ZipFile(f"{{folder}}/{NAME}-1.0-py3-none-any.whl", "w") as wheel:
        info = "{NAME}-1.0.dist-info"
        wheel.write("{NAME}.py")
        wheel.write("PKG-INFO", f"{{info}}/METADATA")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/RECORD", "".join(f"{{n}},,\\n" for n in [*wheel.namelist(), f"{{info}}/RECORD"]))
    return f"{NAME}-1.0-py3-none-any.whl"

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    os.makedirs(f"{{folder}}/{NAME}-1.0.dist-info")
    with open("PKG-INFO") as here, open(f"{{folder}}/{NAME}-1.0.dist-info/METADATA", "w") as there:
        there.write(here.read())
    return "{NAME}-1.0.dist-info"
""",
}
PATCH = f"""Ours is better.

--- a/{NAME}.py
+++ b/{NAME}.py
@@ -1 +1 @@
-WORD = "theirs"
+WORD = "ours"
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Requirements that ask for nothing, beside a recipe that builds one package; a cache that is empty."""
    index = tmp_path / "index" / NAME
    index.mkdir(parents=True)
    archive = index / f"{NAME}-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as files:
        for name, text in SOURCE.items():
            entry = tarfile.TarInfo(f"{NAME}-1.0/{name}")
            entry.size, entry.mtime = len(text), 1_000_000_000
            files.addfile(entry, io.BytesIO(text.encode()))
    (index / "index.html").write_text(f'<a href="{archive.name}">{archive.name}</a>')
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": index.parent.as_uri(),
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "containers"
    (folder / "patches").mkdir(parents=True)
    (folder / "patches" / "0001-better.patch").write_text(PATCH)
    (folder / "build.toml").write_text(
        f'name = "{NAME}"\nversion = "1.0"\nsha256 = "{sha256_file(archive)}"\ncpu_flags = []\n'
        '[variables]\n[tools]\npatch = "patch"\n'
    )
    (folder / "requirements.txt").write_text("")
    return folder / "requirements.txt"


def made(lock: Path, target: Path) -> tuple[str, str]:
    """The word of what was built, and what was said meanwhile."""
    said: list[str] = []
    python = create(lock, target, imports=[NAME], report=said.append)["python"]
    asked = [python, "-I", "-c", f"import {NAME}; print({NAME}.WORD)"]
    word = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return word, "\n".join(said)


def test_what_is_built_has_its_patches_and_is_built_once(tmp_path: Path, lock: Path) -> None:
    word, said = made(lock, tmp_path / "one")
    assert word == "ours"
    assert "building it" in said
    word, said = made(lock, tmp_path / "two")
    assert word == "ours"
    assert "it has been built before" in said


def test_another_patch_is_another_build_and_another_environment(tmp_path: Path, lock: Path) -> None:
    before = create(lock, tmp_path / "one", report=lambda words: None)
    patch = lock.parent / "patches" / "0001-better.patch"
    patch.write_text(PATCH.replace("ours", "mine"))
    assert made(lock, tmp_path / "one")[0] == "mine"
    assert create(lock, tmp_path / "one", report=lambda words: None)["sha256"] != before["sha256"]


@pytest.mark.parametrize("damage", ["cut", "forbidden"])
def test_the_cache_saves_time_and_is_not_needed(
    tmp_path: Path, lock: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lock, tmp_path / "one")
    if damage == "cut":
        (kept,) = (tmp_path / "cache").rglob("*.whl")
        kept.write_bytes(kept.read_bytes()[:-9])
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    word, said = made(lock, tmp_path / "two")
    assert word == "ours"
    assert "building it" in said


def test_a_patch_that_does_not_fit_is_named(tmp_path: Path, lock: Path) -> None:
    (lock.parent / "patches" / "0002-again.patch").write_text(PATCH)
    with pytest.raises(DdlbenchError, match=f"{NAME} 1.0 with 0002-again.patch could not be made"):
        create(lock, tmp_path / "one", report=lambda words: None)
    assert not (tmp_path / "one" / "environment.json").exists()


def test_a_tool_that_is_missing_is_named_with_its_package(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = lock.with_name("build.toml")
    recipe.write_text(recipe.read_text() + 'no-such-compiler = "libnowhere-dev"\n')
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(DdlbenchError, match="sudo apt-get install libnowhere-dev"):
        create(lock, tmp_path / "one", report=lambda words: None)


def test_a_build_that_takes_too_long_is_ended(tmp_path: Path, lock: Path) -> None:
    slow_down(lock)
    with pytest.raises(DdlbenchError, match=r"after 8 s, which is too long"):
        create(lock, tmp_path / "one", timeout_s=8, report=lambda words: None)
    wait_until(lambda: not builders(tmp_path))


def test_a_killed_build_leaves_no_process_and_nothing_that_is_taken_as_complete(
    tmp_path: Path, lock: Path
) -> None:
    slow_down(lock)
    target = tmp_path / "one"
    code = f"from ddlbench.environments.environment import create; create({str(lock)!r}, {str(target)!r})"
    making = subprocess.Popen([sys.executable, "-c", code], env=environment(REPOSITORY))
    wait_until(lambda: len(builders(tmp_path)) > 0)
    making.kill()
    making.wait()
    wait_until(lambda: not builders(tmp_path))
    assert not (target / "environment.json").exists()
    assert not list((tmp_path / "cache").rglob("*.whl"))
    lock.with_name("build.toml").write_text(
        lock.with_name("build.toml").read_text().replace("SLOWLY", "FAST")
    )
    assert made(lock, target)[0] == "ours"


def slow_down(lock: Path) -> None:
    """Have the build take for ever."""
    recipe = lock.with_name("build.toml")
    recipe.write_text(recipe.read_text().replace("[variables]", '[variables]\nSLOWLY = "yes"'))


def builders(folder: Path) -> list[psutil.Process]:
    """The processes that build below `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if str(folder) in words and "build_wheel" in words:
            found.append(process)
    return found


def wait_until(true: "object") -> None:
    """Give something five minutes to become true."""
    until = time.monotonic() + 300
    while not true():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.05)
