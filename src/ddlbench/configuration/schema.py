"""The schemas of the configuration, and messages for people about data that does not match them.

Beside JSON Schema's own keywords they use `unit` (of a number) and `x-names`: the value must be one of the
names of that kind which the caller knows, as in `x-names: model`.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.errors import nearest

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Path_ = tuple[Any, ...]  # keys and indices from the top of a file to a value
Schema = Mapping[str, Any]
Known = Mapping[str, Collection[str]]  # kind of name (`x-names`) -> the names

FILES = ("config", "study", "links", "sites", "devices")


@dataclass(frozen=True)
class Problem:
    """One mistake in one file: where, and what was expected there."""

    file: str
    path: Path_
    text: str

    def __str__(self) -> str:
        where = ""
        for step in self.path:
            where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else f"{step}"
        return f"{self.file}: {where}: {self.text}" if where else f"{self.file}: {self.text}"


@dataclass(frozen=True)
class Schemas:
    """The schemas by name (config, study, links, sites, devices)."""

    documents: Mapping[str, Schema]

    def resolved(self, schema: Schema) -> Schema:
        """Replace a schema's `$ref` by the schema that it names.

        Args:
            schema: any part of a document; its own keys and properties take precedence.

        Returns:
            A schema without `$ref` at its top; the same if it had none.
        """
        if "$ref" not in schema:
            return schema
        file, _, pointer = schema["$ref"].partition("#/")
        target: Any = self.documents[(file or "study.schema.yaml").removesuffix(".schema.yaml")]
        for step in pointer.split("/"):
            target = target[step]
        target = self.resolved(target)
        own = {key: value for key, value in schema.items() if key != "$ref"}
        both = {**target.get("properties", {}), **own.get("properties", {})}
        return {**target, **own, **({"properties": both} if both else {})}

    def expectation(self, schema: Schema, known: Known) -> str:
        """Describe a value that a schema accepts: a number > 0, in Mbit/s.

        Args:
            schema: any part of a document.
            known: the names that `x-names` stands for, by kind.

        Returns:
            Words that go on after "expected".
        """
        schema = self.resolved(schema)
        if "enum" in schema:
            return "one of " + ", ".join(shown(name).strip("'") for name in schema["enum"])
        if schema.get("x-names") in known:
            return "one of " + ", ".join(known[schema["x-names"]])
        if "anyOf" in schema:
            first, second = (
                self.expectation(branch, known).removeprefix("one of ") for branch in schema["anyOf"]
            )
            return f"{first}, or a list of such" if is_axis(schema) else f"{first} or {second}"
        types = schema.get("type", "object")
        names = [_TYPES[name] for name in ([types] if isinstance(types, str) else types)]
        bounds = " and".join(f" {sign} {schema[key]}" for key, sign in _BOUNDS.items() if key in schema)
        example = f" like {schema['examples'][0]}" if "examples" in schema else ""
        unit = f", in {schema['unit']}" if "unit" in schema else ""
        return f"{names[0]}{example}{bounds}{unit}" + "".join(f" or {name}" for name in names[1:])

    def problems(self, name: str, data: Any, file: str, known: Known) -> list[Problem]:
        """Find every place where data does not match a schema.

        Args:
            name: of the schema: one of FILES.
            data: the content of a file.
            file: that it was read from, for messages.
            known: the names that `x-names` stands for, by kind.

        Returns:
            The mistakes, each once; empty if there are none.
        """
        validator = _validator(self.documents, self.documents[name], known)
        errors = validator.iter_errors(data)
        return list(dict.fromkeys(found for error in errors for found in self._explained(error, file, known)))

    def _explained(self, error: "ValidationError", file: str, known: Known) -> Iterator[Problem]:
        path: Path_ = tuple(error.absolute_path)
        value: Any = error.instance
        schema = self.resolved(_mapping(error.schema))
        if "propertyNames" in error.absolute_schema_path:
            path = (*path, value)
        match error.validator:
            case "type" if not path:
                yield Problem(file, path, f"{shown(value)} is not a configuration (expected a block of keys)")
            case "additionalProperties" | "unevaluatedProperties":
                keys = schema["properties"]
                for key in value:
                    if key not in keys:
                        hint = nearest(key, keys) or f" (known are {', '.join(keys)})"
                        yield Problem(file, (*path, key), f"there is no such key{hint}")
            case "required":
                for key in schema["required"]:
                    if key not in value:
                        expected = self.expectation(schema["properties"].get(key, {}), known)
                        yield Problem(file, (*path, key), f"is missing (expected {expected})")
            case "anyOf" if is_axis(schema):
                branch = 1 if isinstance(value, list) else 0
                for part in error.context or ():
                    if part.schema_path[0] == branch:
                        yield from self._explained(part, file, known)
            case "minProperties" | "maxProperties" if "epoch_steps" in schema.get("properties", {}):
                yield Problem(file, path, "expected epochs and either epoch_images or epoch_steps")
            case "minItems" | "minProperties" | "maxItems" | "maxProperties" if value:
                bound = "most" if error.validator.startswith("max") else "least"
                text = f"has {len(value)} entr{'y' if len(value) == 1 else 'ies'}"
                yield Problem(file, path, f"{text} (expected at {bound} {error.validator_value})")
            case "minItems":
                so = ", so the grid has no points" if path[0] == "grids" else ""
                yield Problem(file, path, f"is an empty list{so} (expected at least one value)")
            case "uniqueItems":
                again = next(each for number, each in enumerate(value) if each in value[:number])
                yield Problem(file, path, f"has {shown(again)} more than once")
            case "minLength" if value:
                least = schema["minLength"]
                yield Problem(
                    file, path, f"{shown(value)} is too short (expected at least {least} characters)"
                )
            case "minProperties":
                yield Problem(file, path, "is empty (expected at least one entry)")
            case _:
                names = known.get(schema.get("x-names", ""), ())
                title = schema.get("title", "what belongs here")
                hint = nearest(value, names) or f" (expected {self.expectation(schema, known)})"
                yield Problem(file, path, f"{shown(value)} is not {title}{hint}")


@cache
def schemas(root: Path) -> Schemas:
    """Read the schemas of a repository, once.

    Args:
        root: the repository.

    Returns:
        The schemas of FILES.

    Raises:
        ConfigError: a schema cannot be read.
    """
    folder = root / "workflow" / "schemas"
    return Schemas({name: read_yaml(folder / f"{name}.schema.yaml", folder.parent.parent) for name in FILES})


def is_axis(schema: Schema) -> bool:
    """Say whether a schema accepts a value alone or a list of such values.

    Args:
        schema: without `$ref` at its top.

    Returns:
        True if its `anyOf` has the value, then a list of it.
    """
    return len(schema.get("anyOf", ())) == 2 and schema["anyOf"][1].get("items") == schema["anyOf"][0]


def shown(value: Any) -> str:
    """Write a value as YAML does, for a message.

    Args:
        value: of a configuration.

    Returns:
        At most 60 characters; a longer text ends with `...`.
    """
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def block(data: Any, key: str) -> Mapping[str, Any]:
    """Take a block of keys from data that may be anything.

    Args:
        data: the content of a file, or a part of it.
        key: of the block.

    Returns:
        `data[key]` if that is a block of keys, otherwise an empty one.
    """
    found = data.get(key) if isinstance(data, Mapping) else None
    return found if isinstance(found, Mapping) else {}


_TYPES = {
    "number": "a number",
    "integer": "a whole number",
    "string": "a text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a block of keys",
    "null": "null",
}
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}


def _mapping(schema: Any) -> Schema:
    return schema if isinstance(schema, Mapping) else {}


def _is_interval(schema: Schema) -> bool:
    """Whether a schema accepts the numbers between two bounds, and nothing else."""
    return schema.get("type") == "number" and schema.keys() <= {"title", "type", "unit", "minimum", "maximum"}


def _validator(documents: Mapping[str, Schema], schema: Schema, known: Known) -> Any:
    """A JSON Schema validator that knows our names, and does not accept NaN and infinity as numbers."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend
    from referencing import Registry, Resource

    def x_names(_validator: Any, kind: str, value: Any, _schema: Schema) -> Iterator[ValidationError]:
        if isinstance(value, str) and kind in known and value not in known[kind]:
            yield ValidationError(f"{value!r} is not known")

    def number(_checker: Any, value: Any) -> bool:
        finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        return finite and not isinstance(value, bool)

    each_item = Draft202012Validator.VALIDATORS["items"]

    def items(validator: Any, item: Schema, values: Any, schema: Schema) -> Iterator[ValidationError]:
        are_numbers = isinstance(values, list) and all(number(None, value) for value in values)
        if values and are_numbers and _is_interval(item):  # the file of devices has thousands of times
            extremes = min(values), max(values)
            if all(map(validator.evolve(schema=item).is_valid, extremes)):  # then all are
                return
        yield from each_item(validator, item, values, schema)

    checker = Draft202012Validator.TYPE_CHECKER.redefine("number", number)
    resources = ((document["$id"], Resource.from_contents(document)) for document in documents.values())
    registry: Any = Registry().with_resources(resources)
    make: Any = extend
    keywords = {"x-names": x_names, "items": items}
    return make(Draft202012Validator, keywords, type_checker=checker)(schema, registry=registry)
