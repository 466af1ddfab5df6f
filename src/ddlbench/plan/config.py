"""Reading a configuration. The result is a Plan, or one ConfigError that names every mistake."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ddlbench.configuration.schema import Known, Path_, Problem, block, schemas, shown
from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.devices import devices_file
from ddlbench.errors import ConfigError, nearest
from ddlbench.plan import sites_file
from ddlbench.plan.catalogue import MODELS, NAMES
from ddlbench.plan.config_files import NAME_FORM, Configuration, configuration
from ddlbench.plan.plan import Plan
from ddlbench.plan.probe import probes_of
from ddlbench.plan.settings import Settings, settings_from
from ddlbench.plan.study import Link
from ddlbench.plan.study_file import StudyFile

LINKS = "config/links.yaml"
SITES = sites_file.FILE
MOST_SHOWN = 30  # problems in one message
SWITCHES = {"true": True, "false": False}
_PATTERNS = frozenset("{}*?[]~")  # Snakemake or a shell does not take them literally
OF_THE_DEFAULT = (  # lies below `results` or `logs`, with any ending, so it is no name of another configuration
    "claims",
    "datasets",
    "environments",
    "faults",
    "figures",
    "images",
    "models",
    "points",
    "probes",
    "recommendation",
    "report",
    "runs",
    "set-aside",
    "store",
    "tables",
    "telemetry",
    "SHA256SUMS",
)
OWN_FOLDERS = ("benchmarks", "config", "containers", "docs", "logs", "profiles", "src", "tests", "workflow")


def load(
    config: Mapping[str, Any] | Configuration | Path,
    root: Path,
    source: str = "config/config.yaml",
    *,
    scheduler: str | None = None,
    gpus: int = 0,
) -> Plan:
    """Read the settings, the links, the sites, the devices and the studies of a repository, and make the plan.

    Args:
        config: a configuration, its settings alone, or a file whose values replace those of the default
            configuration. Not validated yet.
        root: the repository.
        source: the file that messages about settings name, if `config` does not tell its files.
        scheduler: the scheduler that gives us machines (slurm); None: there is none.
        gpus: how many this machine has.

    Returns:
        All studies that the settings list, expanded into points and runs.

    Raises:
        ConfigError: for all mistakes in any of these files, one line for each.
    """
    if isinstance(config, Path):
        config = configuration([config], root=root)
    if isinstance(config, Configuration):
        source, config = config.source(root), config.settings
    if isinstance(config, Mapping):  # Snakemake's --config gives switches as text
        given = {key: str(config.get(key)) for key in ("fresh", "results_outside")}
        config = {**config, **{key: SWITCHES[text] for key, text in given.items() if text in SWITCHES}}
    rules = schemas(root)
    links, places, devices = (read_yaml(root / file, root) for file in (LINKS, SITES, devices_file.FILE))
    available = {path.stem: path for path in sorted((root / "config" / "studies").glob("*.yaml"))}
    names: Known = {**NAMES, "studies": available}
    for kind, given in (("links", links), ("sites", places), ("devices of hosts", devices)):
        if isinstance(given, dict):
            names = {**names, kind: [str(name) for name in given]}
    files = [
        StudyFile(
            key, read_yaml(available[key], root), block(block(config, "grids"), key), source, rules, names
        )
        for key in _selected(config, available)
    ]
    problems = [
        *rules.problems("config", config, source, names),
        *rules.problems("links", links, LINKS, {}),
        *rules.problems("sites", places, SITES, names),
        *rules.problems("devices", devices, devices_file.FILE, names),
    ]
    problems = problems or [
        *sites_file.problems(places),
        *(Problem(devices_file.FILE, *found) for found in devices_file.problems(devices, MODELS)),
    ]
    if problems or not isinstance(config, Mapping):
        raise _error([*problems, *(problem for file in files for problem in file.problems)])

    known_links = {name: Link(**{**link, **_floats(link)}) for name, link in links.items()}
    known_sites = sites_file.sites_from(places, known_links)
    known_devices = devices_file.devices_from(devices)
    settings = settings_from(config)
    seed, shaped_mbit = settings.measure.seed, settings.probes.shaped_mbit
    studies = {
        file.key: file.study(known_links, known_sites, known_devices, seed, shaped_mbit) for file in files
    }
    problems += _reversed_bounds(settings, source)
    problems += [problem for file in files for problem in file.problems]
    figures = [str(name) for file in files for name in block(file.data, "figures")]
    problems += [
        Problem(source, ("cluster", "figures", name), f"{name!r} is not a figure{nearest(name, figures)}")
        for name in settings.cluster.figures
        if name not in figures
    ]
    problems += _misplaced_results(settings, root, source)
    problems += _unfit_name(settings.name, source)
    problems += _unknown_figures(settings.default_figures, figures, set(available) - set(studies), source)
    if problems:
        raise _error(problems)
    drawn = {name: figure for study in studies.values() for name, figure in study.figures.items()}
    return Plan(
        settings=settings,
        links=known_links,
        sites=known_sites,
        studies=studies,
        figures=drawn,
        default_figures=tuple(name for name in settings.default_figures if name in drawn),
        probes=probes_of(settings.probes, known_links),
        runs=tuple(run for study in studies.values() for grid in study.grids.values() for run in grid.runs),
        scheduler=scheduler,
        gpus=gpus,
    )


def _selected(config: Any, available: Mapping[str, Path]) -> list[str]:
    """The studies to read, each once; unknown ones are left out."""
    wanted = config.get("studies") if isinstance(config, Mapping) else None
    wanted = wanted if isinstance(wanted, list) else []
    return list(dict.fromkeys(key for key in wanted if isinstance(key, str) and key in available))


def _error(problems: list[Problem]) -> ConfigError:
    more = [f"... and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else []
    return ConfigError("\n".join([*map(str, problems[:MOST_SHOWN]), *more]))


def _misplaced_results(settings: Settings, root: Path, file: str) -> Iterator[Problem]:
    """Without `results_outside` the folder of results must be below the repository, and not one of its own."""
    results = Path(settings.results)
    try:
        occupied = next(
            (path for path in (root / results, *(root / results).parents) if path.is_file()), None
        )
    except OSError as error:  # a name that is too long, or a folder that this user may not enter
        yield Problem(file, ("results",), f"{shown(str(results))} cannot be looked at ({error.strerror})")
        return
    if not str(results).isprintable() or set(str(results)) & _PATTERNS:
        text = f"{str(results)!r} is not a folder (expected a name without {' '.join(sorted(_PATTERNS))})"
        yield Problem(file, ("results",), text)
    elif occupied:
        yield Problem(file, ("results",), f"{str(results)!r} is not a folder: {occupied.name} is a file")
    elif settings.results_outside:
        return
    elif results.is_absolute() or ".." in results.parts or not results.parts:
        text = (
            f"{str(results)!r} does not lie below the repository (`results_outside: true` allows any place)"
        )
        yield Problem(file, ("results",), text)
    elif results.parts[0] in OWN_FOLDERS or results.parts[0].startswith("."):
        text = f"{str(results)!r} is a folder of the project's own (possible is another below the repository)"
        yield Problem(file, ("results",), text)


def _unfit_name(name: str, file: str) -> Iterator[Problem]:
    """A configuration's name must be that of a folder which no rule makes below `results` or `logs`."""
    hint = "that of its file counts where the key `name` gives none; such a key may stand in the file"
    if name and not NAME_FORM.fullmatch(name):
        text = f"{name!r} is not a name for a folder of results (expected letters, digits, `_`, `.`, `+`, `-`; {hint})"
        yield Problem(file, ("name",), text)
    elif name.partition(".")[0] in OF_THE_DEFAULT:
        text = f"{name!r} is a folder or file of the default configuration's results (expected another name; {hint})"
        yield Problem(file, ("name",), text)


def _reversed_bounds(settings: Settings, file: str) -> Iterator[Problem]:
    measure, of_probes = settings.measure, settings.probes.measure
    bounds: list[tuple[Path_, str, int, int]] = [
        (("measure",), "steps", measure.min_steps, measure.max_steps),
        (("measure",), "repetitions", measure.min_repetitions, measure.max_repetitions),
        (("probes", "measure"), "repetitions", of_probes.min_repetitions, of_probes.max_repetitions),
    ]
    for path, what, low, high in bounds:
        if low > high:
            yield Problem(file, (*path, f"max_{what}"), f"{high} is less than min_{what}, which is {low}")


def _unknown_figures(
    wanted: Sequence[str], known: list[str], other_studies: set[str], file: str
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
