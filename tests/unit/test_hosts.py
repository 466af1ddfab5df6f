"""Where emulated hosts lie on a machine's cores, and the time dilation that follows."""

import pytest

from ddlbench.errors import ConfigError
from ddlbench.network.hosts import GIB, MEMORY_SHARE, MOST_HOSTS, on_nodes, place, place_waiting

PLENTY = 1000 * GIB


def placed(
    workers, cores, *, vcpus=1, count=None, memory_gb=4.0, available=PLENTY, dilation="auto", largest=0
):
    return place(
        workers,
        vcpus=vcpus,
        memory_gb=memory_gb,
        host_count=count or workers,
        cores=list(range(cores)),
        available_memory_bytes=available,
        dilation=dilation,
        largest=largest,
    )


def cores_of(placement):
    return [host.cores for host in placement.hosts]


def test_hosts_that_all_fit_have_cores_of_their_own_and_time_is_not_dilated():
    placement = placed(2, 4, vcpus=2)
    assert cores_of(placement) == [(0, 1), (2, 3)]
    assert [host.threads for host in placement.hosts] == [2, 2]
    assert placement.dilation == 1


def test_hosts_of_several_cores_that_do_not_fit_get_one_core_each_and_time_is_dilated():
    placement = placed(2, 2, vcpus=2)
    assert cores_of(placement) == [(0,), (1,)]
    assert placement.dilation == 2


def test_more_hosts_than_cores_share_them_and_time_is_dilated_by_how_many_share_one():
    placement = placed(4, 2)
    assert cores_of(placement) == [(0,), (1,), (0,), (1,)]
    assert placement.dilation == 2
    assert {host.core_share for host in placement.hosts} == {0.5}
    assert placed(3, 2).dilation == 2
    assert placed(8, 2, vcpus=4).dilation == 16


def test_a_small_group_of_a_study_whose_hosts_do_not_all_fit_computes_on_one_core_a_host_too():
    alone, pair = placed(1, 4, vcpus=4, count=4), placed(2, 4, vcpus=4, count=4)
    assert cores_of(alone) == [(0,)]
    assert alone.dilation == pair.dilation == 4  # so that one host and two compare


def test_a_host_that_is_alone_on_its_core_has_no_larger_share_of_it_than_the_others():
    placement = placed(3, 2)
    assert cores_of(placement) == [(0,), (1,), (0,)]
    assert [host.core_share for host in placement.hosts] == [0.5, 0.5, 0.5]


def test_a_group_is_dilated_as_the_largest_one_that_it_is_compared_with():
    alone, four = placed(1, 2, count=4, largest=4), placed(4, 2, count=4, largest=4)
    assert alone.dilation == four.dilation == 2
    assert [host.core_share for host in (*alone.hosts, *four.hosts)] == [0.5] * 5


def test_a_dilation_can_be_asked_for():
    placement = placed(2, 2, dilation=8)
    assert cores_of(placement) == [(0,), (1,)]
    assert placement.dilation == 8
    assert {host.core_share for host in placement.hosts} == {1 / 8}


@pytest.mark.parametrize("dilation", [1.5, 65, 0.5])
def test_a_dilation_that_cannot_be_had_is_refused_with_those_that_can(dilation):
    with pytest.raises(
        ConfigError,
        match=r"cannot be had with 2 hosts of 1 vCPU on 2 cores \(possible are auto, and .* from 1 to 64\)",
    ):
        placed(2, 2, dilation=dilation)


def test_hosts_have_names_and_addresses_of_their_own():
    hosts = placed(3, 4).hosts
    assert [host.name for host in hosts] == ["h1", "h2", "h3"]
    assert [host.address for host in hosts] == ["10.66.0.1", "10.66.0.2", "10.66.0.3"]


def test_a_host_has_the_memory_of_the_study_where_there_is_enough():
    placement = placed(2, 2, memory_gb=7.5)
    assert {host.memory_bytes for host in placement.hosts} == {int(7.5 * GIB)}
    assert not placement.memory_reduced


def test_hosts_share_what_memory_there_is_and_that_is_told():
    placement = placed(4, 4, memory_gb=8, available=8 * GIB)
    assert {host.memory_bytes for host in placement.hosts} == {int(8 * GIB * MEMORY_SHARE / 4)}
    assert placement.memory_reduced


def test_a_servers_own_host_beside_hosts_of_several_workers_is_as_large_as_a_whole_one():
    placement = place(
        5,
        vcpus=1,
        memory_gb=4,
        host_count=6,
        cores=list(range(6)),
        available_memory_bytes=PLENTY,
        last_is=2,
    )
    assert cores_of(placement) == [(0,), (1,), (2,), (3,), (4, 5)]
    assert [host.memory_bytes / GIB for host in placement.hosts] == [4, 4, 4, 4, 8]
    assert [
        host.threads for host in on_nodes(3, vcpus=8, memory_gb=4, workers_per_host=2, last_is=2).hosts
    ] == [
        4,
        4,
        8,
    ]


def test_a_larger_host_has_its_part_of_what_memory_there_is():
    hosts = place(
        3, vcpus=1, memory_gb=8, host_count=4, cores=[0, 1], available_memory_bytes=8 * GIB, last_is=2
    ).hosts
    assert sum(host.memory_bytes for host in hosts) <= 8 * GIB * MEMORY_SHARE
    assert hosts[2].memory_bytes == 2 * hosts[0].memory_bytes


def test_more_hosts_than_there_are_addresses_are_refused():
    assert placed(MOST_HOSTS, 2).hosts[-1].address == "10.66.0.254"
    with pytest.raises(ConfigError, match="at most 254 hosts can be emulated"):
        placed(MOST_HOSTS + 1, 2)
    with pytest.raises(ConfigError, match="at most 254 hosts can be emulated"):
        place_waiting(MOST_HOSTS + 1, cores=[0, 1], available_memory_bytes=PLENTY, dilation=4.0)


def test_a_server_may_hold_as_much_as_this_machine_has_and_workers_a_share_of_it():
    asked = {"cores": [0, 1], "available_memory_bytes": 20 * GIB, "dilation": 4.0}
    *workers, server = (host.memory_bytes for host in place_waiting(7, servers=1, **asked).hosts)
    assert server == int(20 * GIB * MEMORY_SHARE)
    assert len(set(workers)) == 1
    assert workers[0] < server / 2
    alone = {host.memory_bytes for host in place_waiting(2, servers=1, **asked).hosts}
    assert len(alone) == 1  # two hosts have more than that already
