"""What an interface is, told from sysfs; on a made-up node with InfiniBand and RoCE, and on this machine."""

import socket

import pytest
from made_up_sysfs import Sysfs, cluster_node

from ddlbench.network.interfaces import Addresses, described, interfaces, table


@pytest.fixture
def node(tmp_path):
    sys = cluster_node(tmp_path)
    return {each.name: each for each in described(sys.addresses, sys.root)}


def test_every_interface_has_its_kind(node):
    assert {name: each.kind for name, each in node.items()} == {
        "bond0": "ethernet",
        "docker0": "virtual",
        "eno1": "ethernet",
        "ens1f0": "ethernet",
        "ens1f1": "ethernet",
        "ens3np0": "ethernet",
        "ib0": "infiniband",
        "ib1": "infiniband",
        "lo": "loopback",
        "tun0": "virtual",
        "veth1a2b": "virtual",
    }


def test_ethernet_tells_speed_mtu_and_driver(node):
    assert (node["eno1"].speed_mbit, node["eno1"].mtu, node["eno1"].driver) == (1000, 1500, "igb")
    assert (node["bond0"].speed_mbit, node["bond0"].mtu, node["bond0"].driver) == (50000, 9000, "bond")
    assert node["ens1f0"].master == "bond0"


def test_infiniband_has_the_rate_and_the_state_of_its_port(node):
    assert (node["ib0"].speed_mbit, node["ib0"].hca.state) == (100_000, "ACTIVE")
    assert (node["ib1"].state, node["ib1"].hca.state) == ("down", "DOWN")


def test_ipoib_and_roce_find_their_port_of_the_adapter(node):
    found = {name: each.hca.name for name, each in node.items() if each.hca}
    assert found == {"ib0": "mlx5_0:1", "ib1": "mlx5_1:1", "ens3np0": "mlx5_2:1"}
    assert node["ens3np0"].hca.link_layer == "Ethernet"


def test_two_ports_of_one_card_are_told_apart(tmp_path):
    sys = Sysfs(tmp_path)
    card = sys.card("0000:3b:00.0", "mlx4_core")
    sys.interface("ib0", card=card, arphrd=32, dev_id="0x0")
    sys.interface("ib1", card=card, arphrd=32, dev_id="0x1")  # an older driver numbers its ports there
    sys.interface("eth2", card=card, dev_port=2)
    sys.hca("mlx4_0", card)
    sys.hca("mlx4_0", card, port=2, rate="56 Gb/sec (4X FDR)")
    found = {each.name: each.hca and each.hca.name for each in described(sys.addresses, sys.root)}
    assert found == {"eth2": None, "ib0": "mlx4_0:1", "ib1": "mlx4_0:2"}


def test_a_roce_bond_is_found_by_its_ports_addresses(tmp_path):
    sys = Sysfs(tmp_path)
    sys.interface("bond0", "203.0.113.1", devtype="bond")
    sys.interface("eth1", card=sys.card("0000:01:00.0", "mlx5_core"))
    sys.enslave("eth1", "bond0")
    sys.hca("mlx5_bond_0", ethernet=True, ndevs=("bond0",))
    assert {each.name: each.hca and each.hca.name for each in described(sys.addresses, sys.root)} == {
        "bond0": "mlx5_bond_0:1",
        "eth1": None,
    }


def test_a_vlan_of_a_card_is_ethernet_and_one_of_a_bridge_is_not(tmp_path):
    sys = Sysfs(tmp_path)
    sys.interface("eth0", card=sys.card("0000:01:00.0", "igb"))
    sys.interface("br0", devtype="bridge")
    for below in ("eth0", "br0"):
        folder = sys.interface(f"{below}.7", devtype="vlan")
        (folder / f"lower_{below}").symlink_to(sys.root / "class/net" / below)
    kinds = {each.name: each.kind for each in described(sys.addresses, sys.root)}
    assert (kinds["eth0.7"], kinds["br0.7"]) == ("ethernet", "virtual")


def test_a_wireless_card_is_no_ethernet(tmp_path):
    sys = Sysfs(tmp_path)
    (sys.interface("wlan0", card=sys.card("0000:01:00.0", "iwlwifi")) / "wireless").mkdir()
    assert [each.kind for each in described(sys.addresses, sys.root)] == ["wireless"]


def test_sysfs_of_another_network_namespace_is_not_believed(tmp_path):
    sys = cluster_node(tmp_path)
    of_here = {
        "eno1": Addresses("02:ff:ff:ff:ff:ff", ("10.66.0.1",)),
        "eth7": Addresses("02:ff:ff:ff:ff:fe", ()),
    }
    assert [(each.name, each.kind, each.speed_mbit) for each in described(of_here, sys.root)] == [
        ("eno1", "unknown", None),
        ("eth7", "unknown", None),
    ]


def test_this_machine_has_a_loopback_interface_with_its_address_and_no_link_local_ones():
    found = {each.name: each for each in interfaces()}
    assert sorted(found) == sorted(name for _, name in socket.if_nameindex())
    assert found["lo"].kind == "loopback"
    assert "127.0.0.1" in found["lo"].addresses
    assert not [
        each
        for each in found.values()
        for address in each.addresses
        if address.startswith(("169.254.", "fe80"))
    ]


def test_the_table_shows_what_a_person_asks_for(node):
    lines = table([node["ib0"], node["ens1f0"]]).splitlines()
    assert lines[0].split() == ["name", "kind", "speed", "mtu", "driver", "state", "hca", "addresses"]
    assert " ".join(lines[1].split()) == (
        "ib0 infiniband 100 Gbit/s 2044 mlx5_core up mlx5_0:1 InfiniBand ACTIVE 198.51.100.10"
    )
    assert " ".join(lines[2].split()) == "ens1f0 ethernet 25 Gbit/s 1500 ice up, part of bond0 - -"
