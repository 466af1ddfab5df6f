"""The counters of a network namespace since it was made: of each interface, and of IP and TCP as a whole.

The kernel's files are opened once in the namespace and stay bound to it, so that they can be read again from anywhere.
What was read can be parsed later.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from typing import NamedTuple

from ddlbench.system.namespaces import entered

_MOST_BYTES = 1 << 16
_ARRIVED = ("InNoECTPkts", "InECT1Pkts", "InECT0Pkts", "InCEPkts")
IP_HEADER_BYTES = 52  # of a TCP segment: IPv4 20, TCP 20 and its time stamps 12
FRAME_HEADER_BYTES = 14 + IP_HEADER_BYTES


class Traffic(NamedTuple):
    """The counters of an interface. Some drivers leave the Ethernet header out of the bytes, in some of their modes."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


class Raw(NamedTuple):
    """The contents of the kernel's files in /proc/net."""

    dev: bytes
    snmp: bytes
    netstat: bytes


class Counted(NamedTuple):
    """The counters of a namespace: of each interface, and of all TCP traffic without the loopback interface.

    Packets are those on the wire, while an interface may count a train of packets as one. Bytes are those of whole
    frames. Payload is the data in TCP segments; acknowledgements have none.
    """

    interfaces: Mapping[str, Traffic]
    sent_packets: int
    sent_bytes: int
    sent_payload_bytes: int
    received_packets: int
    received_bytes: int
    received_payload_bytes: int
    tcp_retransmits: int


class Counters:
    """The counters of a network namespace, which can be read any number of times.

    Args:
        namespace: a file descriptor of it; None: the caller's own.
    """

    def __init__(self, namespace: int | None) -> None:
        with ExitStack() as on_error, nullcontext() if namespace is None else entered(namespace):
            self._files = []
            for name in Raw._fields:
                self._files.append(os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY | os.O_CLOEXEC))
                on_error.callback(os.close, self._files[-1])
            on_error.pop_all()

    def read(self) -> Raw:
        """Read the counters; `parse` interprets them."""
        dev, snmp, netstat = self._files
        lines = part = os.pread(dev, _MOST_BYTES, 0)
        while part:  # of a file with a line for each interface, one read returns about a page
            part = os.pread(dev, _MOST_BYTES, len(lines))
            lines += part
        return Raw(lines, os.pread(snmp, _MOST_BYTES, 0), os.pread(netstat, _MOST_BYTES, 0))

    def close(self) -> None:
        """Close the files, so that the namespace may end."""
        for file in self._files:
            os.close(file)


def parse(raw: Raw) -> Counted:
    """Interpret the contents of the kernel's files.

    Args:
        raw: what `Counters.read` returned.

    Returns:
        The counters since the namespace was made.
    """
    interfaces = dict(_interface(line) for line in raw.dev.splitlines() if b":" in line)
    own = interfaces.get("lo", Traffic(0, 0, 0, 0))
    ip, tcp, more = _row(raw.snmp, b"Ip"), _row(raw.snmp, b"Tcp"), _row(raw.netstat, b"IpExt")
    trains_sent = ip.get("OutTransmits", ip["OutRequests"])  # its name since Linux 6.8, and before
    sent_payload = more["OutOctets"] - own.tx_bytes - IP_HEADER_BYTES * (trains_sent - own.tx_packets)
    received_payload = more["InOctets"] - own.rx_bytes - IP_HEADER_BYTES * (ip["InReceives"] - own.rx_packets)
    sent = tcp["OutSegs"] + tcp["RetransSegs"] - own.tx_packets
    received = sum(more[name] for name in _ARRIVED) - own.rx_packets
    return Counted(
        interfaces=interfaces,
        sent_packets=sent,
        sent_bytes=sent_payload + FRAME_HEADER_BYTES * sent,
        sent_payload_bytes=sent_payload,
        received_packets=received,
        received_bytes=received_payload + FRAME_HEADER_BYTES * received,
        received_payload_bytes=received_payload,
        tcp_retransmits=tcp["RetransSegs"],
    )


def _interface(line: bytes) -> tuple[str, Traffic]:
    name, _, numbers = line.partition(b":")
    counted = [int(number) for number in numbers.split()]
    return name.strip().decode(), Traffic(*counted[0:2], *counted[8:10])


def _row(text: bytes, protocol: bytes) -> dict[str, int]:
    """Return a protocol's counters by name; the file has a line of names and a line of numbers for each protocol."""
    names, numbers = (line.split()[1:] for line in text.splitlines() if line.startswith(protocol + b":"))
    return {name.decode(): int(number) for name, number in zip(names, numbers, strict=True)}
