"""Reading a YAML file as data: one parser for the command line, Snakemake, nodes and jobs.

It takes YAML 1.2's core scalars (https://yaml.org/spec/1.2.2/#103-core-schema), so that `1:30`, `on` and `2026-11-01`
are texts, and one thing of YAML 1.1, the merge key `<<`. It takes no tags. Size, depth and the number of values after
aliases are replaced have limits. A key that is given twice is refused.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ddlbench.errors import ConfigError
from ddlbench.files import read_regular

MOST_BYTES = 1 << 20
MOST_DEPTH = 40
MOST_NODES = 200_000  # values after all aliases have been replaced by what they stand for
MOST_DIGITS = 40
_SCALARS = {  # tag -> the plain scalars that have it, and the characters with which these begin
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    "merge": (r"<<", ["<"]),
}


def read_yaml(path: Path, root: Path) -> Any:
    """Read a file.

    Args:
        path: of a regular file.
        root: the folder that messages show the path relative to.

    Returns:
        The content as plain data; None for an empty file.

    Raises:
        ConfigError: the file is missing, cannot be read, is too large, is not YAML in UTF-8, is nested too deep, has a
            tag or gives a key twice; with the line.
    """
    name = str(path.relative_to(root) if path.is_relative_to(root) else path)
    try:
        return parse_yaml(read_regular(path, MOST_BYTES).decode("utf-8"), name)
    except FileNotFoundError:
        raise ConfigError(f"{name}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: is not UTF-8 text (byte {error.start + 1})") from None


def parse_yaml(text: str, name: str) -> Any:
    """Read a YAML document.

    Args:
        text: the document.
        name: of the document, for messages.

    Returns:
        The content as plain data; None for an empty document.

    Raises:
        ConfigError: as of `read_yaml`.
    """
    import yaml

    kind = _loader()
    try:
        _check_events(text, name)
        loader = kind(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if (size := _size(node, {})) > MOST_NODES:
                raise ConfigError(
                    f"{name}: its aliases stand for {size} values (expected at most {MOST_NODES})"
                )
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{name}{line}: is not valid YAML ({error.problem})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: is not valid YAML ({error})") from None


def _check_events(text: str, name: str) -> None:
    """Refuse tags and too deep nesting before any value of a document is made."""
    import yaml

    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1 if event.start_mark else 1
        if tag := getattr(event, "tag", None):
            raise ConfigError(f"{name}, line {line}: has the tag {tag} (expected values without tags)")
        if depth > MOST_DEPTH:
            raise ConfigError(
                f"{name}, line {line}: is nested too deep (expected at most {MOST_DEPTH} levels)"
            )


def _size(node: Any, known: dict[int, int]) -> int:
    """Count the values of a node after aliases have been replaced. Raise ValueError if the node contains itself."""
    if id(node) not in known:
        known[id(node)] = -1
        known[id(node)] = 1 + sum(_size(each, known) for each in _children(node))
    if known[id(node)] < 0:
        raise ValueError(f"line {node.start_mark.line + 1}: an alias stands for what it is in")
    return known[id(node)]


def _children(node: Any) -> Iterator[Any]:
    for each in node.value if isinstance(node.value, list) else ():
        yield from each if isinstance(each, tuple) else (each,)


@cache
def _loader() -> Any:
    """The fastest safe loader that there is, with the scalars of YAML 1.2 and no key given twice."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key.value, str) or key.tag == "tag:yaml.org,2002:merge":
                    continue
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} is given twice", key.start_mark
                    )
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {}
    for tag, (pattern, first) in _SCALARS.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), first)
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: _int(node.value))
    return Loader


def _int(text: str) -> int:
    """Read a whole number. Raise ValueError if it is longer than any that a configuration has."""
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits, expected at most {MOST_DIGITS}")
    return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
