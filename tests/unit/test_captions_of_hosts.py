"""What captions tell of hosts, on made-up tables: cores, memory, dilation, replayed devices."""

import pandas as pd
import pytest
from made_up_captions import BY_BATCH, said
from made_up_tables import made_up_table

from ddlbench.figures.captions.caption import caption, how_measured
from ddlbench.figures.captions.hosts import dilations, replayed
from ddlbench.figures.rows import points

OF_FOUR = {"vcpus": 4, "vcpu_speedup_low": 1.9, "vcpu_speedup_high": 3.2, "vcpu_threads": "1 and 2"}


def test_how_fast_a_core_counts_for_vcpus_is_said_with_its_error_or_that_it_was_not_measured():
    words = (
        "4 vCPUs are made of one core that counts as fast as 4 threads of this machine: 2.5 times as fast as one "
        "(95 %: 1.9 to 3.2), by Amdahl's law from 1 and 2 threads."
    )
    assert words in said(vcpu_speedup=2.51, **OF_FOUR)[0]
    words = "one core that counts as 4 times as fast: how fast 4 threads are was not measured."
    assert words in said(vcpus=4)[0]
    assert "made of one core" not in said(vcpus=1)[0]


def test_vcpus_are_not_spoken_of_where_all_compute_is_replayed():
    picture, whole = said(vcpus=4, memory_gb=256.0, replay="t2.small, fp32 (measured)")
    assert "vCPU" not in picture + whole
    assert "256 GB a host" in whole
    assert "4 vCPUs and 256 GB a host" in said(vcpus=4, memory_gb=256.0)[1]


def test_the_emulations_own_error_is_said_with_what_it_was_judged_by():
    judged = {"systematic_error_percent": 7.5, "systematic_error_judged": "12 cases, AMD EPYC, 2 cores"}
    words = "Light bars add the emulation's own error, up to 7.5 % (12 cases, AMD EPYC, 2 cores)."
    assert words in said(**judged)[0]
    with_threads = f"{words[:-1]}, and how uncertain the speed of threads is."
    assert with_threads in said(vcpu_speedup=2.5, **OF_FOUR, **judged)[0]
    assert "Light bars" not in said("test_accuracy_percent", epochs=2, **judged)[0]
    assert "Bars do not hold the emulation's own error" in said()[0]


def test_of_points_with_other_errors_of_the_emulation_the_largest_is_said():
    table = made_up_table({"batch_size": [64, 128], "workers": [1, 2, 4]})
    table["systematic_error_percent"] = table["workers"].map({2: 26.4, 4: 26.9})
    table["systematic_error_judged"] = table["workers"].map({2: "few cases", 4: "12 cases"})
    picture = " ".join(how_measured(points(table, BY_BATCH), BY_BATCH))
    assert "the emulation's own error, up to 26.9 % (12 cases)." in picture


def test_the_caption_names_the_least_and_the_most_dilation_of_all_repetitions():
    rows = made_up_table({"batch_size": [128, 192]}).assign(dilation=8.0)
    assert dilations(rows) == "8"
    assert dilations(rows.assign(dilation_least=[5.0, 8.0])) == "5 to 8"


def test_hosts_that_did_not_have_their_shares_are_said():
    words = "Hosts were not held to their shares of a core (bursts of CPU got 180 % of them; 6 of 6 points)."
    assert words in said(shares_hold=False, burst_percent=180.0)[0]
    assert "held to their shares" not in said(shares_hold=True, burst_percent=98.0)[0]


def test_waits_for_a_hosts_own_cores_are_said_where_nothing_of_the_host_explains_them():
    words = "Others had a host's own cores for up to 12 % of the time (6 of 6 points): times may be too long."
    assert words in said(unexplained_wait_percent=12.3, got_percent=None)[0]
    for facts in ({"unexplained_wait_percent": 1.0, "got_percent": None}, {"unexplained_wait_percent": 12.3}):
        assert "own cores" not in said(**{"got_percent": 99.0, **facts})[0]


def test_hosts_that_got_less_or_more_than_their_share_of_a_core_are_said():
    short = "A host got 94.6 % of its share of a core at worst (6 of 6 points): times may be too long."
    long = "A host got 105.4 % of its share of a core at most (6 of 6 points): times may be too short."
    assert f"{short} {long}" in said(got_percent=94.6, got_percent_most=105.4)[0]
    assert long in said(got_percent=105.4)[0]  # of a table that has the farthest from 100 alone
    for least, most in ((95.0, 105.0), (99.0, 100.4), (None, None)):
        assert "of its share of a core at" not in said(got_percent=least, got_percent_most=most)[0]


