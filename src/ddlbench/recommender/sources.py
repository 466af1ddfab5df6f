"""Where measurements come from: this checkout's tables together, and each imported table by itself."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = "here"


@dataclass(frozen=True)
class Source:
    """Files whose measurements belong together.

    Attributes:
        name: `here`, or the name of an imported table.
        files: its tables.
        signature: of the files' names, sizes and times; it changes when they are written.
    """

    name: str
    files: tuple[Path, ...]
    signature: str

    def is_as_it_was(self) -> bool:
        """Tell whether nothing has been written since it was looked at.

        Returns:
            Whether the files still have the signature.
        """
        return _signature(self.files) == self.signature


def find_sources(tables: Path, imported: Path) -> dict[str, Source]:
    """Look which tables there are now. Nothing is read, so this takes microseconds.

    Args:
        tables: folder of this checkout's tables.
        imported: folder of imported tables.

    Returns:
        Sources by name; this checkout's first.
    """
    own, others = sorted(tables.glob("*.csv")), sorted(imported.glob("*.csv"))
    found = {HERE: _source(HERE, own)} if own else {}
    return found | {path.stem: _source(path.stem, [path]) for path in others if path.stem != HERE}


def _source(name: str, files: Sequence[Path]) -> Source:
    return Source(name, tuple(files), _signature(files))


def _signature(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        try:
            found = path.stat()
            state = f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"
        except OSError:  # it has just gone
            state = "gone"
        digest.update(f"{path}\0{state}\0".encode())
    return digest.hexdigest()
