"""What measures has its nodes for itself, whatever else a profile or the command line sets for its rule."""

import re
from pathlib import Path

import pytest

from tests.support.repository import copy_of_the_repository, snakemake

QUESTION = ("--profile", "profiles/slurm", "--dry-run", "--quiet", "host")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_repository(tmp_path_factory.mktemp("exclusive") / "ddlbench")


@pytest.mark.parametrize(
    ("rule", "targets"),
    [
        ("measure_on_nodes", ["cluster2026_ethernet", "--configfile", "config/examples/cluster.yaml"]),
        ("measure", ["zhao2016_fig6"]),
        ("faults", ["shi2019_faults"]),
        ("point_to_point", ["results/probes/point_to_point/gigabit-k1-tcp.csv"]),
        ("collectives", ["results/probes/collectives/gigabit-k1-2h-gloo.csv"]),
        ("runtimes", ["results/probes/runtimes.csv"]),
        ("recommend_measure", ["recommend_measure"]),
    ],
)
def test_jobs_that_measure_ask_for_exclusive_nodes_and_for_as_many_processors_as_these_have(
    checkout: Path, rule: str, targets: list[str]
) -> None:
    options = ("--set-resources", f"{rule}:slurm_partition=debug")
    answer = snakemake(checkout, *targets, *options, *QUESTION)
    assert answer.returncode == 0, answer.stderr
    jobs = re.findall(
        rf"^rule {rule}:\n(?: .*\n)*? +threads: (.*)\n(?: .*\n)*? +resources: (.*)",
        answer.stdout + answer.stderr,
        re.MULTILINE,
    )
    assert jobs
    for threads, resources in jobs:
        assert int(threads) < 1024
        assert "slurm_partition=debug" in resources
        assert "slurm_extra=--exclusive" in resources
