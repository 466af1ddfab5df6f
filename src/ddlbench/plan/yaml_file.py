"""Reading a YAML file, with errors that name the file and the line."""

from pathlib import Path
from typing import Any

from ddlbench.errors import ConfigError


def read_yaml(path: Path, root: Path) -> Any:
    """Content of `path`, which messages show relative to `root`.

    Raises ConfigError for a file that is missing, cannot be read, is no YAML or gives a key twice.
    """
    import yaml

    name = path.relative_to(root) if path.is_relative_to(root) else path
    try:
        return yaml.load(path.read_bytes(), _loader())
    except FileNotFoundError:
        raise ConfigError(f"{name}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror})") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{name}{line}: is not valid YAML ({error.problem})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: is not valid YAML ({error})") from None


def _loader() -> Any:
    """The fastest safe loader that there is, made to refuse a key that is given twice."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key.value, str) or key.value == "<<":
                    continue
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} is given twice", key.start_mark
                    )
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Loader
