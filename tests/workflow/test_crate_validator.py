"""The archive of `make report`, by the public validator of RO-Crates."""

import json
import zipfile
from pathlib import Path

import pytest

from ddlbench.report.archive import METADATA
from tests.support.archive_samples import an_archive
from tests.support.crate_validator import complaints, make
from tests.support.once import made_once


@pytest.fixture(scope="session")
def crate_validator(tmp_path_factory):
    """An environment that has it."""
    return made_once(tmp_path_factory, "crate-validator", make)


@pytest.fixture
def archive(tmp_path):
    return an_archive(tmp_path)


def without(archive: Path, key: str) -> Path:
    """The same archive, whose metadata lack a key."""
    other = archive.with_name(f"without-{key}.zip")
    with zipfile.ZipFile(archive) as whole, zipfile.ZipFile(other, "w") as lacking:
        for name in whole.namelist():
            content = whole.read(name)
            if name == METADATA:
                crate = json.loads(content)
                for entity in crate["@graph"]:
                    entity.pop(key, None)
                content = json.dumps(crate).encode()
            lacking.writestr(name, content)
    return other


def test_an_archive_has_all_that_a_workflow_run_crate_requires(crate_validator, archive):
    assert complaints(crate_validator, archive) == ""


@pytest.mark.parametrize("key", ["instrument", "mainEntity", "programmingLanguage"])
def test_the_validator_names_what_an_archive_lacks(crate_validator, archive, key):
    assert key in complaints(crate_validator, without(archive, key))
