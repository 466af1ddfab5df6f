"""A framework that is built from its source: its wheel, made by the recipe (`build.toml`) beside locked requirements.

Wheels are kept in ~/.cache/ddlbench/wheels (XDG_CACHE_HOME), by the hash of all that they are made from, and only
complete ones. The cache saves time; nothing depends on it.
"""

import os
import platform
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from ddlbench.environments.commands import pip, run_command
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular, sha256_file, sha256_json, write_atomically
from ddlbench.sandbox.sandbox import check_sandbox, sandbox_argv

RECIPE = "build.toml"
_INHERITED = ("HOME", "LANG", "PATH", "TMPDIR")
_REPORT_INTERVAL_S = 20.0
_APT_TIMEOUT_S = 600.0
_ASK_PYTHON = "import platform, sysconfig; print(platform.python_version(), sysconfig.get_path('include'))"


@dataclass(frozen=True)
class Recipe:
    """How a wheel is built.

    Attributes:
        name: the package.
        version: of the package.
        sha256: the checksum of the source's archive.
        variables: environment variables of the build.
        tools: what the machine must have: command or file -> its Debian package.
        cpu_flags: extensions that the built code uses if the CPU has them.
        files: the recipe itself, then the patches.
    """

    name: str
    version: str
    sha256: str
    variables: Mapping[str, str]
    tools: Mapping[str, str]
    cpu_flags: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def patches(self) -> tuple[Path, ...]:
        """The patches, in the order in which they are applied."""
        return self.files[1:]

    @property
    def digest(self) -> str:
        """A hash of all files of the repository that decide the build."""
        return sha256_json([sha256_file(file) for file in self.files])


def recipe_files(requirements: Path | str) -> list[Path]:
    """List the files of the recipe beside a lock file.

    Args:
        requirements: the lock file.

    Returns:
        The recipe, then its patches in the order of their names; empty if there is no recipe.
    """
    recipe = Path(requirements).with_name(RECIPE)
    return [recipe, *sorted((recipe.parent / "patches").glob("*.patch"))] if recipe.is_file() else []


def recipe_beside(requirements: Path | str) -> Recipe | None:
    """Read the recipe of what has to be built for a lock file.

    Args:
        requirements: the lock file; the recipe is in the same folder.

    Returns:
        The recipe; None if there is none.

    Raises:
        DdlbenchError: the recipe cannot be read.
    """
    files = recipe_files(requirements)
    if not files:
        return None
    try:
        given = tomllib.loads(read_regular(files[0]).decode())
        return Recipe(**{**given, "cpu_flags": tuple(given["cpu_flags"])}, files=tuple(files))
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise DdlbenchError(f"{files[0]}: this recipe cannot be read: {error}") from error


def wheel(
    recipe: Recipe,
    python: Path,
    packages: Mapping[str, str],
    folder: Path,
    *,
    timeout_s: float,
    report: Callable[[str], None],
) -> tuple[Path, str]:
    """Make the recipe's wheel, or take it from the cache.

    Args:
        recipe: how it is built.
        python: the interpreter that it is for.
        packages: what is installed for this interpreter ({name: version}), to build against.
        folder: a folder to build in, which the caller removes.
        timeout_s: how long the build may take.
        report: is called with lines about the progress.

    Returns:
        The wheel, and the hash of all that it is made from.

    Raises:
        DdlbenchError: a tool is missing, or the build failed; with the compiler's messages.
    """
    what = f"{recipe.name} {recipe.version}"
    version, include = _output([str(python), "-I", "-c", _ASK_PYTHON]).split(maxsplit=1)
    _require_tools(
        {tool.format(include=include): package for tool, package in recipe.tools.items()}, what, report
    )
    key = sha256_json([recipe.digest, dict(packages), version, *_machine(recipe)])
    kept = _cache() / key
    if found := next(kept.glob("*.whl"), None):
        if _is_whole(found):
            report(f"{what}: it has been built before ({found})")
            return found, key
        shutil.rmtree(kept, ignore_errors=True)
    built = _build(recipe, python, folder, what, timeout_s, report)
    try:
        write_atomically(kept / built.name, built.read_bytes())
    except (OSError, DdlbenchError) as error:
        report(f"{what}: it is not kept for the next time: {error}")
    return built, key


