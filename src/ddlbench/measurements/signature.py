"""A signature of all results with an SSH key: it shows whether somebody has changed them since, sidecars and all.

    results/SHA256SUMS          every file, in the format of sha256sum
    results/SHA256SUMS.sig      its signature, by `ssh-keygen -Y sign`

Anybody can check it without ddlbench: `ssh-keygen -Y verify -n ddlbench ...`, then `sha256sum -c SHA256SUMS`.
An archive of results is one file, and has a signature of its own beside it (`report.zip.sig`).
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular, sha256_file, write_atomically
from ddlbench.measurements.mismatches import Comparison, Mismatch
from ddlbench.measurements.whole_results import LISTING, SIGNATURE, files_below
from ddlbench.system.regular_files import open_regular

NAMESPACE = "ddlbench"  # a signature for another purpose does not count


class Signed(NamedTuple):
    """Who has signed results, how many files that covers, and what differs from it."""

    signer: str
    files: int
    mismatches: list[Mismatch]


def sign(results: Path, key: Path) -> int:
    """List all files below a folder of results with their hashes, and sign the list.

    Args:
        results: the folder.
        key: an SSH key: the private one, or the public one if an agent has the private one. ssh-keygen may ask for a
            passphrase.

    Returns:
        How many files were listed.

    Raises:
        DdlbenchError: a file cannot be read, or ssh-keygen cannot sign.
    """
    names = sorted(file.relative_to(results).as_posix() for file in files_below(results))
    try:
        lines = [f"{sha256_file(results / name, follow=False)}  {name}\n" for name in names]
    except OSError as error:
        raise DdlbenchError(f"{error.filename}: {error.strerror}, so nothing was signed") from None
    listing = "".join(lines)
    signature = _signature(listing.encode(), key, what=f"{results} could not be signed")
    # Only now, so that what was signed before outlives a key that cannot sign.
    write_atomically(results / LISTING, listing)
    write_atomically(results / SIGNATURE, signature)
    return len(names)


def sign_file(file: Path, key: Path) -> Path:
    """Sign one file.

    Args:
        file: as an archive of results.
        key: as of `sign`.

    Returns:
        Its signature, beside it.

    Raises:
        DdlbenchError: ssh-keygen cannot sign.
    """
    path = _signature_of(file)
    with file.open("rb") as content:
        write_atomically(path, _signature(content, key, what=f"{file} could not be signed"))
    return path


def signer_of(file: Path, signers: Path) -> str:
    """Check the signature of one file.

    Args:
        file: as an archive of results.
        signers: as of `check_signature`.

    Returns:
        The signer.

    Raises:
        DdlbenchError: there is no signature, or none of these signers made it.
    """
    signature = _signature_of(file)
    try:
        read_regular(signature)
        content = open_regular(file, follow=True)
    except OSError as error:
        raise DdlbenchError(
            f"{signature}: there is no signature that can be read ({error.strerror or error}).\n"
            f"  Who publishes the file signs it with:  ddlbench sign --key FILE {file}"
        ) from None
    with content:
        return _signer(signature, signers, content)


def check_signature(results: Path, signers: Path) -> Signed:
    """Check the signature of results, and every file that it covers.

    Args:
        results: the folder.
        signers: who may sign, in the format of ssh-keygen's `allowed_signers`: a name and a public key on each line.

    Returns:
        The signer, and the files that differ from what was signed, are missing, or were not there then.

    Raises:
        DdlbenchError: there is no signature, or none of these signers made it.
    """
    signature, listing = results / SIGNATURE, results / LISTING
    try:
        content = read_regular(listing)
        read_regular(signature)
        listed = [line.split("  ", 1) for line in content.decode().splitlines()]
        expected = {name: sha256 for sha256, name in listed}
    except (OSError, ValueError) as error:
        raise DdlbenchError(
            f"{signature}: these results have no signature that can be read ({error}).\n"
            "  Who publishes them signs them with:  ddlbench sign --key FILE"
        ) from None
    signer = _signer(signature, signers, content)
    comparison = Comparison()
    for name, sha256 in expected.items():
        comparison.compare(results, name, sha256)
    for file in files_below(results):
        if (name := file.relative_to(results).as_posix()) not in expected:
            comparison.add(Mismatch(name, "was not there when the results were signed"))
    return Signed(signer, len(expected), comparison.sorted())


def _signature_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.sig")


def _signature(content: bytes | IO[bytes], key: Path, what: str) -> str:
    return _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, content=content, what=what)


def _signer(signature: Path, signers: Path, content: bytes | IO[bytes]) -> str:
    given = ("-f", str(signers), "-s", str(signature))
    refusal = f"{signature}: nobody in {signers} has signed this"
    signer, *_ = _ssh_keygen("find-principals", *given, what=refusal).splitlines() or [""]
    _ssh_keygen("verify", *given, "-I", signer, "-n", NAMESPACE, content=content, what=refusal)
    return signer


def _ssh_keygen(action: str, *arguments: str, what: str, content: bytes | IO[bytes] | None = None) -> str:
    """What `ssh-keygen -Y` answers; for a passphrase it asks its user on the terminal."""
    command: Sequence[str] = ["ssh-keygen", "-Y", action, *arguments]
    try:
        if isinstance(content, bytes):
            answer = subprocess.run(command, input=content, capture_output=True)
        else:
            answer = subprocess.run(command, stdin=content, capture_output=True)
    except FileNotFoundError:
        raise DdlbenchError(f"{what}: ssh-keygen is missing (Debian's package openssh-client)") from None
    if answer.returncode:
        why = answer.stderr.decode(errors="replace").strip()
        raise DdlbenchError(f"{what} ({why})")
    return answer.stdout.decode(errors="replace")
