"""The public validator of RO-Crates, in an environment of its own, without the network once that is made.

python crate_validator.py CACHE        (in its environment) gives it the one document that it would fetch
"""

import subprocess
import sys
import venv
from importlib.resources import files
from pathlib import Path

REQUIREMENTS = Path(__file__).with_suffix(".txt")
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
MOST_S = 600


def make(environment: Path) -> None:
    """Install what is locked, and give the validator the published context of RO-Crate 1.1."""
    venv.create(environment, with_pip=True)
    python = environment / "bin/python"
    _run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", REQUIREMENTS)
    _run(python, __file__, environment / "cache")


def complaints(environment: Path, crate: Path) -> str:
    """What the validator says of a crate that lacks something the profile requires; empty: it lacks nothing."""
    options = ("--requirement-severity", "required", "--offline", "--cache-path", environment / "cache")
    command = [environment / "bin/rocrate-validator", "--no-interactive", "--disable-color", "validate"]
    profile = ("--profile-identifier", "workflow-run-crate", "--no-paging", "--verbose")
    answer = subprocess.run(
        [*command, *options, *profile, crate], capture_output=True, text=True, timeout=MOST_S
    )
    said = answer.stdout + answer.stderr
    if answer.returncode == 0 and "is a valid workflow-run-crate" in said:
        return ""
    return said


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])


def _keep_context(cache: str) -> None:
    """Write the context into the validator's cache, as if it had come from its address."""
    import requests
    from requests_cache import CachedRequest, CachedResponse, CachedSession

    content = files("rocrate").joinpath("data/ro-crate.jsonld").read_bytes()
    assert f'"@id": "{CONTEXT}"'.encode() in content, "this rocrate has the context of another version"
    kept = CachedSession(cache_name=cache, backend="sqlite", expire_after=-1).cache
    key = kept.create_key(requests.Request("GET", CONTEXT).prepare())
    kept.responses[key] = CachedResponse(
        url=CONTEXT,
        status_code=200,
        headers={"Content-Type": "application/ld+json"},
        content=content,
        request=CachedRequest(method="GET", url=CONTEXT),
    )


if __name__ == "__main__":
    _keep_context(sys.argv[1])
