"""From `snakemake --profile slurm FIGURE` to the first training steps, and from the last ones to the command's end.

On an idle SLURM cluster of four nodes, which are this machine's (see `slurm_cluster`); nothing is measured or in the
queue yet, the framework's environment and the data set are there. The first steps are there when the first repetition
has ended. After the last one the job ends, the driver notices that, and the figure is drawn.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from time import sleep, time

from benchmarks.common import (
    ROOT,
    benchmark,
    in_words,
    options,
    repository,
    row,
    save,
    say,
    snakemake_s,
    spread,
)
from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.errors import DdlbenchError
from ddlbench.system.processes import die_with_parent
from tests.support.slurm_cluster import Cluster, cluster, lacking, network

AT_MOST_S = 15.0
END_AT_MOST_S = 10.0
TIMEOUT_S = 300.0
FIGURE = "slurm2026_step"
RECORDS = "results/store/[0-9a-f]*/*/*.json"


def main(arguments: Sequence[str]) -> None:
    chosen = options(__doc__, arguments, turns=5, nodes=2)
    if missing := lacking():
        raise DdlbenchError(f"not here: {', '.join(missing)} (Debian: slurm-wlm, munge)")
    load_before = os.getloadavg()
    took_s: list[float] = []
    before_s: list[float] = []
    after_s: list[float] = []
    with cluster() as nodes, repository(config=_config(), study=_study(chosen.nodes)) as folder:
        shutil.copytree(ROOT / "profiles", folder / "profiles")
        snakemake_s(folder, "--cores", "2", "results/datasets/digits-28x28x1.npz", timeout_s=TIMEOUT_S)
        for turn in range(1, chosen.turns + 1):
            driver_s, steps_s, end_s = _turn(nodes, folder)
            say(
                f"turn {turn} of {chosen.turns}: driver after {driver_s:.1f} s, first steps after {steps_s:.1f} s,"
                f" end {end_s:.1f} s after the last"
            )
            before_s.append(driver_s)
            took_s.append(steps_s)
            after_s.append(end_s)
    found, ending = spread(took_s), spread(after_s)
    rows = [
        row(
            f"SLURM: `snakemake --profile slurm FIGURE` to the first steps, {chosen.nodes} nodes of an idle cluster",
            at_least=f"under {AT_MOST_S:g} s",
            measured=f"{in_words(found, ' s')}; {spread(before_s)['median']:.3g} s until the driver begins on its node",
            peer="",
            met=found["median"] < AT_MOST_S,
        ),
        row(
            f"SLURM: from the last steps to the end of that command, its figure drawn, {chosen.nodes} nodes",
            at_least=f"under {END_AT_MOST_S:g} s",
            measured=in_words(ending, " s"),
            peer="",
            met=ending["median"] < END_AT_MOST_S,
        ),
    ]
    load = {"before": load_before, "after": os.getloadavg()}
    save(
        "slurm", rows, {"first_steps_s": took_s, "driver_s": before_s, "end_s": after_s, "load_average": load}
    )


def _turn(nodes: Cluster, folder: Path) -> tuple[float, float, float]:
    """Measure once.

    Returns:
        Seconds from the command until the job's driver knows what to do, and until the first repetition has ended; and
        from the end of the last repetition to that of the command.
    """
    for part in (
        "results/store",
        "results/runs",
        "results/tables",
        "results/figures",
        "results/telemetry",
        "logs",
    ):
        shutil.rmtree(folder / part, ignore_errors=True)
    command = [sys.executable, "-m", "snakemake", FIGURE, "--profile", "profiles/slurm", "--quiet", "all"]
    began = time()
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            nodes.command(*command, folder=folder), stdout=said, stderr=said, preexec_fn=die_with_parent
        )
    try:
        while not list(folder.glob(RECORDS)):
            if process.poll() is not None or time() - began > TIMEOUT_S:
                raise DdlbenchError(f"nothing was measured:\n{(folder / 'said').read_text()[-2000:]}")
            sleep(0.05)
        driver = min(path.stat().st_mtime for path in folder.glob("logs/runs/*/*/job.json"))
        process.wait(TIMEOUT_S)
        end = time()
        records = [json.loads(each.read_text()) for each in folder.glob(RECORDS)]
        ended = [datetime.fromisoformat(each["ended"]).timestamp() for each in records]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return driver - began, min(ended) - began, end - max(ended)


def _config() -> dict[str, object]:
    config: dict[str, object] = read_yaml(ROOT / "config" / "config.yaml", ROOT)
    measure = {**dict(config["measure"]), "min_repetitions": 1, "max_repetitions": 1}  # type: ignore[call-overload]
    return {
        **config,
        "measure": measure,
        "interfaces": {"ethernet": network(), "infiniband": None},
        "studies": ["slurm2026"],
        "default_figures": [FIGURE],
        "grids": {},
    }


def _study(workers: int) -> dict[str, object]:
    return {
        "key": "slurm2026",
        "title": "one point between machines",
        "paper": {"authors": "nobody", "title": "nothing", "year": 2026},
        "hosts": {"nodes": {"count": workers, "vcpus": 1, "memory_gb": 2}},
        "grids": {
            "nodes": {
                "hosts": "nodes",
                "workers": workers,
                "model": "mlp",
                "dataset": "digits",
                "batch_size": 64,
                "fabric": "ethernet",
                "report": {"epoch_images": 60000, "epochs": 1},
            }
        },
        "figures": {
            FIGURE: {
                "grids": ["nodes"],
                "title": "Step time",
                "x": "workers",
                "y": "step_time_ms",
                "category": "Nodes",
                "caption": "There is no paper.",
            }
        },
    }


if __name__ == "__main__":
    benchmark(main)
