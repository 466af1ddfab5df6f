"""Which interface carries a fabric."""

import socket

import pytest
from made_up_sysfs import Sysfs, cluster_node, node_of_eight_gpus

from ddlbench.errors import ConfigError
from ddlbench.network.fabrics import NoInterface, choose, default_route, infiniband_ports, interface_of
from ddlbench.network.hca import Port
from ddlbench.network.interfaces import Interface, described


@pytest.fixture
def node(tmp_path):
    sys = cluster_node(tmp_path)
    return described(sys.addresses, sys.root)


def card(name, speed_mbit=None, address="192.0.2.1", **others):
    return Interface(name, "ethernet", (address,) if address else (), speed_mbit, 1500, "x", "up", **others)


@pytest.mark.parametrize(
    ("fabric", "name"), [("loopback", "lo"), ("ethernet", "bond0"), ("infiniband", "ib0")]
)
def test_each_fabric_gets_its_fastest_interface_whatever_the_default_route(node, fabric, name):
    for order in (node, node[::-1]):
        assert choose(fabric, order, default_route=["eno1"]).name == name


def test_of_equally_fast_ones_the_default_route_decides():
    found = [card("eth0", 1000), card("eth1", 1000)]
    assert choose("ethernet", found, default_route=["eth1"]).name == "eth1"


def test_where_one_does_not_tell_its_speed_the_default_route_decides():
    found = [card("eth0", 1000), card("eth1")]
    assert choose("ethernet", found, default_route=["eth1"]).name == "eth1"
    with pytest.raises(ConfigError, match=r"eth0, eth1 are equally good \(not all tell their speed"):
        choose("ethernet", found)


def test_equally_good_ones_are_an_error_that_lists_them_and_names_the_key():
    found = [card("eth0", 1000), card("eth1", 1000), card("eth2", 100)]
    with pytest.raises(ConfigError) as refused:
        choose("ethernet", found, default_route=["eth2"])
    said = str(refused.value)
    assert "fabric ethernet: eth0, eth1 are equally good (1 Gbit/s" in said
    assert "eth2" not in said
    assert "set interfaces.ethernet in the configuration" in said
    assert choose("ethernet", found, named="eth1").name == "eth1"


@pytest.mark.parametrize(
    "useless",
    [
        card("eth0", address=None),
        card("eth0", address="2001:db8::1"),
        card("eth0", master="bond0"),
        Interface("eth0", "ethernet", ("192.0.2.1",), state="down"),
        Interface("wlan0", "wireless", ("192.0.2.1",), state="up"),
        Interface("docker0", "virtual", ("172.17.0.1",), state="up"),
        Interface("eth0", "unknown", ("192.0.2.1",)),
    ],
)
def test_what_is_down_has_no_address_is_a_part_or_no_card_is_never_chosen_for_ethernet(useless):
    with pytest.raises(NoInterface, match="fabric ethernet: this machine has no interface for it"):
        choose("ethernet", [useless])
    assert choose("ethernet", [useless, card("eth9", 10)]).name == "eth9"


def test_an_absent_fabric_is_an_error_that_lists_what_there_is(node):
    with pytest.raises(NoInterface) as refused:
        choose("infiniband", [each for each in node if each.name != "ib0"])
    lines = [line.split() for line in str(refused.value).splitlines()]
    assert ["eno1", "ethernet", "1", "Gbit/s", "1500", "igb", "up", "-", "192.0.2.10"] in lines
    assert any(line[:2] == ["ib1", "infiniband"] and "DOWN" in line for line in lines)


def test_roce_is_ethernet_and_no_infiniband(node):
    with pytest.raises(NoInterface):
        choose("infiniband", [each for each in node if each.name == "ens3np0"])


def test_a_virtual_interface_is_taken_for_ethernet_if_it_is_named(node):
    assert choose("ethernet", node, named="docker0").name == "docker0"


@pytest.mark.parametrize(
    ("fabric", "named", "said"),
    [
        (
            "ethernet",
            "eno2",
            r"interfaces.ethernet of the configuration: 'eno2' is no interface .* \(did you mean 'eno1'",
        ),
        ("ethernet", "ib0", "'ib0' is infiniband; results over it would be called ethernet"),
        ("infiniband", "bond0", "'bond0' is ethernet; results over it would be called infiniband"),
        ("infiniband", "ib1", "'ib1' is down"),
        ("ethernet", "ens1f0", "'ens1f0' is a part of bond0, which is what can be named"),
        ("ethernet", "veth1a2b", "'veth1a2b' is a part of docker0"),
    ],
)
def test_a_name_that_will_not_do_is_refused_in_words(node, fabric, named, said):
    with pytest.raises(ConfigError, match=said):
        choose(fabric, node, named=named)


def test_a_named_interface_without_an_ipv4_address_is_refused_with_what_to_do():
    with pytest.raises(ConfigError, match=r"'eth0' has no IPv4 address, .*: give it one, or name another"):
        choose("ethernet", [card("eth0", address="2001:db8::1")], named="eth0")


def test_infiniband_without_an_active_port_is_refused(tmp_path):
    sys = Sysfs(tmp_path)
    card = sys.card("0000:3b:00.0", "mlx5_core")
    sys.interface("ib0", "198.51.100.1", card=card, arphrd=32)
    sys.hca("mlx5_0", card, state="2: INIT")
    with pytest.raises(ConfigError, match="'ib0' lies on a port that is INIT"):
        choose("infiniband", described(sys.addresses, sys.root), named="ib0")


def test_nccl_gets_every_port_of_the_rate_that_the_first_interface_has(tmp_path):
    sys = node_of_eight_gpus(tmp_path)
    chosen = choose("infiniband", described(sys.addresses, sys.root)[::-1])
    assert chosen.name == "ib0"
    alike = ("mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1")
    assert infiniband_ports(chosen, {"infiniband": None}, sys.root) == alike


def test_nccl_gets_one_port_where_its_interface_was_named(tmp_path):
    sys = node_of_eight_gpus(tmp_path)
    chosen = choose("infiniband", described(sys.addresses, sys.root), named="ib3")
    assert infiniband_ports(chosen, {"infiniband": "ib3"}, sys.root) == ("mlx5_3:1",)


def test_nccl_gets_no_port_that_is_down_and_none_for_ethernet(node, tmp_path):
    by_name = {each.name: each for each in node}
    assert infiniband_ports(by_name["ib0"], {}, tmp_path) == ("mlx5_0:1",)
    assert infiniband_ports(by_name["ens3np0"], {}, tmp_path) == ()


def test_interfaces_that_do_not_tell_their_rate_are_still_equally_good():
    found = [
        Interface(
            name,
            "infiniband",
            ("192.0.2.1",),
            state="up",
            hca=Port(name, 1, "InfiniBand", None, "ACTIVE", ()),
        )
        for name in ("ib0", "ib1")
    ]
    with pytest.raises(ConfigError, match=r"ib0, ib1 are equally good .*(?s:.*)set interfaces.infiniband"):
        choose("infiniband", found)


def test_this_machine_and_an_emulated_host_have_theirs():
    assert interface_of("loopback", {}).name == "lo"
    assert interface_of("emulated", {"ethernet": "eth7"}).name == "eth0"


def test_a_default_route_of_this_machine_leads_to_an_interface_that_it_has():
    assert default_route() <= {name for _, name in socket.if_nameindex()}
