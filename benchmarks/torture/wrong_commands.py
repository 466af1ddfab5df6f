"""Ways to make a command line wrong, drawn at random."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from benchmarks.torture.wrong_configurations import Try

SOUND: Sequence[tuple[str, ...]] = (
    ("ddlbench", "check", "config/config.yaml"),
    ("ddlbench", "check", "config/paper.yaml"),
    ("ddlbench", "summary", "--config", "config/config.yaml"),
    ("ddlbench", "interfaces", "--config", "config/config.yaml"),
    ("ddlbench", "claims", "--config", "config/config.yaml"),
    ("ddlbench", "verify", "--config", "config/config.yaml"),
    ("ddlbench", "trace", "results/figures/zhao2016_fig6.svg"),
    ("ddlbench", "sign", "--key", "config/config.yaml"),
    ("ddlbench", "import", "config/config.yaml"),
    ("ddlbench", "recommend", "--batch-size", "128", "--bandwidth", "400", "--model", "mlp"),
    ("ddlbench", "probe", "link", "gigabit", "--dilation", "10", "--timeout-s", "5"),
    ("ddlbench", "emulate", "--hosts", "2", "--link", "gigabit", "--", "true"),
    ("ddlbench", "profile", "mlp", "--batch", "32", "--steps", "1"),
    ("ddlbench", "doctor", "--configfile", "config/config.yaml", "--patience", "1"),
    ("snakemake", "--dry-run", "zhao2016_fig6"),
    ("snakemake", "--dry-run", "zhao2016_fig6", "--configfile", "config/paper.yaml"),
    ("snakemake", "--dry-run", "zhao2016_fig6", "--config", "dilation=2"),
    ("snakemake", "--dry-run", "zhao2016_fig6", "--cores", "2"),
)
OF_NUMBERS = (
    "--batch-size",
    "--bandwidth",
    "--dilation",
    "--timeout-s",
    "--hosts",
    "--batch",
    "--steps",
    "--patience",
)
OF_FILES = ("--configfile", "--key")
NUMBERS = ("-1", "nan", "many", "1e999", "--", "0x10", "²")
WRONG_FILES = (
    "no/such/file",
    "config",
    "torture/pipe",
    "/dev/zero",
    "torture/junk",
    "torture/loop",
    "a\nb",
    "é" * 300,
)
SETTINGS = (
    "dilation=-1",
    "dilation=nan",
    "fresh=perhaps",
    "results=../x",
    "studies=[",
    "no_such_key=1",
    "measure=3",
)
TARGETS = (
    "no_such_figure",
    "../../etc/passwd",
    "results/figures/no.svg",
    "results/runs/zhao2016/no.json",
    "/",
)


def change_command(root: Path, random: Random) -> Try:
    """Change one word of a sound command line so that it is wrong."""
    argv = list(random.choice(SOUND))
    ways = [kind for kind, change in WORDS.items() if change(list(argv), random)]
    kind = random.choice(ways)
    found = WORDS[kind](argv, random)
    return Try(f"{' '.join(found)!r}: {kind}", True, tuple(found))


def _option_added(argv: list[str], random: Random) -> list[str]:
    return [*argv[:2], random.choice(["--no-such-option", "-Z", "--no-such=1"]), *argv[2:]]


def _command_misspelt(argv: list[str], random: Random) -> list[str]:
    return ["ddlbench", f"{argv[1]}x", *argv[2:]] if argv[0] == "ddlbench" else []


def _number_replaced(argv: list[str], random: Random) -> list[str]:
    here = [index + 1 for index, word in enumerate(argv) if word in OF_NUMBERS]
    return _with(argv, here, NUMBERS, random)


def _file_replaced(argv: list[str], random: Random) -> list[str]:
    return _with(argv, [index for index, word in enumerate(argv) if "/" in word], WRONG_FILES, random)


def _name_replaced(argv: list[str], random: Random) -> list[str]:
    here = [index for index, word in enumerate(argv) if word in ("gigabit", "mlp", "zhao2016_fig6")]
    return _with(argv, here, TARGETS, random)


def _setting_replaced(argv: list[str], random: Random) -> list[str]:
    return _with(argv, [index for index, word in enumerate(argv) if "=" in word], SETTINGS, random)


def _cores_replaced(argv: list[str], random: Random) -> list[str]:
    here = [index + 1 for index, word in enumerate(argv) if word == "--cores"]
    return _with(argv, here, ("-1", "0", "many"), random)


def _value_missing(argv: list[str], random: Random) -> list[str]:
    return argv[:-1] if argv[-2] in (*OF_NUMBERS, *OF_FILES) else []


def _with(argv: list[str], here: Sequence[int], values: Sequence[str], random: Random) -> list[str]:
    if not here:
        return []
    argv[random.choice(here)] = random.choice(values)
    return argv


WORDS: Mapping[str, Callable[[list[str], Random], list[str]]] = {
    "an unknown option": _option_added,
    "a command misspelt": _command_misspelt,
    "no number": _number_replaced,
    "no such file": _file_replaced,
    "no such name": _name_replaced,
    "no such setting": _setting_replaced,
    "no cores": _cores_replaced,
    "a value missing": _value_missing,
}
