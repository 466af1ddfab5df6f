"""What others know of our code and of what it needs: bandit reads the code, pip-audit asks for advisories on all locks.

Exceptions stand where they apply, with a reason: `# nosec` in a line of code, `[tool.bandit]` in pyproject.toml for a
whole kind, and ACCEPTED below for an advisory.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.torture.tally import Tally

READ = ("src", "workflow", "benchmarks", "containers")
LOCKS = ("requirements*.lock", "containers/*/requirements-*.txt")
ACCEPTED: Mapping[str, str] = {}  # an advisory's id, and why it does not concern us
TIMEOUT_S = 900
FINDINGS, ADVISORIES, UNKNOWN = "findings", "advisories", "packages that no database was asked about"


def bandit(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
    """Have bandit read all code of ours that is not a test."""
    tally = Tally("bandit", "clean, exceptions with reasons", seed, {FINDINGS: 0})
    answer = _run(
        "bandit", "--configfile", "pyproject.toml", "--recursive", *READ, "--format", "json", "--quiet"
    )
    if not answer:
        return _not_looked_at(tally, "bandit is not installed")
    found = json.loads(answer.stdout)
    for each in found["results"]:
        where = f"{each['filename']}:{each['line_number']}"
        tally.add(f"{where}: {each['test_id']} {each['issue_text']}", {FINDINGS: 1})
    tally.counts[FINDINGS] += len(found["errors"])
    totals = found["metrics"]["_totals"]
    tally.tried = totals["loc"]
    tally.what = "bandit, lines of code: findings"
    tally.notes = [f"{totals['nosec']} lines are excepted where they stand, each with its reason"]
    return tally


def pip_audit(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
    """Ask for the advisories on every package that any lock pins. What could not be asked about is no success."""
    tally = Tally(
        "pip-audit on all locks, packages",
        "clean, exceptions with reasons",
        seed,
        {ADVISORIES: 0, UNKNOWN: 0},
    )
    for lock in sorted(path for pattern in LOCKS for path in Path().glob(pattern)):
        pinned = len(re.findall(r"^[A-Za-z0-9][^=\s]*==", lock.read_text(), re.MULTILINE))
        tally.tried += pinned
        options = ("--requirement", str(lock), "--disable-pip", "--no-deps", "--format", "json")
        answer = _run("pip_audit", *options, "--progress-spinner", "off")
        if not answer:
            return _not_looked_at(tally, "pip-audit is not installed")
        try:
            found = json.loads(answer.stdout)["dependencies"]
        except (ValueError, KeyError):
            last = answer.stderr.strip().splitlines()[-1:] or ["it says nothing"]
            tally.counts[UNKNOWN] += pinned
            _say(tally, f"{lock}: {last[0]}")
            continue
        unknown = [each for each in found if "skip_reason" in each]
        tally.counts[UNKNOWN] += len(unknown) + max(0, pinned - len(found))
        if unknown:
            _say(tally, f"{lock}: {len(unknown)} of {len(found)}: {unknown[0]['skip_reason']}")
        for each in found:
            for advisory in _advisories(each):
                tally.counts[ADVISORIES] += 1
                _say(tally, f"{lock}: {each['name']} {each['version']}: {advisory}")
    if tally.counts[UNKNOWN]:
        tally.is_complete = False
        tally.notes.append(
            f"{tally.counts[UNKNOWN]:g} of {tally.tried} packages were not audited: no advisory database that "
            "pip-audit asks answers for them here. Run it where pypi.org is reachable"
        )
    return tally


def _advisories(package: Mapping[str, Any]) -> list[str]:
    """Those that are not accepted."""
    return [
        each["id"]
        for each in package.get("vulns", [])
        if not {each["id"], *each["aliases"]} & ACCEPTED.keys()
    ]


def _run(module: str, *options: str) -> "subprocess.CompletedProcess[str] | None":
    """The answer of a tool; None if it is not here."""
    if find_spec(module) is None:
        return None
    command = [sys.executable, "-m", module, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


def _say(tally: Tally, line: str) -> None:
    tally.tries.append(line)
    tally.notes.append(line)


def _not_looked_at(tally: Tally, why: str) -> Tally:
    tally.is_complete = False
    tally.notes = [f"not looked at: {why}"]
    return tally
