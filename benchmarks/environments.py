"""Set-up of all frameworks' environments: from nothing, and again with what the first time has left in the caches.

Nothing means no environment, nothing of pip's and no wheel of Horovod's: a cache folder of its own, which is empty.
What is fetched comes from the package index that this machine is configured to use, and counts.
"""

import os
import resource
import shutil
from collections.abc import Sequence
from tempfile import TemporaryDirectory

from benchmarks.common import ROOT, benchmark, options, repository, row, save, say, snakemake_s
from ddlbench.configuration.yaml_file import read_yaml

AT_MOST_S = {"from nothing": 25 * 60.0, "from the caches": 2 * 60.0}
TIMEOUT_S = 5400.0


def main(arguments: Sequence[str]) -> None:
    options(__doc__, arguments)
    config = read_yaml(ROOT / "config" / "config.yaml", ROOT)
    names = list(config["environments"])
    load_before = os.getloadavg()
    took_s: dict[str, float] = {}
    cpu_s: dict[str, float] = {}
    with TemporaryDirectory(prefix="ddlbench-") as caches, repository(config=config) as folder:
        os.environ["XDG_CACHE_HOME"] = caches
        for what in AT_MOST_S:
            shutil.rmtree(folder / ".environments", ignore_errors=True)
            before_s = cpu_seconds()
            stamps = [f".environments/{name}/environment.json" for name in names]
            took_s[what] = snakemake_s(
                folder,
                "--quiet",
                "rules",
                "progress",
                "--cores",
                "all",
                *stamps,
                timeout_s=TIMEOUT_S,
                quiet=False,
            )
            cpu_s[what] = cpu_seconds() - before_s
            say(f"{', '.join(names)} {what}: {took_s[what]:.0f} s, {cpu_s[what]:.0f} s of it on a core")
    cores = len(os.sched_getaffinity(0))
    rows = [
        row(
            f"set-up of all {len(names)} environments {what}, {cores} cores",
            at_least=f"under {at_most_s / 60:g} minutes",
            measured=f"{took_s[what] / 60:.1f} minutes",
            peer="",
            met=took_s[what] < at_most_s,
        )
        for what, at_most_s in AT_MOST_S.items()
    ]
    load = {"before": load_before, "after": os.getloadavg()}
    save(
        "environments", rows, {"environments": names, "took_s": took_s, "cpu_s": cpu_s, "load_average": load}
    )


def cpu_seconds() -> float:
    """What all that was started here, and has ended, has used of cores: other work on the machine does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    benchmark(main)
