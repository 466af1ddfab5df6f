"""Reading a configuration: it becomes a Plan, or one ConfigError that names every mistake."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ddlbench.errors import ConfigError, nearest
from ddlbench.plan.catalogue import NAMES
from ddlbench.plan.plan import Plan
from ddlbench.plan.schema import Known, Problem, block, schemas
from ddlbench.plan.study import Link
from ddlbench.plan.study_file import StudyFile
from ddlbench.plan.yaml_file import read_yaml

LINKS = "config/links.yaml"
MOST_SHOWN = 30  # problems in one message
SWITCHES = {"true": True, "false": False}


def load(config: Mapping[str, Any] | Path, root: Path, source: str = "config/config.yaml") -> Plan:
    """The plan of the repository at `root`.

    config: the settings, already merged with what the command line set, or a file of them.
    source: the file that messages about such settings name.
    Raises ConfigError, one line a mistake, for all that is wrong in the settings, the links and the studies.
    """
    if isinstance(config, Path):
        source = str(config.relative_to(root)) if config.is_relative_to(root) else str(config)
        config = read_yaml(config, root)
    if isinstance(config, Mapping) and (fresh := str(config.get("fresh"))) in SWITCHES:
        config = {**config, "fresh": SWITCHES[fresh]}  # as Snakemake's --config passes it on
    rules = schemas(root)
    links = read_yaml(root / LINKS, root)
    available = {path.stem: path for path in sorted((root / "config" / "studies").glob("*.yaml"))}
    names: Known = {**NAMES, "studies": available}
    if isinstance(links, dict):
        names = {**names, "links": [str(name) for name in links]}
    files = [
        StudyFile(
            key, read_yaml(available[key], root), block(block(config, "grids"), key), source, rules, names
        )
        for key in _selected(config, available)
    ]
    problems = [*rules.problems("config", config, source, names), *rules.problems("links", links, LINKS, {})]
    if problems or not isinstance(config, Mapping):
        raise _error([*problems, *(problem for file in files for problem in file.problems)])

    known_links = {name: Link(**{**link, **_floats(link)}) for name, link in links.items()}
    studies = {file.key: file.study(known_links, int(config["measure"]["seed"])) for file in files}
    problems += _reversed_bounds(config["measure"], source)
    problems += [problem for file in files for problem in file.problems]
    figures = [str(name) for file in files for name in block(file.data, "figures")]
    problems += _unknown_figures(config["default_figures"], figures, set(available) - set(studies), source)
    if problems:
        raise _error(problems)
    return Plan(
        settings=config,
        links=known_links,
        studies=studies,
        figures={name: figure for study in studies.values() for name, figure in study.figures.items()},
        default_figures=tuple(config["default_figures"]),
        runs=tuple(run for study in studies.values() for grid in study.grids.values() for run in grid.runs),
    )


def _selected(config: Any, available: Mapping[str, Path]) -> list[str]:
    """The studies to read, each once, as far as there are such."""
    wanted = config.get("studies") if isinstance(config, Mapping) else None
    wanted = wanted if isinstance(wanted, list) else []
    return list(dict.fromkeys(key for key in wanted if isinstance(key, str) and key in available))


def _error(problems: list[Problem]) -> ConfigError:
    more = [f"... and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else []
    return ConfigError("\n".join([*map(str, problems[:MOST_SHOWN]), *more]))


def _reversed_bounds(measure: Mapping[str, Any], file: str) -> Iterator[Problem]:
    for what in ("steps", "repetitions"):
        low, high = measure[f"min_{what}"], measure[f"max_{what}"]
        if low > high:
            text = f"{high} is less than min_{what}, which is {low}"
            yield Problem(file, ("measure", f"max_{what}"), text)


def _unknown_figures(
    wanted: list[str], known: list[str], other_studies: set[str], file: str
) -> Iterator[Problem]:
    for index, name in enumerate(wanted):
        if name not in known and name.partition("_")[0] not in other_studies:
            text = f"{name!r} is not a figure{nearest(name, known)}"
            yield Problem(file, ("default_figures", index), text)
    for study in sorted({name.partition("_")[0] for name in wanted} & other_studies):
        text = f"names figures of {study}, which `studies` does not list"
        yield Problem(file, ("default_figures",), text)


def _floats(data: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in data.items() if isinstance(value, int | float)}
