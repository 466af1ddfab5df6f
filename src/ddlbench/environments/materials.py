"""What a run is made from: the files that describe its environments, images and runtimes, and its data sets."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ddlbench.environments.environment import STAMP
from ddlbench.environments.failed_environments import failure_of
from ddlbench.environments.runtime_environment import Engine, RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular, sha256_json
from ddlbench.plan import Point
from ddlbench.plan.settings import Datasets
from ddlbench.protocol.codec import Malformed, read_text

ENVIRONMENTS, IMAGES = Path(".environments"), Path(".images")
BARE = "bare"
T = TypeVar("T")
Described = dict[str, RuntimeEnvironment]  # by runtime


@dataclass(frozen=True)
class Materials:
    """The files that a run is made from. A run that cannot be measured here needs none of them.

    Attributes:
        environments: for each runtime, the file that describes the environment or image, then, if there is one, the
            file that describes the runtime itself.
        datasets: the file of each data set, by its key.
    """

    environments: Mapping[str, Sequence[Path]]
    datasets: Mapping[str, Path]

    @property
    def descriptions(self) -> list[Path]:
        """All files that describe runtimes."""
        return [path for paths in self.environments.values() for path in paths]

    def described(self) -> tuple[Described, dict[str, str]]:
        """Read the descriptions of all runtimes.

        Returns:
            The descriptions of the runtimes that can be used, and, for each other runtime, why it cannot.

        Raises:
            DdlbenchError: a description cannot be read; names the file.
        """
        found: Described = {}
        without: dict[str, str] = {}
        for runtime, (environment, *engines) in self.environments.items():
            lacking = (why for path in (*engines, environment) if (why := failure_of(path)))
            if why := next(lacking, None):
                without[runtime] = why
                continue
            found[runtime] = _read(RuntimeEnvironment, environment)
            for engine in engines:
                found[runtime] = _with_engine(found[runtime], runtime, _read(Engine, engine))
        return found, without


def _read(kind: type[T], path: Path) -> T:
    """Read the description in a file; keys that are not needed here are ignored."""
    try:
        return read_text(kind, read_regular(path).decode(), ignore_unknown=True)
    except (OSError, UnicodeDecodeError, Malformed) as error:
        raise DdlbenchError(f"{path}: {error}. Remove it: the next start makes it anew.") from error


def _with_engine(environment: RuntimeEnvironment, runtime: str, engine: Engine) -> RuntimeEnvironment:
    """The environment with its engine. If the engine is Podman in place of Docker, `sha256` changes too."""
    if engine.name == runtime:
        return replace(environment, engine=engine)
    return replace(environment, engine=engine, sha256=sha256_json([environment.sha256, engine.name]))


def description_files(points: Iterable[Point]) -> dict[str, list[Path]]:
    """List the files that describe what workers run in.

    Args:
        points: all of one environment.

    Returns:
        {runtime: files as of `files_of`}.
    """
    pairs = sorted({(point.environment, point.runtime) for point in points})
    return {runtime: files_of(environment, runtime) for environment, runtime in pairs}


def all_description_files(points: Iterable[Point]) -> list[Path]:
    """List the files that describe what workers run in, also those of several environments.

    Args:
        points: of any environments.

    Returns:
        The files as of `files_of`, each once.
    """
    pairs = sorted({(point.environment, point.runtime) for point in points})
    return list(dict.fromkeys(file for pair in pairs for file in files_of(*pair)))


def files_of(environment: str, runtime: str) -> list[Path]:
    """List the files that describe an environment in a runtime.

    Args:
        environment: its name, for instance `mxnet`.
        runtime: where workers run: `bare`, `docker` or `apptainer`.

    Returns:
        The file of the environment or image; for containers, the file of the runtime follows.
    """
    if runtime == BARE:
        return [ENVIRONMENTS / environment / STAMP]
    return [IMAGES / environment / f"{runtime}.json", ENVIRONMENTS / runtime / STAMP]


def dataset_folders(settings: Datasets, datasets: Iterable[Path]) -> list[str]:
    """List the folders that workers read data sets from.

    Args:
        settings: `datasets` of the configuration.
        datasets: the files of the data sets.

    Returns:
        Absolute paths, sorted, each once: the folders of the files, and those that the configuration names for them.
    """
    files = {os.path.abspath(path.parent) for path in datasets}
    names = {path.name.split("-")[0] for path in datasets}
    given = (settings.source(name).folder for name in names)
    return sorted(files | {os.path.abspath(folder) for folder in given if folder})