def _build(
    recipe: Recipe, python: Path, folder: Path, what: str, timeout_s: float, report: Callable[[str], None]
) -> Path:
    """Build the wheel below `folder`, in a sandbox without a network."""
    check_sandbox()
    started = monotonic()
    source = _source(recipe, python, folder, what, timeout_s)
    for patch in recipe.patches:
        argv = ["patch", "-p1", "--batch", "--forward", f"--directory={source}", f"--input={patch.resolve()}"]
        run_command(argv, f"{what} with {patch.name}", timeout_s=60)
    cores = len(os.sched_getaffinity(0))
    report(f"{what}: building it with {cores} core{'s' * (cores > 1)}, which takes minutes (once)")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = os.pathsep.join([str(python.parent), inherited.get("PATH", os.defpath)])
    argv = pip(python, "wheel", "--verbose", "--no-deps", "--no-index", "--no-build-isolation")
    run_command(
        sandbox_argv([*argv, f"--wheel-dir={folder / 'wheels'}", str(source)]),
        what,
        timeout_s=timeout_s,
        on_line=_Progress(what, report),
        variables={**inherited, **recipe.variables, "PATH": path, "MAKEFLAGS": f"-j{cores}"},
    )
    (built,) = (folder / "wheels").glob("*.whl")
    report(f"{what}: built in {monotonic() - started:.0f} s")
    return built


def _source(recipe: Recipe, python: Path, folder: Path, what: str, timeout_s: float) -> Path:
    """Download the source with pip, check and unpack it."""
    folder.mkdir(parents=True, exist_ok=True)
    pinned = folder / "source.txt"
    pinned.write_text(f"{recipe.name}=={recipe.version} --hash=sha256:{recipe.sha256}\n")
    options = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes"]
    argv = pip(python, "download", *options, f"--dest={folder}", f"--requirement={pinned}")
    run_command(argv, f"the source of {what}", timeout_s=timeout_s)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        # Python 3.11.2 of Debian 12 has no such filter yet; the archive has the hash that the recipe names.
        filtered: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        files.extractall(folder / "source", **filtered)  # its hash was checked  # nosec B202
    (source,) = (folder / "source").iterdir()
    return source


class _Progress:
    """Reports at intervals how far CMake's makefiles are, from their output."""

    def __init__(self, what: str, report: Callable[[str], None]) -> None:
        self._what, self._report, self._reported_s = what, report, monotonic()

    def __call__(self, line: str) -> None:
        share = re.match(r"\s*\[ *(\d+)%\]", line)
        if share and monotonic() - self._reported_s >= _REPORT_INTERVAL_S:
            self._reported_s = monotonic()
            self._report(f"{self._what}: {share[1]} % built")


def _require_tools(tools: Mapping[str, str], what: str, report: Callable[[str], None]) -> None:
    """Install the tools that the build needs, as root; other users get an error that says how."""
    missing = _missing(tools)
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        report(f"{what}: installing {', '.join(missing)}, to build it")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *missing]):
            run_command(["apt-get", *step], f"what builds {what}", timeout_s=_APT_TIMEOUT_S, variables=quiet)
        missing = _missing(tools)
    if missing:
        raise DdlbenchError(
            f"{what} is built from its source, and what builds it is missing here: {', '.join(missing)}. "
            f"On Debian:  sudo apt-get install {' '.join(missing)}"
        )


def missing_tools(recipe: Recipe, python: str) -> list[str]:
    """List what must be installed before a recipe can be built.

    Args:
        recipe: what is to be built.
        python: the interpreter that it is for.

    Returns:
        The names of Debian packages; empty if nothing is missing.

    Raises:
        DdlbenchError: the interpreter does not work.
    """
    include = _output([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"]).strip()
    return _missing({tool.format(include=include): package for tool, package in recipe.tools.items()})


def _missing(tools: Mapping[str, str]) -> list[str]:
    """The Debian packages of the tools that this machine does not have."""
    lacking = {package for tool, package in tools.items() if not (shutil.which(tool) or Path(tool).is_file())}
    return sorted(lacking)


def _machine(recipe: Recipe) -> list[str]:
    """The properties of this machine that a wheel depends on: architecture, C library, compiler, CPU extensions."""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    here = set(flags[1].split()) if flags else set()
    return [
        platform.machine(),
        "-".join(platform.libc_ver()),
        _output(["g++", "--version"]).partition("\n")[0],
        *(flag for flag in recipe.cpu_flags if flag in here),
    ]


def _cache() -> Path:
    """Where wheels are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddlbench" / "wheels"


def _is_whole(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def _output(command: list[str]) -> str:
    """The output of a short command."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise DdlbenchError(f"{' '.join(command)}: {error}") from error


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).is_file() else ""
