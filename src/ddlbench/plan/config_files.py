"""The files of a configuration, merged, and read as data by our own parser."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.files import sha256_json

DEFAULT_CONFIG = Path("config/config.yaml")
OWN_FILE = "configuration"  # `--config configuration=FILE`: a file that Snakemake does not read
NAME = "name"  # the key that tells the results of a configuration from those of others
NAME_FORM = re.compile("[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
PLACE = (NAME, "results", "results_outside")  # keys that say where results go
LONGEST = 60  # letters of a name that consists of keys and values
NO_RESULT_DEPENDS_ON = (
    "default_figures",
    "fresh",
    "name",
    "other_measurements",
    "results",
    "results_outside",
    "studies",
    "timeouts",
)


class Configuration(NamedTuple):
    """A configuration, and where it comes from.

    Attributes:
        settings: all files and values merged; not validated yet.
        files: those that it was read from, absolute, the default one first.
        changes: the values of the command line that results depend on, where they differ from those of the files.
        place: those that say where results go.
    """

    settings: Any
    files: list[Path]
    changes: dict[str, Any]
    place: dict[str, Any]

    def source(self, root: Path) -> str:
        """Name the files, for messages.

        Args:
            root: of the repository, which they are shown relative to.

        Returns:
            Their names.
        """
        return " with ".join(os.path.relpath(file, root) for file in self.files)


def configuration(files: Sequence[Path], overrides: Mapping[str, Any] = {}, *, root: Path) -> Configuration:
    """Read the default configuration; values of other files and of the command line replace its own.

    Args:
        files: each replaces values of the default one and of those before it.
        overrides: of the command line; the key `configuration` names one more file.
        root: of the repository, which messages show paths relative to.

    Returns:
        The configuration. If nothing gives it a name, it has that of its files and changes: `paper` of
        config/paper.yaml, `paper-dilation-2` of that with `--config dilation=2`, none if it is the default.

    Raises:
        ConfigError: a file cannot be read, or is not YAML that is data.
    """
    values = dict(overrides)
    own = values.pop(OWN_FILE, None)
    names = [root / DEFAULT_CONFIG, *files, *([root / str(own)] if own else [])]
    sources = list({os.path.realpath(path): path.absolute() for path in names}.values())
    # Read from the last to the first, so that what is wrong with the last is what is told.
    default, *others = reversed([read_yaml(path, root) for path in reversed(sources)])
    below = reduce(merged, others, default)
    changes = {
        key: value
        for key, value in values.items()
        if key not in NO_RESULT_DEPENDS_ON and merged(below, {key: value}) != below
    }
    settings = merged(below, values)
    is_named = any(isinstance(each, Mapping) and NAME in each for each in (*others, values))
    if isinstance(settings, Mapping) and (others or changes) and not is_named:
        settings = {**settings, NAME: "-".join([*(path.stem for path in sources[1:]), *_words_of(changes)])}
    place = {key: value for key, value in values.items() if key in PLACE}
    return Configuration(settings, sources, changes, place)


def _words_of(changes: Mapping[str, Any]) -> list[str]:
    """What names changed values: each key with its value; if that is long or no name, the keys and a short hash."""
    words = "-".join(f"{key}-{value}" for key, value in _leaves(changes))
    if not changes or (len(words) <= LONGEST and NAME_FORM.fullmatch(words)):
        return [words] if words else []
    return [*changes, sha256_json(changes)[:6]]


def _leaves(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{below}", leaf) for below, leaf in _leaves(value))
        else:
            yield str(key), value if isinstance(value, str) else json.dumps(value)


def merged(below: Any, above: Any) -> Any:
    """Merge two configurations key by key.

    Args:
        below: the values that are replaced.
        above: the values that replace them.

    Returns:
        The blocks of both, merged at all levels. Anything else, lists too, is that of `above`.
    """
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: merged(below.get(key, value), value) for key, value in above.items()}}
