"""What a run is made from: the files that describe its environments, images and runtimes, and its data sets."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ddlbench.environments.environment import STAMP
from ddlbench.environments.failed_environments import why_not
from ddlbench.environments.runtime_environment import Engine, RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_json
from ddlbench.plan import Point
from ddlbench.protocol.codec import Malformed, read_text

ENVIRONMENTS, IMAGES = Path(".environments"), Path(".images")
BARE = "bare"
T = TypeVar("T")
Described = dict[str, RuntimeEnvironment]  # by runtime


@dataclass(frozen=True)
class Materials:
    """Each runtime's files that describe it, and each data set's file by its key.

    The first file of a runtime describes the environment or image, another one the runtime itself. A run that cannot be
    measured here needs none of them.
    """

    environments: Mapping[str, Sequence[Path]]
    datasets: Mapping[str, Path]

    @property
    def descriptions(self) -> list[Path]:
        """All files that describe runtimes."""
        return [path for paths in self.environments.values() for path in paths]

    def described(self) -> tuple[Described, dict[str, str]]:
        """What each runtime's files say, and of those that cannot be had, why."""
        found: Described = {}
        without: dict[str, str] = {}
        for runtime, (environment, *engines) in self.environments.items():
            lacking = (why for path in (*engines, environment) if (why := why_not(path)))
            if why := next(lacking, None):
                without[runtime] = why
                continue
            found[runtime] = _read(RuntimeEnvironment, environment)
            for engine in engines:
                found[runtime] = _with_engine(found[runtime], runtime, _read(Engine, engine))
        return found, without


def _read(kind: type[T], path: Path) -> T:
    """The description in a file; it may say more than is needed here."""
    try:
        return read_text(kind, path.read_text(), ignore_unknown=True)
    except (OSError, Malformed) as error:
        raise DdlbenchError(f"{path}: {error}. Remove it: the next start makes it anew.") from error


def _with_engine(environment: RuntimeEnvironment, runtime: str, engine: Engine) -> RuntimeEnvironment:
    """The environment with its engine; `sha256` tells one that is not what its runtime is called: Podman for Docker."""
    if engine.name == runtime:
        return replace(environment, engine=engine)
    return replace(environment, engine=engine, sha256=sha256_json([environment.sha256, engine.name]))


def description_files(points: Iterable[Point]) -> dict[str, list[Path]]:
    """The files that describe what workers of these points run in, by runtime; of points of one environment."""
    pairs = sorted({(point.environment, point.runtime) for point in points})
    return {runtime: files_of(environment, runtime) for environment, runtime in pairs}


def files_of(environment: str, runtime: str) -> list[Path]:
    """The files that describe an environment in a runtime."""
    if runtime == BARE:
        return [ENVIRONMENTS / environment / STAMP]
    return [IMAGES / environment / f"{runtime}.json", ENVIRONMENTS / runtime / STAMP]


def readable(settings: Mapping[str, Any], datasets: Iterable[Path]) -> list[str]:
    """The folders that workers read data sets from; settings: the configuration's `datasets`."""
    files = {os.path.abspath(path.parent) for path in datasets}
    names = {path.name.split("-")[0] for path in datasets}
    given = {settings.get(name, {}).get("folder") for name in names} - {None}
    return sorted(files | {os.path.abspath(folder) for folder in given})
