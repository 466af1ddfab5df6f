"""Interfaces as processes on an emulated host see them."""


def test_an_emulated_host_has_a_virtual_interface_that_ethernet_must_not_mean_unless_it_is_named(sandbox):
    answer = sandbox("interfaces_of_a_host", mount_sysfs=True)
    eth0 = answer["found"]["eth0"]
    assert set(answer["found"]) == {"lo", "eth0"}
    assert (eth0["kind"], eth0["mtu"], eth0["addresses"]) == ("virtual", 1500, ["10.66.0.1"])
    assert answer["chosen"]["None"].startswith("fabric ethernet: this machine has no interface for it")
    assert answer["chosen"]["eth0"] == "eth0"


def test_the_machines_own_eth0_is_not_taken_for_a_hosts(sandbox):
    eth0 = sandbox("interfaces_of_a_host", mount_sysfs=False)["found"]["eth0"]
    assert (eth0["kind"], eth0["driver"], eth0["addresses"]) == ("unknown", None, ["10.66.0.1"])
