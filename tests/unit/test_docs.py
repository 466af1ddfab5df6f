"""The documentation names files and commands that there are."""

import re
from pathlib import Path

import pytest

from ddlbench.cli.main import main
from tests.support.small_study import REPOSITORY

PAGES = sorted([REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/*.md")])
NAMES = [page.relative_to(REPOSITORY).as_posix() for page in PAGES]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_a_page_leads_to_a_file(name: str) -> None:
    page = REPOSITORY / name
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    files = [target for target in targets if not target.startswith("https:")]
    assert [target for target in files if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_the_package_that_a_page_names_is_there(name: str) -> None:
    paths = re.findall(
        r"(?<![\w/.<>])(?:src|workflow|config|containers|benchmarks)/[\w/.]+\.\w+",
        (REPOSITORY / name).read_text(),
    )
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def test_every_station_of_the_architecture_is_there() -> None:
    text = (REPOSITORY / "docs/architecture.md").read_text()
    files = re.findall(r"[\w/]+/\w+\.(?:py|smk|yaml)", text)
    assert len(files) > 30
    missing = [
        file
        for file in files
        if not any((REPOSITORY / folder / file).exists() for folder in (Path(), Path("src/ddlbench")))
    ]
    assert missing == []


def test_the_index_names_every_page() -> None:
    index = (REPOSITORY / "docs/README.md").read_text()
    pages = [page.name for page in (REPOSITORY / "docs").glob("*.md") if page.name != "README.md"]
    assert [page for page in pages if f"({page})" not in index] == []


def test_every_command_of_ours_in_the_documentation_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    known = set(re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE))
    code = [part for page in PAGES for part in re.findall(r"```.*?```|`[^`]+`", page.read_text(), re.DOTALL)]
    named = {
        name for part in code for name in re.findall(r"(?:^|`|-N1 )ddlbench ([a-z]+)", part, re.MULTILINE)
    }
    assert named
    assert named <= known
