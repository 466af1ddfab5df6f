"""Hosts of several workers in a plan: what is refused, what a point knows, and where its workers are."""

from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.errors import ConfigError
from ddlbench.hosts.group_on_hosts import assignments
from ddlbench.launch.roles import members
from ddlbench.network.hosts import GIB, on_nodes
from ddlbench.network.sites import SharedCards
from ddlbench.plan import load
from ddlbench.plan.point import Point
from ddlbench.plan.run import group_key
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.runs.placement import cards_of
from ddlbench.sweep.link_monitor import link_of
from tests.support.small_study import small_repository, write_study

SHARED = {"workers": [4], "workers_per_host": 2, "inside": "pcie3-x16"}


def plan_of(root, hosts=(), **keys):
    """The plan of a small repository whose one grid has these keys, on two hosts of 4 vCPUs."""
    settings, study = small_repository(root)
    study["hosts"] = {"pair": {"count": 2, "vcpus": 4, "memory_gb": 4} | dict(hosts)}
    name = next(iter(study["grids"]))
    study["grids"] = {name: {**study["grids"][name], "hosts": "pair", **keys}}
    figures = {key: each for key, each in study["figures"].items() if each.get("grids") == [name]}
    study["figures"] = {
        key: {part: value for part, value in each.items() if part != "where"} for key, each in figures.items()
    }
    settings["default_figures"] = list(study["figures"])
    write_study(root, study)
    return load(settings, root)


def refusal(root, hosts=(), **keys):
    with pytest.raises(ConfigError) as caught:
        plan_of(root, hosts, **keys)
    return str(caught.value)


def point_of(root, hosts=(), **keys) -> Point:
    return next(point for run in plan_of(root, hosts, **keys).runs for point in run.points)


def test_a_point_of_shared_hosts_names_both_links_and_survives_json(tmp_path):
    point = point_of(tmp_path, **SHARED)
    assert (point.hosts, point.places, point.inside.name) == (2, 4, "pcie3-x16")
    assert Point.from_dict(point.as_dict()) == point
    link = link_of(point)
    assert isinstance(link, SharedCards)
    assert (link.inside.bandwidth_mbit, link.card.bandwidth_mbit) == (126000, point.bandwidth_mbit)
    assert cards_of(point) == (0, 0, 1, 1)


@pytest.mark.parametrize(("hosts", "last_is"), [(3, 2), (2, 1)], ids=["its own", "the last worker's"])
def test_a_server_has_all_of_a_host_of_its_own_and_shares_a_workers_part(tmp_path, hosts, last_is):
    served = SHARED | {"strategy": "parameter_server_sync", "framework": "torch"}
    assert point_of(tmp_path, hosts={"count": hosts}, **served).last_place_is == last_is


def test_workers_of_one_host_have_the_inside_link_alone(tmp_path):
    point = point_of(tmp_path, **SHARED | {"workers": [2]})
    assert point.bandwidth_mbit is None
    assert link_of(point).bandwidth_mbit == 126000


def test_a_point_of_one_worker_a_host_is_what_it_was_before(tmp_path):
    point = point_of(tmp_path, workers=[2])
    assert not {"workers_per_host", "inside"} & point.as_dict().keys()


def test_groups_that_share_hosts_differently_are_different_groups(tmp_path):
    plan = plan_of(tmp_path, workers=[2], workers_per_host=[1, 2], inside="pcie3-x16")
    assert len({group_key(point) for run in plan.runs for point in run.points}) == 2


def test_on_nodes_workers_fill_one_node_after_another_and_a_server_has_the_last():
    found = members("torch", "parameter_server_sync", 4, 3, workers_per_host=2)
    assert [member.host for member in found] == [0, 0, 1, 1, 2]


def test_all_members_know_the_memory_of_the_server_whatever_their_own_is():
    """By it they leave out the same models, and wait for each other in all others."""
    hosts = on_nodes(3, vcpus=8, memory_gb=4, workers_per_host=2, last_is=2)
    group: Any = SimpleNamespace(
        members=members("tensorflow", "parameter_server_sync", 4, 3, workers_per_host=2),
        framework_timeout_s=1.0,
        timeouts=Timeouts(launch_s=1.0, prepare_s=1.0, step_s=1.0, heartbeat_s=1.0),
        devices="cpu",
        strategy="parameter_server_sync",
        datasets={},
        placement=hosts,
        workers_per_host=2,
    )
    told = assignments(group, hosts.hosts, ["a", "b", "c"])
    assert {each.server_bytes for each in told} == {4 * GIB}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"workers": [3]}, "3 workers do not fill hosts of 2 (expected at most 2, or a multiple of it)"),
        ({"workers": [6]}, "6 workers with 2 on each need 3 hosts, but hosts.pair has 2"),
        ({"inside": None}, "`inside` does not say what connects them"),
        ({"workers_per_host": 3, "workers": [3]}, "3 workers cannot share the 4 vcpus of hosts.pair evenly"),
        ({"fabric": "loopback"}, "on the loopback there is no network card that workers could share"),
        (
            {"workers_per_host": 1, "strategy": "hierarchical_allreduce", "workers": [2]},
            "hierarchical_allreduce needs hosts of several workers (`workers_per_host`)",
        ),
    ],
)
def test_hosts_that_cannot_be_shared_so_are_refused_with_what_can(tmp_path, keys, words):
    given = {key: value for key, value in (SHARED | keys).items() if value is not None}
    assert words in refusal(tmp_path, **given)


def test_workers_whose_replayed_compute_burns_a_processor_need_an_even_share_of_it_too(tmp_path):
    keys = {**SHARED, "workers_per_host": 3, "workers": [3], "compute": "replay"}
    burning, waiting = ({"device": device, "without_profile": "gap"} for device in ("ryzen-5-3600", "v100"))
    assert "3 workers cannot share the 4 vcpus of hosts.pair evenly" in refusal(
        tmp_path / "cpu", burning, **keys
    )
    assert plan_of(tmp_path / "gpu", waiting, **keys).runs
