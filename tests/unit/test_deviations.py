"""What captions say of the papers' figures where ours differ, with the studies' own files and made-up tables."""

from pathlib import Path

import pytest
import yaml
from made_up_tables import figure, made_up_table

from ddlbench.figures.captions.paper import of_what_is_shown, that_hold
from ddlbench.plan.study import Deviation

pytestmark = pytest.mark.unit

STUDIES = Path(__file__).parents[2] / "config/studies"


def of_study(key: str, y: str):
    """A figure of the study by batch size, with the study's deviations."""
    data = yaml.safe_load((STUDIES / f"{key}.yaml").read_text())
    return figure(
        f"{key}_fig1", "batch_size", y, "workers", deviations=tuple(map(Deviation.of, data["deviations"]))
    )


@pytest.mark.parametrize("y", ["training_time_s", "test_loss", "test_accuracy_percent"])
def test_lines_of_cpu_workers_are_not_taken_for_the_papers_gpus(y):
    rows = made_up_table({"workers": [1, 2, 4]}, model="cnn", compute="real")
    said = " ".join(of_what_is_shown(rows, of_study("pani2020", y)))
    assert "1, 2, 4 and 8 GPUs; here are as many CPU workers" in said
    assert ("Times on CPUs say nothing of how GPUs compare." in said) == (y == "training_time_s")
    on_gpus = " ".join(of_what_is_shown(rows.assign(devices="gpu"), of_study("pani2020", y)))
    assert "CPU" not in on_gpus


def test_batches_that_the_paper_ran_on_fewer_hosts_are_told_where_they_are_shown():
    shown = of_study("anwar2021", "epoch_time_s")
    small, large = (
        " ".join(each.text for each in that_hold(made_up_table({"batch_size": batches}), shown))
        for batches in ([192, 1280], [32000, 64000])
    )
    for words in (
        "a batch of 32,000 on one host, too",
        "a batch of 64,000 on two hosts, too, and could not on one",
    ):
        assert words in large
        assert words not in small


def test_hosts_whose_compute_is_replayed_are_not_said_to_have_a_gpus_memory():
    shown = of_study("shi2019", "images_per_second")
    real, replayed = (
        " ".join(
            each.text
            for each in that_hold(made_up_table({"workers": [2]}, memory_gb=15.75, compute=compute), shown)
        )
        for compute in ("real", "replay")
    )
    assert "a host here has both" in real
    assert "a host here has both" not in replayed
