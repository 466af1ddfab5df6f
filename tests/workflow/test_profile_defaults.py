"""What a profile's default resources say is asked for as Snakemake understands it, unless the plan says otherwise."""

import re

import pytest
import yaml

from tests.support.repository import copy_of_the_repository, snakemake

DEFAULTS = {
    "slurm_partition": "main",
    "slurm_account": "'physics'",
    "slurm_extra": "'--reservation=ours'",
    "runtime": "60*attempt",
    "constraint": "'ib'",
    "mem_mb": 4000,
}
OF_ANOTHER_STUDY = {"account": "other", "partition": "p", "constraint": "x", "runtime_min": 3}


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What runs between nodes ask for, where another study than theirs has requests of its own."""
    checkout = copy_of_the_repository(tmp_path_factory.mktemp("defaults") / "ddlbench")
    settings = {
        "studies": ["cluster2026", "wang2019"],
        "default_figures": ["cluster2026_ethernet"],
        "cluster": {"studies": {"wang2019": OF_ANOTHER_STUDY}},
    }
    (checkout / "mine.yaml").write_text(yaml.safe_dump(settings))
    (checkout / "profile").mkdir()
    profile = {"executor": "slurm", "jobs": 4, "default-resources": DEFAULTS}
    (checkout / "profile/config.yaml").write_text(yaml.safe_dump(profile))
    options = ("--profile", "profile", "--configfile", "mine.yaml", "--dry-run", "--quiet", "host")
    answer = snakemake(checkout, "cluster2026_ethernet", *options)
    assert answer.returncode == 0, answer.stderr
    found = re.search(r"^rule measure_on_nodes:\n(?: .*\n)*? +resources: (.*)", answer.stdout, re.MULTILINE)
    assert found
    return found[1]


@pytest.mark.parametrize(
    "asked",
    [
        "slurm_account=physics",
        "slurm_partition=main",
        "slurm_extra=--reservation=ours --exclusive",
        "constraint=ib",
        "runtime=60",
    ],
)
def test_a_default_is_asked_for_beside_what_the_plan_asks_for(resources: str, asked: str):
    assert asked in resources.split(", ")
