"""The content of a module of ours: what its code does, whatever the module's folder and name.

Two versions of a statement have the same text here if they differ only in docstrings, comments, formatting, annotations
of functions and variables, the words of errors that they raise, imports of our own modules, or the names of these. Only
words inside `raise` are left out; all others count, as those of a progress line, because what reads them is not known.
The text is the same under each version of Python from 3.11 on, which `ast.dump` is not.
"""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

_BLOCKS = frozenset({"body", "orelse", "finalbody"})
_LEFT_OUT = frozenset({"ctx", "type_comment", "kind", "returns"})  # fields that do not affect what is done
_MODULE, _WORDS = "<a module of ours>", "<words>"


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a module.

    Attributes:
        text: its content.
        names: those that it uses and does not bind.
        defines: the names that it binds in its module.
    """

    text: str
    names: frozenset[str]
    defines: frozenset[str]

    @cached_property
    def sha256(self) -> str:
        """The hash of its text alone, whatever its names stand for."""
        return sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Source:
    """A module as it was read.

    Attributes:
        statements: those at the top that do something.
        ours: a name -> the modules of ours, and the names in them, that it stands for.
        others: a name -> what it stands for in other packages (`pathlib.Path`).
        reached: the modules of ours that it imports, or that a string names (`-m`).
    """

    statements: tuple[Statement, ...]
    ours: Mapping[str, frozenset[tuple[str, str]]]
    others: Mapping[str, frozenset[str]]
    reached: frozenset[str]


def read(text: str, known: Collection[str]) -> Source:
    """Read a module.

    Args:
        text: the module's source.
        known: the dotted names of all modules of ours.

    Returns:
        Its statements, and the meaning of the names that it imports.

    Raises:
        SyntaxError: the source is not Python.
    """
    writer = _Writer(known)
    statements = tuple(writer.statement(node) for node in writer.top_level(ast.parse(text).body))
    return Source(
        statements,
        {name: frozenset(found) for name, found in writer.ours.items()},
        {name: frozenset(found) for name, found in writer.others.items()},
        frozenset(writer.reached),
    )


class _Writer:
    """Writes the statements of one module, and notes the meaning of names meanwhile."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known
        self.ours: dict[str, set[tuple[str, str]]] = {}
        self.others: dict[str, set[str]] = {}
        self.reached: set[str] = set()
        self._aliases: dict[str, str] = {}  # names that stand for whole modules of ours
        self._used: set[str] = set()
        self._bound: set[str] = set()
        self._is_in_class = False
        self._is_raising = False

    def top_level(self, body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
        """The statements that count; imports are noted and left out, as they count where their names are used."""
        for node in _counting(body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for bound, origin in self._imported_from_others(node):
                    self.others.setdefault(bound, set()).add(origin)
            else:
                yield node

    def statement(self, node: ast.stmt) -> Statement:
        """Write one statement of the top level."""
        self._used, self._bound = set(), set()
        text = self._text(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defines = {node.name}
        else:
            defines = self._bound
        return Statement(text, frozenset(self._used - self._bound), frozenset(defines))

    # ------------------------------------------------------------------------------------------ imports

    def _imported_from_others(self, node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
        """(name, what it stands for) of each import from another package; those from ours are noted."""
        others = []
        for alias in node.names:
            if isinstance(node, ast.Import):
                bound, module, name = alias.asname or alias.name.partition(".")[0], alias.name, ""
            else:
                bound, module, name = (
                    alias.asname or alias.name,
                    f"{'.' * node.level}{node.module or ''}",
                    alias.name,
                )
            if f"{module}.{name}" in self.known:  # `from package import module`
                module, name = f"{module}.{name}", ""
            if module not in self.known:
                others.append((bound, f"{module}.{name}" if name else f"{module} as {alias.asname}"))
                continue
            self.reached.add(module)
            if name:
                self.ours.setdefault(bound, set()).add((module, name))
            else:
                self._aliases[bound] = module
        return others

    # --------------------------------------------------------------------------------------------- text

    def _text(self, node: ast.AST) -> str:
        write = _SPECIAL.get(type(node))
        return write(self, node) if write else self._plain(node)

    def _plain(self, node: ast.AST) -> str:
        """All fields that are present, by name. Fields that newer versions of Python add are absent in old code."""
        fields = []
        for name in node._fields:
            value = getattr(node, name, None)
            if name in _LEFT_OUT or value is None or value == []:
                continue
            if not isinstance(value, list):
                fields.append(f"{name}={self._value(value)}")
            elif written := self._block(value) if name in _BLOCKS else [self._value(each) for each in value]:
                fields.append(f"{name}=[{','.join(written)}]")
        return f"{type(node).__name__}({','.join(fields)})"

    def _value(self, value: Any) -> str:
        """A child, an identifier, or `-` for an absent child, unlike the constant None: `{**more}` has no key."""
        if isinstance(value, ast.AST):
            return self._text(value)
        return "-" if value is None else ascii(value)

    def _block(self, body: list[ast.stmt]) -> list[str]:
        return [text for node in _counting(body) if (text := self._text(node))]

    def _constant(self, node: ast.Constant) -> str:
        if isinstance(node.value, str):
            if self._is_raising:
                return _WORDS
            if node.value in self.known and "." in node.value:
                self.reached.add(node.value)
                return _MODULE
        return ascii(node.value)

    def _joined(self, node: ast.JoinedStr) -> str:
        """An f-string. Neighbouring strings become one, because versions of Python split them differently."""
        if self._is_raising:
            return _WORDS
        parts: list[str] = []
        constant = ""
        for each in node.values:
            if isinstance(each, ast.Constant):
                constant += str(each.value)
                continue
            parts += [ascii(constant)] * bool(constant) + [self._text(each)]
            constant = ""
        parts += [ascii(constant)] * bool(constant)
        return f"f({','.join(parts)})"

    def _name(self, node: ast.Name) -> str:
        if isinstance(node.ctx, ast.Load):
            if node.id in self._aliases:
                return _MODULE
            self._used.add(node.id)
        else:
            self._bound.add(node.id)
        return node.id

    def _attribute(self, node: ast.Attribute) -> str:
        """`module.name` is the `name` that could have been imported from there."""
        if isinstance(node.value, ast.Name) and (module := self._aliases.get(node.value.id)):
            self._used.add(node.attr)
            self.ours.setdefault(node.attr, set()).add((module, node.attr))
            return node.attr
        return f"{self._text(node.value)}.{node.attr}"

    def _argument(self, node: ast.arg) -> str:
        self._bound.add(node.arg)
        return node.arg

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
        if not self._is_in_class:
            self._bound.add(node.name)
        outer, self._is_in_class = self._is_in_class, isinstance(node, ast.ClassDef)
        text = self._plain(node)
        self._is_in_class = outer
        return text

    def _annotated(self, node: ast.AnnAssign) -> str:
        """In a class an annotation makes a field of a dataclass; elsewhere it has no effect."""
        if self._is_in_class:
            return self._plain(node)
        if node.value is None:
            return ""
        return self._plain(ast.Assign(targets=[node.target], value=node.value))

    def _raise(self, node: ast.Raise) -> str:
        self._is_raising = True
        text = self._plain(node)
        self._is_raising = False
        return text

    def _import(self, node: ast.Import | ast.ImportFrom) -> str:
        """An import inside of another statement."""
        others = self._imported_from_others(node)
        self._bound |= {bound for bound, _ in others}
        return ",".join(f"import {origin} as {bound}" for bound, origin in sorted(others))

    def _handler(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> str:
        if node.name:
            self._bound.add(node.name)
        return self._plain(node)


_SPECIAL: dict[type[ast.AST], Callable[[_Writer, Any], str]] = {
    ast.Constant: _Writer._constant,
    ast.JoinedStr: _Writer._joined,
    ast.Name: _Writer._name,
    ast.Attribute: _Writer._attribute,
    ast.arg: _Writer._argument,
    ast.FunctionDef: _Writer._definition,
    ast.AsyncFunctionDef: _Writer._definition,
    ast.ClassDef: _Writer._definition,
    ast.AnnAssign: _Writer._annotated,
    ast.Raise: _Writer._raise,
    ast.Import: _Writer._import,
    ast.ImportFrom: _Writer._import,
    ast.ExceptHandler: _Writer._handler,
    ast.MatchAs: _Writer._handler,
    ast.MatchStar: _Writer._handler,
}


def _counting(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that do something when a module is imported."""
    for node in body:
        if isinstance(node, ast.If) and _is_for_checkers_or_scripts(node.test):
            yield from _counting(node.orelse)
        elif not (_is_of_words(node) or _is_a_list_of_exports(node)):
            yield node


def _is_for_checkers_or_scripts(test: ast.expr) -> bool:
    """`if TYPE_CHECKING:` or `if __name__ == "__main__":`."""
    if isinstance(test, ast.Compare):
        return isinstance(test.left, ast.Name) and test.left.id == "__name__"
    return getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def _is_of_words(node: ast.stmt) -> bool:
    """A docstring, `...` or `pass`."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_a_list_of_exports(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [getattr(each, "id", "") for each in node.targets] == ["__all__"]
