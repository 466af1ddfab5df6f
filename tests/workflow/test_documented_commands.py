"""Every command of README and docs/ can be given as it stands there: those of Snakemake are tried as dry runs."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from ddlbench.cli.main import parser
from tests.support.repository import REPOSITORY, copy_of_the_repository, environment, snakemake

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(REPOSITORY.glob("docs/*.md"))]
# Whole commands are elsewhere; workflow/lint.py runs the lint.
NAMED_ONLY = ("--lint", "-n", "trace", "emulate", "recommend", "profile")
SCRIPT_OF_THE_READER = "train.py"
PROCESS = re.compile(r"^snakemake {9}")  # in the drawing of processes
PAGE = re.compile(r"\banwar2021_fig1[678]\b")  # pictures of the recommender's page
PLACEHOLDER = re.compile(r"<\w+>|(?<!\$)\b[A-Z]{4,}\b")
FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
SCRIPT = re.compile(r"sh -c '[^']*'")  # may have several lines


def commands(program: str) -> list[str]:
    """What the pages say after a program's name, in blocks of code and within lines; without comments."""
    found: dict[str, None] = {}
    for page in PAGES:
        for line in code_of(page.read_text()):
            words = shlex.split(line, comments=True) if line.startswith(f"{program} ") else []
            if len(words) > 1 and not PLACEHOLDER.search(line) and not PROCESS.search(line):
                found[shlex.join(words[1:])] = None
    return [each for each in found if each not in (*NAMED_ONLY, SCRIPT_OF_THE_READER)]


def code_of(text: str) -> list[str]:
    """The lines of a page that are code: fenced, indented by four spaces, or within backticks."""
    rest = FENCED.sub("", text)
    blocks = [*FENCED.findall(text), *map(dedent, INDENTED.findall(rest))]
    joined = [SCRIPT.sub(lambda script: script[0].replace("\n", " "), block) for block in blocks]
    lines = [line.removeprefix("$ ") for block in joined for line in block.splitlines()]
    return [*lines, *re.findall(r"`([^`\n]+)`", rest)]


def test_code_of_a_page_is_fenced_indented_or_within_a_line() -> None:
    page = "Do `a b`:\n\n    c d\n    e -- sh -c '\n      f'\n\nor\n\n```\n$ g\n    h\n```\n- a list\n    of more\n"
    assert code_of(page) == ["g", "    h", "c d", "e -- sh -c '   f'", "a b"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_of_the_repository(tmp_path_factory.mktemp("documented") / "ddlbench")
    for file in ("README.md", "Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy2(REPOSITORY / file, root / file)
    shutil.copytree(root / "profiles/slurm", root / ".config/snakemake/slurm")
    key = root / ".ssh/id_ed25519"
    key.parent.mkdir()
    key.touch()
    result = root / "results/figures"
    result.mkdir(parents=True)
    for name in ("zhao2016_fig5.svg", "cluster2026_ethernet.svg"):
        (result / name).touch()
    (root / "imported").mkdir()
    for file in ("theirs.csv", "newthesis.csv", "imported/theirs.csv", "report.zip", "token"):
        (root / file).touch()
    return root


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(each, marks=[pytest.mark.needs("Chromium")] if PAGE.search(each) else [])
        for each in commands("snakemake")
    ],
)
def test_a_command_of_snakemake_plans_what_it_names(checkout: Path, arguments: str) -> None:
    words = shlex.split(arguments)
    if words[0] == "--report":  # of what is there; nothing is measured here
        words = []
    home = {"HOME": str(checkout)}  # where docs/clusters.md has put the profile
    answer = snakemake(checkout, *words, "--dry-run", "--quiet", env=environment(checkout) | home)
    assert answer.returncode == 0, answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("arguments", commands("ddlbench"))
def test_a_command_of_ours_has_these_arguments(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("HOME", str(checkout))
    words = [os.path.expanduser(word) for word in shlex.split(arguments)]  # as a shell does
    assert parser().parse_args(words).command


@pytest.mark.parametrize("target", commands("make"))
def test_a_target_of_make_has_a_recipe(checkout: Path, target: str) -> None:
    answer = subprocess.run(["make", "--dry-run", *shlex.split(target)], cwd=checkout, capture_output=True)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("arguments", commands("python"))
def test_a_module_that_is_run_is_there(arguments: str) -> None:
    option, module, *_ = shlex.split(arguments)
    assert option == "-m"
    assert importlib.util.find_spec(module)
