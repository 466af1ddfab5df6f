"""Run all benchmarks, or those named, one after another, each with the options that follow the names; then the table.

python -m benchmarks [NAME ...] [--turns 5 ...]
"""

import subprocess
import sys
from itertools import takewhile
from time import monotonic

from benchmarks import report
from benchmarks.common import ROOT, say
from ddlbench.system.processes import die_with_parent

TIMEOUT_S = 2 * 3600


def main(arguments: list[str]) -> int:
    names = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = arguments[len(names) :]
    names = names or list(report.ORDER)
    failed = []
    for number, name in enumerate(names, start=1):
        say(f"--- {number} of {len(names)}: {name}")
        began = monotonic()
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        try:
            status = subprocess.run(
                command, cwd=ROOT, timeout=TIMEOUT_S, preexec_fn=die_with_parent
            ).returncode
        except subprocess.TimeoutExpired:
            status = 1
        failed += [name] if status else []
        say(f"--- {name}: {'failed' if status else 'done'} after {monotonic() - began:.0f} s")
    report.main()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
