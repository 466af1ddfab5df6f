"""SSH keys that tests sign with."""

import subprocess
from pathlib import Path


def new_key(folder: Path, name: str = "key") -> Path:
    """A key without a passphrase, and the only one that may sign by the file `signers` beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "signers").write_text(f"lab {(folder / f'{name}.pub').read_text()}")
    return folder / name
