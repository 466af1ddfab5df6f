"""Checking an archive of results on any machine, by what is in it alone."""

import lzma
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json, sha256_file
from ddlbench.measurements.mismatches import Mismatch
from ddlbench.measurements.provenance import SUFFIX
from ddlbench.measurements.record import DamagedRecord
from ddlbench.measurements.whole_results import check_files

METADATA = "ro-crate-metadata.json"
WORKFLOW = "Snakefile"  # marks the folder that provenance's paths are below
MOST_FILES = 200_000
MOST_BYTES = 1 << 33  # of all files, unpacked
MOST_RATIO = 250  # of unpacked to packed bytes; JSON and CSV have 5 to 20
_DAMAGE = (  # what zipfile raises; the last two of names that are no text, and of places that can be none
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError),
    *(ValueError, OverflowError),
)


class Checked(NamedTuple):
    """What was found in an archive.

    Attributes:
        files: how many it has.
        results: how many of them say what they were made from.
        mismatches: files that differ, are missing or are too many, by path; of our own code too (`is_code`).
    """

    files: int
    results: int
    mismatches: list[Mismatch]

    @property
    def damage(self) -> list[Mismatch]:
        """What differs in the archive itself."""
        return [each for each in self.mismatches if not each.is_code]


def check_archive(archive: Path) -> Checked:
    """Unpack an archive into a folder of its own, check every file in it, and remove the folder.

    Each file's hash is compared with the crate's metadata, and then with what the results say of their origin, down to
    each measurement's own checksum and fingerprint. Nothing outside of the archive is looked at.

    Args:
        archive: a zip file, from anywhere.

    Returns:
        What was found.

    Raises:
        DdlbenchError: it is no archive of ours, or not safe to unpack; says why.
    """
    with _unpacked(archive) as (root, names):
        if METADATA not in names or WORKFLOW not in names:
            raise DdlbenchError(
                f"{archive}: it has no {METADATA} or no {WORKFLOW}, so it is no archive of ours"
            )
        listed = _listed(archive, root / METADATA)
        found = {each.path: each for each in _against(listed, names, root)}
        results = [name for name in sorted(names) if f"{name}{SUFFIX}" in names]
        if not results:
            raise DdlbenchError(
                f"{archive}: nothing in it says what it was made from, so nothing can be verified"
            )
        try:
            origins = check_files([root / name for name in results], inside_only=True)
        except DamagedRecord as damage:
            path = str(damage.path)
            found.setdefault(path, Mismatch(path, f"is damaged: {damage.why}"))
        else:
            found = {each.path: each for each in origins.mismatches} | found
    return Checked(len(names), len(results), [found[path] for path in sorted(found)])


def _listed(archive: Path, metadata: Path) -> dict[str, str]:
    """The hash of each file in the crate's metadata."""
    try:
        entities = read_json(metadata)["@graph"]
        return {
            unquote(each["@id"]).removeprefix("./"): str(each["sha256"])
            for each in entities
            if "sha256" in each
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DdlbenchError(f"{archive}: its {METADATA} cannot be read ({error})") from None


def _against(listed: Mapping[str, str], names: set[str], root: Path) -> Iterator[Mismatch]:
    for name in sorted(names - listed.keys() - {METADATA}):
        yield Mismatch(name, f"is not in the list of {METADATA}")
    for name, sha256 in listed.items():
        if name not in names:
            yield Mismatch(name, "is missing", sha256)
        elif (now := sha256_file(root / name, follow=False)) != sha256:
            yield Mismatch(name, "has changed", sha256, now)


@contextmanager
def _unpacked(archive: Path) -> Iterator[tuple[Path, set[str]]]:
    """The archive's files in a temporary folder, and their names."""
    with tempfile.TemporaryDirectory(prefix="ddlbench-archive-") as folder:
        root = Path(folder).resolve()
        try:
            with zipfile.ZipFile(archive) as packed:
                names = _checked_names(archive, packed, shutil.disk_usage(root).free)
                for name, entry in names.items():
                    _unpack(packed, entry, root / name)
        except _DAMAGE as error:
            raise DdlbenchError(f"{archive}: this zip file is damaged ({error})") from None
        except OSError as error:
            raise DdlbenchError(f"{archive}: it cannot be unpacked ({error.strerror or error})") from None
        yield root, set(names)


def _checked_names(archive: Path, packed: zipfile.ZipFile, free: int) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive by name, all of them safe to unpack."""
    entries = [each for each in packed.infolist() if not each.is_dir()]
    total = sum(each.file_size for each in entries)
    most = min(MOST_BYTES, free, MOST_RATIO * archive.stat().st_size)
    if len(entries) > MOST_FILES or total > most:
        raise DdlbenchError(
            f"{archive}: {len(entries)} files of {total} bytes in all; at most {MOST_FILES} files and {most} bytes "
            "are unpacked"
        )
    names: dict[str, zipfile.ZipInfo] = {}
    for each in entries:
        if why := _danger(each):
            raise DdlbenchError(f"{archive}: {each.filename[:200]!r} {why}, so nothing is unpacked")
        name = PurePosixPath(each.filename).as_posix()
        if name in names:
            raise DdlbenchError(f"{archive}: {name} is in it twice, so nothing is unpacked")
        names[name] = each
    return names


def _danger(entry: zipfile.ZipInfo) -> str | None:
    """Why an entry must not be unpacked."""
    path = PurePosixPath(entry.filename)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if path.is_absolute() or ".." in path.parts or "\\" in entry.orig_filename or "\0" in entry.orig_filename:
        return "leads out of the archive"
    if kind not in (0, stat.S_IFREG):
        return "is no regular file"
    return "is encrypted" if entry.flag_bits & 1 else None


def _unpack(packed: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    """Write one file; never more than the size that was checked, which zipfile reads up to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with packed.open(entry) as source, target.open("xb") as file:
        shutil.copyfileobj(source, file)
