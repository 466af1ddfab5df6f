"""Drivers on a real SLURM cluster, beside each other and without what they need: nothing is lost or submitted."""

import copy
from typing import Any

import pytest

from ddlbench.configuration.yaml_file import read_yaml
from tests.support.on_cluster import STUDY, wait_for

pytestmark = pytest.mark.timeout(1800)
RECORD = ".environments/mxnet/environment.json"


def study(**values: Any) -> dict[str, Any]:
    """The study with other values for two of its grids."""
    found = copy.deepcopy(STUDY)
    for name in ("two", "few"):
        found["grids"][name] |= values
    return found


def test_a_second_driver_leaves_the_record_that_a_queued_job_of_the_first_one_needs(on_cluster, four_nodes):
    """The record says why there is no environment. Each start tries again to make it, which replaces the record."""
    root = on_cluster.pipeline.root
    known = dict(read_yaml(root / "config/config.yaml", root)["environments"])
    of_mxnet = study(framework="mxnet", strategy="parameter_server_sync")
    on_cluster.configure({}, of_mxnet, environments=known | {"mxnet": {"requirements": "lock.txt"}})
    (root / "lock.txt").write_text("")
    others = four_nodes.ask(
        *("sbatch", "--parsable", "--nodes=4", "--exclusive", "--output=/dev/null"), "--wrap=sleep 600"
    )
    first = on_cluster.start("tiny2000_two", "--retries", "0")
    try:
        wait_for(lambda: len(four_nodes.ask("squeue", "--noheader").splitlines()) == 2, first)
        before = (root / RECORD).stat().st_ino
        assert on_cluster.run("tiny2000_few", "--retries", "0") == 1
        refusal = f"{RECORD}: another call of Snakemake"
        assert refusal in on_cluster.pipeline.said
        assert (root / RECORD).stat().st_ino == before
        assert len(four_nodes.ask("squeue", "--noheader").splitlines()) == 2  # it waits as before
        assert first.poll() is None
    finally:
        on_cluster.kill(first)
        four_nodes.ask("scancel", others)


def test_an_image_that_is_missing_and_cannot_be_made_is_refused_before_anything_is_submitted(
    on_cluster, monkeypatch
):
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/engine.sock")
    on_cluster.configure({}, study(runtime="apptainer"))
    assert on_cluster.run("tiny2000_two") == 1
    said = on_cluster.pipeline.said
    assert "this image is missing, and no way to make it is here, so nothing is submitted" in said
    assert "there is no /no/engine.sock" in said
    assert "has been submitted" not in said
    assert not (on_cluster.pipeline.root / ".images").exists()
