"""The variables that a script finds on an emulated host."""

from ddlbench.emulate.variables import host_variables
from ddlbench.network.hosts import place

HOSTS = place(
    2,
    vcpus=1,
    memory_gb=1,
    host_count=2,
    cores=[0, 1],
    available_memory_bytes=8 << 30,
    dilation="auto",
).hosts


def test_nccl_has_nothing_but_the_links():
    found = host_variables(HOSTS, 1, 1.0, inherited={})
    nccl = {name: value for name, value in found.items() if name.startswith("NCCL_")}
    assert nccl == {
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_IB_DISABLE": "1",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_NET": "Socket",
        "NCCL_HOSTID": "h2",
    }


def test_what_the_user_has_set_is_left_as_it_is_unless_the_process_does_not_get_it():
    of_the_user = {"OMP_NUM_THREADS": "7", "PYTHONUNBUFFERED": "", "RANK": "3"}
    found = host_variables(HOSTS, 0, 1.0, inherited=of_the_user)
    assert {"OMP_NUM_THREADS", "PYTHONUNBUFFERED"}.isdisjoint(found)
    assert found["RANK"] == "0"
    in_a_container = host_variables(HOSTS, 0, 1.0, inherited={})
    assert (in_a_container["OMP_NUM_THREADS"], in_a_container["PYTHONUNBUFFERED"]) == ("1", "1")
