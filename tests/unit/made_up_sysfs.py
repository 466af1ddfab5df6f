"""A folder with the files and links that sysfs has on a machine with these cards, as the kernel lays them out.

Cards of ConnectX: `mlx5_N` in class/infiniband beside its interface in class/net, both below one PCI device.
"""

from pathlib import Path

from ddlbench.network.interfaces import Addresses

HARDWARE = "02:00:00:00:00:{:02x}"
INFINIBAND_HARDWARE = "00:00:10:29:fe:80:00:00:00:00:00:00:e8:eb:d3:03:00:aa:bb:{:02x}"
NO_VALUE = None  # the kernel answers EINVAL; here the file is missing


class Sysfs:
    """One made-up /sys, and the addresses that the interfaces in it have."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.addresses: dict[str, Addresses] = {}
        for folder in ("class/net", "class/infiniband", "bus/pci/drivers", "devices/virtual/net"):
            (root / folder).mkdir(parents=True)

    def card(self, slot: str, driver: str) -> Path:
        """A PCI device and its driver."""
        folder = self.root / "devices/pci0000:00" / slot
        folder.mkdir(parents=True)
        (self.root / "bus/pci/drivers" / driver).mkdir(exist_ok=True)
        (folder / "driver").symlink_to(self.root / "bus/pci/drivers" / driver)
        return folder

    def interface(self, name, *addresses, card=None, arphrd=1, speed=NO_VALUE, up=True, devtype="", **files):
        """An interface of a card, or a virtual one."""
        folder = (card / "net" if card else self.root / "devices/virtual/net") / name
        folder.mkdir(parents=True)
        hardware = (INFINIBAND_HARDWARE if arphrd == 32 else HARDWARE).format(len(self.addresses) + 1)
        told = {
            "address": hardware,
            "type": arphrd,
            "speed": speed,
            "mtu": 65536 if arphrd == 772 else 1500,
            "operstate": "unknown" if arphrd == 772 else "up" if up else "down",
            "flags": "0x1003" if up else "0x1002",
            "uevent": (f"DEVTYPE={devtype}\n" if devtype else "") + f"INTERFACE={name}",
            "dev_port": 0,
            "dev_id": "0x0",
        } | files
        for key, value in told.items():
            if value is not NO_VALUE:
                (folder / key).write_text(f"{value}\n")
        if card:
            (folder / "device").symlink_to(card)
        (self.root / "class/net" / name).symlink_to(folder)
        self.addresses[name] = Addresses(hardware, addresses)
        return folder

    def enslave(self, part: str, master: str) -> None:
        """Make an interface a part of a bond or bridge."""
        net = self.root / "class/net"
        (net / part / "master").symlink_to((net / master).resolve())
        (net / master / f"lower_{part}").symlink_to((net / part).resolve())

    def hca(
        self,
        name,
        card=None,
        *,
        rate="100 Gb/sec (4X EDR)",
        state="4: ACTIVE",
        ethernet=False,
        port=1,
        ndevs=(),
    ):
        """A port of an RDMA device."""
        folder = (card / "infiniband" if card else self.root / "devices/virtual/infiniband") / name
        files = folder / "ports" / str(port)
        (files / "gid_attrs/ndevs").mkdir(parents=True)
        (files / "rate").write_text(f"{rate}\n")
        (files / "state").write_text(f"{state}\n")
        (files / "link_layer").write_text("Ethernet\n" if ethernet else "InfiniBand\n")
        for number, netdev in enumerate(ndevs):
            (files / "gid_attrs/ndevs" / str(number)).write_text(f"{netdev}\n")
        if port == 1:
            (self.root / "class/infiniband" / name).symlink_to(folder)
            if card:
                (folder / "device").symlink_to(card)


def cluster_node(root: Path) -> Sysfs:
    """Two InfiniBand cards of which one is connected, RoCE, a bond of two ports of 25 GbE, and 1 GbE."""
    sys = Sysfs(root)
    sys.interface("lo", "127.0.0.1", "::1", arphrd=772)
    sys.interface("eno1", "192.0.2.10", card=sys.card("0000:01:00.0", "igb"), speed=1000)
    first = sys.card("0000:3b:00.0", "mlx5_core")
    sys.interface("ib0", "198.51.100.10", card=first, arphrd=32, mtu=2044)
    sys.hca("mlx5_0", first)
    second = sys.card("0000:5e:00.0", "mlx5_core")
    sys.interface("ib1", card=second, arphrd=32, mtu=2044, up=False)
    sys.hca("mlx5_1", second, rate="10 Gb/sec (4X SDR)", state="1: DOWN")
    for slot, name in (("0000:86:00.0", "ens1f0"), ("0000:86:00.1", "ens1f1")):
        sys.interface(name, card=sys.card(slot, "ice"), speed=25000)
    sys.interface("bond0", "203.0.113.10", speed=50000, devtype="bond", mtu=9000)
    sys.enslave("ens1f0", "bond0")
    sys.enslave("ens1f1", "bond0")
    roce = sys.card("0000:af:00.0", "mlx5_core")
    sys.interface("ens3np0", "203.0.113.99", card=roce, speed=40000)
    sys.hca("mlx5_2", roce, rate="40 Gb/sec (4X QDR)", ethernet=True, ndevs=("ens3np0", "ens3np0"))
    sys.interface("docker0", "172.17.0.1", devtype="bridge")
    sys.interface("veth1a2b")
    sys.enslave("veth1a2b", "docker0")
    sys.interface("tun0", "10.8.0.1", arphrd=65534, speed=10)
    return sys


def node_of_eight_gpus(root: Path) -> Sysfs:
    """Four ports of InfiniBand EDR for the GPUs, of which one has no IPoIB, one of FDR for files, and 10 GbE."""
    sys = Sysfs(root)
    sys.interface("eno1", "192.0.2.10", card=sys.card("0000:01:00.0", "ixgbe"), speed=10000)
    for number, bus in enumerate(("15", "3a", "86", "d8")):
        card = sys.card(f"0000:{bus}:00.0", "mlx5_core")
        if number != 2:
            sys.interface(f"ib{number}", f"198.51.100.{number + 1}", card=card, arphrd=32, mtu=2044)
        sys.hca(f"mlx5_{number}", card)
    files = sys.card("0000:af:00.0", "mlx5_core")
    sys.interface("ib4", "203.0.113.1", card=files, arphrd=32, mtu=2044)
    sys.hca("mlx5_4", files, rate="56 Gb/sec (4X FDR)")
    return sys
