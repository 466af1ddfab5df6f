"""A signature of all results with an SSH key: it shows whether somebody has changed them since, sidecars and all.

    results/SHA256SUMS          every file, in the format of sha256sum
    results/SHA256SUMS.sig      its signature, by `ssh-keygen -Y sign`

Anybody can check it without ddlbench: `ssh-keygen -Y verify -n ddlbench ...`, then `sha256sum -c SHA256SUMS`.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular, sha256_file, write_atomically
from ddlbench.measurements.mismatches import Comparison, Mismatch
from ddlbench.measurements.whole_results import LISTING, SIGNATURE, files_below

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
    listing, signature = results / LISTING, results / SIGNATURE
    names = sorted(file.relative_to(results).as_posix() for file in files_below(results))
    try:
        lines = [f"{sha256_file(results / name, follow=False)}  {name}\n" for name in names]
    except OSError as error:
        raise DdlbenchError(f"{error.filename}: {error.strerror}, so nothing was signed") from None
    write_atomically(listing, "".join(lines))
    signature.unlink(missing_ok=True)
    _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, str(listing), what=f"{listing} could not be signed")
    return len(names)


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
    given = ("-f", str(signers), "-s", str(signature))
    refusal = f"{signature}: nobody in {signers} has signed this"
    signer, *_ = _ssh_keygen("find-principals", *given, what=refusal).splitlines() or [""]
    _ssh_keygen("verify", *given, "-I", signer, "-n", NAMESPACE, content=content, what=refusal)
    comparison = Comparison()
    for name, sha256 in expected.items():
        comparison.compare(results, name, sha256)
    for file in files_below(results):
        if (name := file.relative_to(results).as_posix()) not in expected:
            comparison.add(Mismatch(name, "was not there when the results were signed"))
    return Signed(signer, len(expected), comparison.sorted())


def _ssh_keygen(action: str, *arguments: str, what: str, content: bytes | None = None) -> str:
    """What `ssh-keygen -Y` answers; without `content` it may ask its user on the terminal."""
    command: Sequence[str] = ["ssh-keygen", "-Y", action, *arguments]
    try:
        answer = subprocess.run(command, input=content, capture_output=True)
    except FileNotFoundError:
        raise DdlbenchError(f"{what}: ssh-keygen is missing (Debian's package openssh-client)") from None
    if answer.returncode:
        why = answer.stderr.decode(errors="replace").strip()
        raise DdlbenchError(f"{what} ({why})")
    return answer.stdout.decode(errors="replace")
