"""Facts of the node that the tests run on."""

import json
import os

from ddlbench.measurements.facts import FACTS, OF_COMPUTE, OF_NETWORK, differing, gather, short_label


def test_this_node_says_what_it_is():
    facts = gather()
    assert list(facts) == list(FACTS)
    assert facts["cores"] == os.cpu_count()
    assert facts["memory_gb"] > 0.1
    assert all(facts[key] for key in ("hostname", "cpu_model", "kernel", "python", "time"))


def test_facts_have_the_type_that_the_table_promises():
    assert [
        key for key, value in gather().items() if value is not None and not isinstance(value, FACTS[key].type)
    ] == []


def test_facts_hold_no_path_of_the_machine():
    text = json.dumps(gather())
    assert [
        path
        for path in (os.getcwd(), os.path.expanduser("~"), "/usr/", "/home/", "/tmp/")
        if path + "/" in text
    ] == []


def test_what_a_node_cannot_tell_is_none(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gather()["gpus"] is None


def test_gpus_are_read_from_nvidias_tool(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho NVIDIA H200\necho NVIDIA H200\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = gather()
    assert facts["gpus"] == ["NVIDIA H200", "NVIDIA H200"]
    assert "2x NVIDIA H200" in short_label(facts)


def test_the_label_is_short():
    facts = {"cpu_model": "Intel(R) Xeon(R) Silver 4214 CPU @ 2.20GHz", "cores": 2, "memory_gb": 8.2}
    assert short_label(facts) == "Intel Xeon Silver 4214, 2 cores, 8 GB"
    assert (
        short_label({"cpu_model": "AMD EPYC 7742 64-Core Processor", "cores": 1}) == "AMD EPYC 7742, 1 core"
    )


ALL = OF_COMPUTE + OF_NETWORK
CARD = {"kind": "ethernet", "driver": "mlx5_core", "speed_mbit": 25_000, "name": "eth0"}
NODE = {"cpu_model": "A", "cores": 8, "clock_mhz": 3000.0, "gpus": [], "interfaces": [CARD]}
NODE |= {"congestion_control": "cubic", "hostname": "n1"}


def test_hosts_of_one_kind_do_not_differ_whatever_their_names_and_order():
    other = NODE | {"hostname": "n2", "interfaces": [CARD | {"name": "eth1"}]}
    assert differing([[NODE, other], [other, NODE], [NODE | {"clock_mhz": None}, other]], ALL) == {}


def test_what_hosts_of_two_repetitions_differ_in_is_named():
    changes = [
        {"cpu_model": "B"},
        {"clock_mhz": 2000.0},
        {"congestion_control": "bbr"},
        {"interfaces": [CARD | {"speed_mbit": 10_000}]},
        {"gpus": ["H100"]},
    ]
    for change in changes:
        assert differing([[NODE, NODE], [NODE, NODE | change]], ALL).keys() == change.keys()
    assert differing([[NODE], [NODE | {"cpu_model": "B"}]], ALL) == {"cpu_model": ["A", "B"]}
