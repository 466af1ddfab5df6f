"""The files of a configuration, merged, and read as data by our own parser."""

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from ddlbench.plan.yaml_file import read_yaml

DEFAULT_CONFIG = Path("config/config.yaml")
OWN_FILE = "configuration"  # `--config configuration=FILE`: a file that Snakemake does not read


def configuration(
    files: Sequence[Path], overrides: Mapping[str, Any] = {}, *, root: Path
) -> tuple[Any, list[Path]]:
    """Read the default configuration; values of other files and of the command line replace its own.

    Args:
        files: each replaces values of the default one and of those before it.
        overrides: of the command line; the key `configuration` names one more file.
        root: of the repository, which messages show paths relative to.

    Returns:
        The configuration, not validated yet, and the files that it was read from.

    Raises:
        ConfigError: a file cannot be read, or is not YAML that is data.
    """
    values = dict(overrides)
    own = values.pop(OWN_FILE, None)
    names = [root / DEFAULT_CONFIG, *files, *([root / str(own)] if own else [])]
    sources = list(dict.fromkeys(path.absolute() for path in names))
    return reduce(merged, [*(read_yaml(path, root) for path in sources), values]), sources


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
