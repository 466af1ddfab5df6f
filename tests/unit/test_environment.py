"""A framework's environment is whole or not there, holds what its lock says, and is made once."""

import json
import re
import zipfile
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pytest

from ddlbench.environments.environment import create, packages
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file

pytestmark = pytest.mark.unit

NAME = "iniconfig"  # the driver has it too, and that must not count
VERSION = version(NAME)
WHEEL = f"{NAME}-{VERSION}-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only package index that pip knows here; it has one package."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    folder = tmp_path / "index" / NAME
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        info = f"{NAME}-{VERSION}.dist-info"
        wheel.writestr(f"{NAME}.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{NAME}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    (folder / "index.html").write_text(f'<a href="{WHEEL}">{WHEEL}</a>')
    return folder.parent


@pytest.fixture
def lock(tmp_path: Path, index: Path) -> Path:
    digest = sha256_file(index / NAME / WHEEL)
    path = tmp_path / "requirements.txt"
    path.write_text(f"{NAME}=={VERSION} \\\n    --hash=sha256:{digest}\n    # via us\n")
    return path


def test_an_environment_holds_what_its_lock_says_and_is_made_once(tmp_path: Path, lock: Path) -> None:
    target = tmp_path / "environments" / "torch"
    said: list[str] = []
    made = create(lock, target, report=said.append)
    assert made["packages"] == {NAME: VERSION}
    assert made["packages"] == packages(made["python"])
    assert made["requirements_sha256"] == sha256(lock.read_bytes()).hexdigest()
    assert made == json.loads((target / "environment.json").read_text())
    assert any("making it" in words for words in said)
    said.clear()
    assert create(lock, target, report=said.append) == made
    assert not said


@pytest.mark.long
def test_what_is_not_complete_is_made_anew(tmp_path: Path, lock: Path) -> None:
    target = tmp_path / "torch"
    (target / "bin").mkdir(parents=True)
    (target / "bin" / "python").write_text("half a file")
    made = create(lock, target, report=lambda words: None)
    (target / "environment.json").write_text("{")
    (target / "left-over").touch()
    assert create(lock, target, report=lambda words: None) == made
    assert not (target / "left-over").exists()


def test_a_wheel_with_another_hash_is_refused_and_no_environment_claims_to_be_complete(
    tmp_path: Path, lock: Path
) -> None:
    lock.write_text(re.sub("sha256:[0-9a-f]+", f"sha256:{'0' * 64}", lock.read_text()))
    with pytest.raises(
        DdlbenchError, match=r"environment torch could not be made(.|\n)*DO NOT MATCH THE HASHES"
    ):
        create(lock, tmp_path / "torch", report=lambda words: None)
    assert not (tmp_path / "torch" / "environment.json").exists()


def test_a_package_that_nobody_has_is_named(tmp_path: Path, lock: Path) -> None:
    lock.write_text(lock.read_text().replace(f"{NAME}=={VERSION}", f"{NAME}==0.0"))
    with pytest.raises(DdlbenchError, match=r"No matching distribution found for iniconfig==0\.0"):
        create(lock, tmp_path / "torch", report=lambda words: None)


def test_where_a_build_is_not_to_be_had_the_fallback_is_taken_and_said(tmp_path: Path, lock: Path) -> None:
    wanted = tmp_path / "requirements-cpu.txt"
    text = lock.read_text().replace(f"=={VERSION}", f"=={VERSION}+cpu")
    wanted.write_text(f"# fallback: {lock.name}\n{text}")
    said: list[str] = []
    made = create(wanted, tmp_path / "torch", report=said.append)
    assert made["packages"] == {NAME: VERSION}
    assert any(f"taking {lock.name}" in words for words in said)


def test_a_lock_for_a_python_that_is_not_here_says_so(tmp_path: Path, lock: Path) -> None:
    lock.write_text(f"# python: 3.99\n{lock.read_text()}")
    with pytest.raises(
        DdlbenchError, match=r"needs Python 3\.99; this is 3\.\d+, and there is no python3\.99 here"
    ):
        create(lock, tmp_path / "torch", report=lambda words: None)


def test_it_does_not_take_for_ever(tmp_path: Path, lock: Path) -> None:
    # No machine starts pip in less.
    with pytest.raises(DdlbenchError, match=r"after 0\.05 s, which is too long"):
        create(lock, tmp_path / "torch", timeout_s=0.05, report=lambda words: None)


def test_missing_requirements_are_named(tmp_path: Path) -> None:
    with pytest.raises(DdlbenchError, match=r"nowhere\.txt: there are no such requirements"):
        create(tmp_path / "nowhere.txt", tmp_path / "torch")
