"""All that a module imports, directly and indirectly, and one hash of the content of it all."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from ddlbench.code.statements import Source, Statement, read


@dataclass(frozen=True)
class Code:
    """Code that decides something.

    Attributes:
        purpose: what it decides, as of `purposes.code_for`.
        sha256: of the content of all its modules, whichever module a statement is in.
        modules: a file, relative to the package's folder -> the hash of its content.
    """

    purpose: str
    sha256: str
    modules: Mapping[str, str]


class Package:
    """The modules of a package, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sources: dict[str, Source] = {}
        self._defined: dict[str, dict[str, list[Statement]]] = {}

    @cached_property
    def files(self) -> dict[str, Path]:
        """The dotted name of every module and sub-package -> its file."""
        return {self._name(file): file for file in sorted(self.folder.rglob("*.py"))}

    def _name(self, file: Path) -> str:
        parts = file.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def source(self, module: str) -> Source:
        """Read a module, once.

        Args:
            module: its dotted name.

        Returns:
            Its statements and imports.

        Raises:
            KeyError: the package has no module of this name.
        """
        if module not in self._sources:
            self._sources[module] = read(self.files[module].read_text(encoding="utf-8"), self.files)
        return self._sources[module]

    def closure(self, roots: Iterable[str], without: Collection[str] = ()) -> tuple[str, ...]:
        """List the roots and all modules that they reach.

        A module reaches those that it imports, in functions too, and those that it starts by their name (`python -m`).
        With a module comes the `__init__` of its folder. That of the package holds the version only and does not count.

        Args:
            roots: dotted names of modules.
            without: dotted names of modules or folders which are left out, with all that is reached only through them.

        Returns:
            Dotted names of modules, sorted.

        Raises:
            KeyError: a root does not exist.
        """
        found: set[str] = set()
        new = list(roots)
        while new:
            module = new.pop()
            if module in found or module == self.folder.name or _is_in(module, without):
                continue
            found.add(module)
            folder = module.rpartition(".")[0]
            new += [*self.source(module).reached, *([folder] if folder in self.files else [])]
        return tuple(sorted(found))

    def code(self, purpose: str, roots: Iterable[str], without: Collection[str] = ()) -> Code:
        """Hash the code of a closure.

        Args:
            purpose: what the code decides, for the result.
            roots: as of `closure`.
            without: as of `closure`.

        Returns:
            The code, with the hashes of all modules that have statements.

        Raises:
            KeyError: a root does not exist.
        """
        modules = frozenset(self.closure(roots, without))
        of_modules = {module: self._statement_hashes(module, modules) for module in sorted(modules)}
        return Code(
            purpose,
            _hash(frozenset().union(*of_modules.values())),
            {
                self.files[module].relative_to(self.folder).as_posix(): _hash(statements)
                for module, statements in of_modules.items()
                if statements
            },
        )

    def _statement_hashes(self, module: str, modules: Collection[str]) -> frozenset[str]:
        """The hash of each statement of a module, together with the meaning of the names in it."""
        return frozenset(
            _hash(
                {
                    statement.sha256,
                    *(
                        f"{name}={meaning}"
                        for name in statement.names
                        for meaning in self._meanings(module, name, modules)
                    ),
                }
            )
            for statement in self.source(module).statements
            if statement.text
        )

    def _meanings(self, module: str, name: str, modules: Collection[str]) -> set[str]:
        """The meaning of a name in a module: hashes of the statements that define it, or a name in another package.

        A name that is defined in a module which is left out has no meaning.
        """
        found: set[str] = set()
        seen: set[tuple[str, str]] = set()
        new = {(module, name)}
        while new:
            where = new.pop()
            seen.add(where)
            module, name = where
            source = self.source(module)
            found |= source.others.get(name, frozenset())
            if module in modules:
                found |= {statement.sha256 for statement in self._definitions(module).get(name, ())}
            new |= source.ours.get(name, frozenset()) - seen
        return found

    def _definitions(self, module: str) -> dict[str, list[Statement]]:
        """The names that a module defines -> the statements that do."""
        if module not in self._defined:
            found: dict[str, list[Statement]] = {}
            for statement in self.source(module).statements:
                for name in statement.defines:
                    found.setdefault(name, []).append(statement)
            self._defined[module] = found
        return self._defined[module]


def _is_in(module: str, folders: Collection[str]) -> bool:
    """Whether a module is one of these, or is in one."""
    parts = module.split(".")
    return any(".".join(parts[:count]) in folders for count in range(1, len(parts) + 1))


def _hash(texts: Collection[str]) -> str:
    """SHA-256 of a set of texts."""
    return sha256("\n".join(sorted(set(texts))).encode()).hexdigest()
