"""The share of each framework's wall time that is spent in measured or warm-up steps, from launch to end of its runs.

They are those of the figures that compare frameworks, on the default configuration with nothing measured before (ten
minutes); with --of FOLDER those that were measured in that folder.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import benchmark, options, python_of_workers, repository, row, save, snakemake_s
from benchmarks.share import SWEEP_TIMEOUT_S, sessions_in, share_percent
from benchmarks.sweep import config
from ddlbench.plan.catalogue import FRAMEWORKS

AT_LEAST = 70.0
FIGURES = ("shi2019_fig4_2", "wang2019_fig4")


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, of="")
    if asked.of:
        of_all, command = sessions_in(Path(asked.of)), "the default configuration"
    else:
        for framework in FRAMEWORKS.values():
            python_of_workers(framework.environment)  # must be there
        with repository(config=config()) as folder:
            snakemake_s(folder, "--cores", "all", *FIGURES, timeout_s=SWEEP_TIMEOUT_S)
            of_all, command = sessions_in(folder), f"`snakemake {' '.join(FIGURES)}`"
    rows, shares = [], {}
    for name in dict.fromkeys(each["framework"] for each in of_all.values()):
        sessions = {run: each for run, each in of_all.items() if each["framework"] == name}
        shares[name] = share_percent(sessions)
        rows.append(
            row(
                f"share of {name}'s wall time spent in measured or warm-up steps",
                at_least=f"{AT_LEAST:g} %",
                measured=f"{shares[name]:.3g} %",
                peer=f"its {len(sessions)} sessions of {command}, launches and probes included",
                met=shares[name] >= AT_LEAST,
            )
        )
    save("framework_share", rows, {"shares_percent": shares, "sessions": of_all})


if __name__ == "__main__":
    benchmark(main)
