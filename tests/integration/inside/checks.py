"""What is found out about links and interfaces, and what is told of those that are not as they should be."""

import os
import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyroute2.netlink.rtnl import TC_H_ROOT

from ddlbench.errors import DdlbenchError
from ddlbench.network import shaping
from ddlbench.network.fabrics import choose, default_route
from ddlbench.network.interfaces import interfaces
from ddlbench.network.limits import Capacity, LinkRefused, check_delay, forwarded_mbit
from ddlbench.network.link import Link
from ddlbench.network.ports import Port
from ddlbench.network.sites import Sites
from ddlbench.network.star import Star
from ddlbench.network.verify import verify
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.sweep import link_monitor as links_of_a_session
from ddlbench.sweep.link_monitor import Drifted, Links
from ddlbench.system.clock import Clock
from ddlbench.system.namespaces import enter, entered
from inside.star import datagrams, flood, hosts

# On a busy machine a link may be slow, late and lossy; it may not be mistaken for one that is nothing like it.
FORGIVING = Tolerances(
    rate_percent=98, rtt_percent=1, rtt_ms=120, loss_points=15, others_percent=100, share_percent=100
)


def probe(backend: str, made: dict[str, float], asked: dict[str, float]) -> dict[str, Any]:
    """Make one link and have it probed as another."""
    with hosts(backend) as star:
        star.shape(Link(**made))
        try:
            found = verify(star, Link(**asked), FORGIVING)
        except DdlbenchError as error:
            return {"refused": str(error)}
    return {"found": found.as_dict()}


def refused(backend: str, link: dict[str, float], dilation: float = 1.0) -> str | None:
    """What is said of a link that cannot be made; None of one that can."""
    asked = Link(**link)
    with hosts(backend, dilation=dilation) as star:
        star.backend.dilation = dilation
        try:
            check_delay(asked, star.backend)
            Capacity(star).check(asked)
        except LinkRefused as error:
            return str(error)
    return None


def forwarded_in_turn(backend: str) -> dict[str, list[float]]:
    """What is forwarded in short and in long trains, and how many bytes of them each host may send afterwards."""
    with hosts(backend) as star:
        before = _trains(star)
        found = [forwarded_mbit(star, train) for train in (16384, 65536)]
        return {"mbit": found, "trains": [*before, *_trains(star)]}


def _trains(star: Star) -> list[int]:
    return [
        port.netlink.get_links(port.index)[0].get_attr("IFLA_GSO_MAX_SIZE") for port in star.backend.ports
    ]


def drift(backend: str, change: str, recheck_s: float) -> dict[str, Any]:
    """Make a link, look at it again after `change`, and tell what the checks said."""
    asked = Link(20, 100)
    clock = Clock()
    links_of_a_session.COST = 1000.0  # a measurement may follow the other at once
    with hosts(backend) as star:
        links = Links(star, FORGIVING, recheck_s=recheck_s, clock=clock)
        made = links.make(asked)
        unchanged = links.check()
        port = star.backend.ports[0]
        if change == "rate":
            port.netlink.tc(
                "replace", "tbf", index=port.index, handle=0x10000, rate=1e6, burst=65536, limit=10**6
            )
        elif change == "removed":
            port.netlink.tc("del", index=port.index, handle=0x10000, parent=TC_H_ROOT)
        elif change == "removed for what is received":
            assert port.back is not None
            port.back.netlink.tc("del", index=port.back.index, handle=0x10000, parent=TC_H_ROOT)
        elif change == "busy":  # somebody else fills the link, whose queue holds 250 ms
            receiver = datagrams(star, 1)
            for _ in range(12):  # the kernel wakes a sender when half of its 50 ms are sent
                sender = datagrams(star, 0)
                if os.fork() == 0:
                    flood(sender, receiver.getsockname())
            while not _has_dropped(port):
                time.sleep(0.01)
        try:
            time.sleep(min(1.0, 5 * recheck_s))
            found = links.check()
        except Drifted as error:
            return {"made": made, "unchanged": unchanged, "said": str(error)}
    return {"made": made, "unchanged": unchanged, "found": found, "said": None}


def _has_dropped(port: Port) -> bool:
    """Whether a queue of what a host sends was too full for a packet."""
    told = (each.get_attr("TCA_STATS") for each in port.netlink.get_qdiscs(index=port.index))
    return any(each["drop"] > 0 for each in told if each)


def dead_delay(link: dict[str, float]) -> dict[str, Any]:
    """What a link whose delay process was killed carries, and what is said of it."""
    with hosts("tbf+nfqueue") as star:
        star.shape(Link(**link))
        sender, receiver = datagrams(star, 0), datagrams(star, 1)
        receiver.settimeout(60)
        sender.sendto(b"before", receiver.getsockname())
        before = receiver.recv(100)
        assert isinstance(star.backend, shaping.DelayedVerdicts)
        star.backend.process.kill()
        star.backend.process.wait()
        receiver.settimeout(0.5)
        sender.sendto(b"after", receiver.getsockname())
        try:
            after = receiver.recv(100).decode()
        except TimeoutError:
            after = None
        try:
            star.backend.check()
        except DdlbenchError as error:
            return {"before": before.decode(), "after": after, "said": str(error)}
    return {"before": before.decode(), "after": after, "said": None}


def busy(ready: str, sites: int = 1) -> None:
    """Hosts with a process in each, and links with all that they need, until somebody ends it."""
    link = Link(100, 5)
    names = tuple(map(str, range(sites)))
    with hosts(None, sites=sites) as star:
        star.shape(Sites(names, (link,) * sites, (link,) * (sites * (sites - 1))) if sites > 1 else link)
        for namespace in star.namespaces:
            subprocess.Popen(["sleep", "600"], preexec_fn=lambda namespace=namespace: enter(namespace))
        Path(ready).touch()
        signal.pause()


def interfaces_of_a_host(mount_sysfs: bool) -> dict[str, Any]:
    """The interfaces of an emulated host, with its own /sys or the machine's, and what would carry ethernet."""
    with hosts(None) as star, entered(star.namespaces[0]):
        if mount_sysfs:
            subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
        until = time.monotonic() + 60  # the kernel tells of a new link's carrier up to a second late
        while any(each.state == "down" for each in interfaces()) and time.monotonic() < until:
            time.sleep(0.05)
        found = interfaces()
        answers = {}
        for named in (None, "eth0"):
            try:
                answers[str(named)] = choose(
                    "ethernet", found, default_route=default_route(), named=named
                ).name
            except DdlbenchError as error:
                answers[str(named)] = str(error)
    return {"found": {each.name: asdict(each) for each in found}, "chosen": answers}
