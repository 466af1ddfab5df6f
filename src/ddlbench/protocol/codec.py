"""Dataclasses as JSON and back, checked field by field.

A field may be a bool, int, float, str, None, a Literal, a dataclass, a tuple or list or mapping of these, or a union.
A field of the type `object` holds any JSON and is passed on unchecked. An integer is accepted where a float is
expected, and nothing else is converted. A message is an object with its class's name under `kind`.
"""

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
KIND = "kind"


class Malformed(ValueError):
    """A document is not what the protocol expects; the text says where, what was expected, and what came."""


def encode(message: object) -> bytes:
    """Encode a message.

    Args:
        message: an instance of a dataclass.

    Returns:
        One line of JSON, with its end, in which `kind` is the name of the class.
    """
    return json.dumps({KIND: type(message).__name__, **_document(message)}).encode() + b"\n"


def decode(line: bytes | str, kinds: Sequence[type[T]]) -> T:
    """Decode a message.

    Args:
        line: what `encode` has made.
        kinds: the classes that are expected.

    Returns:
        An instance of one of them.

    Raises:
        Malformed: it is no JSON, of another class, or a field is missing, unknown or of another type.
    """
    document = _parsed(line)
    name = document.pop(KIND, None) if isinstance(document, dict) else None
    for kind in kinds:
        if kind.__name__ == name:
            return read(kind, document)
    raise Malformed(f"expected {' or '.join(kind.__name__ for kind in kinds)}, not {name or document!r}")


def written(value: object) -> str:
    """Write a dataclass as the text of a JSON file; `read_text` reads it.

    Args:
        value: an instance of a dataclass.

    Returns:
        JSON without the name of the class.
    """
    return json.dumps(_document(value))


def read_text(kind: type[T], text: str, *, ignore_unknown: bool = False) -> T:
    """Read a dataclass from the text of a JSON file.

    Args:
        kind: the class.
        text: what `written` has made.
        ignore_unknown: accept names that are no fields, in nested objects too.

    Returns:
        An instance of the class.

    Raises:
        Malformed: it is no JSON, or a field is missing, unknown or of another type.
    """
    return read(kind, _parsed(text), ignore_unknown=ignore_unknown)


def read(kind: type[T], document: object, *, ignore_unknown: bool = False) -> T:
    """Make a dataclass from a JSON document.

    Args:
        kind: the class.
        document: an object with the values of its fields.
        ignore_unknown: accept names that are no fields, in nested objects too.

    Returns:
        An instance of the class.

    Raises:
        Malformed: a field is missing, unknown or of another type.
    """
    value: T = _value(kind, document, kind.__name__, ignore_unknown)
    return value


def _parsed(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"this is no JSON: {text[:80]!r}") from error


def _document(value: object) -> dict[str, Any]:
    """The fields of a dataclass by name, dataclasses in them likewise."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}  # type: ignore[arg-type]


def _plain(value: object) -> object:
    if is_dataclass(value):
        return _document(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _value(kind: Any, value: object, where: str, lenient: bool) -> Any:
    """The value as `kind` has it; `where` names the field in errors."""
    if kind is object:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, where, lenient)
    if origin is Literal and value in arguments:
        return value
    if origin in (list, tuple, Sequence) and isinstance(value, list | tuple):
        return _items(origin, arguments, value, where, lenient)
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {
            _key(arguments[0], key): _value(arguments[1], each, f"{where}.{key}", lenient)
            for key, each in value.items()
        }
    if is_dataclass(kind) and isinstance(value, Mapping):
        return _dataclass(kind, value, where, lenient)
    if kind is float and type(value) in (int, float):
        return _float(value, where)
    if kind in (bool, int, str, types.NoneType) and type(value) is kind:
        return value
    raise Malformed(f"{where}: expected {_name(kind)}, not {value!r:.80}")


def _float(value: Any, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Malformed(f"{where}: expected float, not a whole number beyond all of them") from None


def _one_of(kinds: Sequence[Any], value: object, where: str, lenient: bool) -> Any:
    """The value as the first of some kinds that it fits."""
    if value is None and types.NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not types.NoneType]
    for kind in others:
        try:
            return _value(kind, value, where, lenient)
        except Malformed:
            if len(others) == 1:
                raise  # this error is more exact than that the value is not None
    raise Malformed(f"{where}: expected {' or '.join(map(_name, kinds))}, not {value!r:.80}")


def _items(origin: Any, arguments: Sequence[Any], value: Sequence[object], where: str, lenient: bool) -> Any:
    """The items of a list or tuple; a tuple without `...` has a type and a value for each of its places."""
    if origin is tuple and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise Malformed(f"{where}: expected {len(arguments)} values, not {value!r:.80}")
        kinds = list(arguments)
    else:
        kinds = [arguments[0]] * len(value)
    found = [
        _value(kind, each, f"{where}[{n}]", lenient)
        for n, (kind, each) in enumerate(zip(kinds, value, strict=True))
    ]
    return tuple(found) if origin is tuple else found


def _key(kind: Any, key: str) -> Any:
    """A key of a mapping: JSON has strings only."""
    return kind(key) if kind is int else key


def _dataclass(kind: Any, value: Mapping[str, object], where: str, lenient: bool) -> Any:
    known = _fields(kind)
    if not lenient and (unknown := sorted(value.keys() - known.keys())):
        raise Malformed(f"{where}: unknown {', '.join(unknown)}")
    if missing := [name for name, (field, _) in known.items() if name not in value and _is_required(field)]:
        raise Malformed(f"{where}: {', '.join(missing)} is missing")
    return kind(
        **{
            name: _value(of_field, value[name], f"{where}.{name}", lenient)
            for name, (_, of_field) in known.items()
            if name in value
        }
    )


@cache
def _fields(kind: Any) -> "dict[str, tuple[Field[Any], Any]]":
    hints = get_type_hints(kind)
    return {field.name: (field, hints[field.name]) for field in fields(kind)}


def _is_required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return str(kind) if get_origin(kind) else getattr(kind, "__name__", str(kind))