@pytest.mark.parametrize(
    "hosts", [{"got_percent": 98.0}, {"got_percent": None, "replay": "K80", "replayed_compute_ms": 79}]
)
def test_waits_for_shared_cores_are_said_where_shares_do_not_explain_them(hosts):
    words = "waited for a shared core for up to 12 % of the time (6 of 6 points) longer than its host's share explains."
    assert words in said(unexplained_wait_percent=12.3, **hosts)[0]
    assert "waited for a shared" not in said(unexplained_wait_percent=1.0, **hosts)[0]


def test_what_cores_do_to_times_is_said_where_a_time_is_shown():
    facts = {"got_percent": 88.5, "got_percent_most": 112.0, "unexplained_wait_percent": 12.3}
    for y, words in (("images_per_second", 3), ("test_accuracy_percent", 0), ("train_loss", 0)):
        picture = said(y, epochs=2, **facts)[0]
        assert sum(picture.count(word) for word in ("too long", "too short", "waited for")) == words


def test_the_memory_that_hosts_really_had_stands_beside_the_studys():
    assert "1 vCPU and 2.5 GB (the study: 4 GB) a host" in said(host_memory_gb=2.5)[1]
    assert "1 vCPU and 4 GB a host" in said(host_memory_gb=16.0)[1]


def test_the_memory_of_hosts_is_from_the_least_to_the_most_with_those_that_had_all_of_it():
    table = made_up_table({"batch_size": [64, 128], "workers": [1, 2, 4]})
    table["host_memory_gb"] = table["workers"].map({1: 4.0, 2: 4.0, 4: 2.5})
    assert "1 vCPU and 2.5 to 4 GB (the study: 4 GB) a host" in caption(points(table, BY_BATCH), BY_BATCH)


BY_WAITING = {"replay": "V100, fp32 (computed)", "replayed_compute_ms": 310.7, "host_memory_gb": 2.5}


def test_hosts_replayed_by_waiting_are_said_to_have_neither_memory_nor_a_share_of_a_core():
    picture, whole = said(**BY_WAITING)
    assert "GB" not in picture + whole
    assert "share of one" not in picture
    assert "4 workers): links are slower by that factor, and times are divided by it." in picture
    table = made_up_table({"batch_size": [64, 128], "workers": [1, 2, 4]}, **BY_WAITING)
    table.loc[table["batch_size"] == 64, "replayed_compute_ms"] = None
    mixed = caption(points(table, BY_BATCH), BY_BATCH)
    assert "2.5 GB (the study: 4 GB) a host" in mixed
    assert "a host that computes has a core or a share of one" in mixed


def test_repetitions_from_hosts_of_different_kinds_are_told():
    told = "Repetitions of 6 of 6 points are from hosts that differ in cpu model, clock mhz: their bars hold that, too."
    assert told in said(hosts_differ_in="cpu_model, clock_mhz")[0]
    assert "differ in" not in said(hosts_differ_in=None)[0]


def test_the_caption_says_where_workers_shared_a_gpu():
    of = {"devices": "gpu", "workers_per_gpu": 1}
    table = made_up_table({"batch_size": [192, 1280], "workers": [1, 2, 4]}, **of)
    assert "share a GPU" not in caption(points(table, BY_BATCH), BY_BATCH)
    table["workers_per_gpu"] = table["workers"].map({1: 1, 2: 2, 4: 4})
    told = caption(points(table, BY_BATCH), BY_BATCH)
    assert "2 workers share a GPU (2 workers)." in told
    assert "4 workers share a GPU (4 workers)." in told


def test_a_device_is_named_once_with_all_ways_in_which_its_times_are_known():
    rows = pd.DataFrame(
        {
            "replay": [
                "A card (2 GPUs), fp32 (computed)",
                "A card (2 GPUs), fp32 (computed, interpolated)",
                None,
            ]
        }
    )
    assert replayed(rows) == [
        "Compute is replayed (2 of 3 points): A card (2 GPUs), fp32 (computed; computed, interpolated)."
    ]
