"""What a network namespace has counted since it was made: of each interface, and of IP and TCP as a whole.

The kernel's files are opened in the namespace and stay bound to it, so that reading them again takes no detour; what
has been read can be made sense of later.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from typing import NamedTuple

from ddlbench.system.namespaces import entered

_MOST_BYTES = 1 << 16
_ARRIVED = ("InNoECTPkts", "InECT1Pkts", "InECT0Pkts", "InCEPkts")
IP_HEADER_BYTES = 52  # of a segment of TCP: IPv4 20, TCP 20 and its time stamps 12
FRAME_HEADER_BYTES = 14 + IP_HEADER_BYTES


class Traffic(NamedTuple):
    """What an interface has counted; some leave the Ethernet header out of the bytes, in some of their modes."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


class Raw(NamedTuple):
    """The kernel's files as they were read."""

    dev: bytes
    snmp: bytes
    netstat: bytes


class Counted(NamedTuple):
    """What a namespace has counted: by interface, and of TCP in all, without what it has sent to itself.

    Packets are those on a wire, where an interface may count trains of them; bytes are those of whole frames; the
    payload is what segments have carried, acknowledgements none.
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
    """The counters of a namespace (a file descriptor; None: the caller's), to be read as often as one likes."""

    def __init__(self, namespace: int | None) -> None:
        with ExitStack() as on_error, nullcontext() if namespace is None else entered(namespace):
            self._files = []
            for name in Raw._fields:
                self._files.append(os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY | os.O_CLOEXEC))
                on_error.callback(os.close, self._files[-1])
            on_error.pop_all()

    def read(self) -> Raw:
        """What the counters are now."""
        dev, snmp, netstat = self._files
        lines = part = os.pread(dev, _MOST_BYTES, 0)
        while part:  # the kernel gives about a page at a time of a file with a line an interface
            part = os.pread(dev, _MOST_BYTES, len(lines))
            lines += part
        return Raw(lines, os.pread(snmp, _MOST_BYTES, 0), os.pread(netstat, _MOST_BYTES, 0))

    def close(self) -> None:
        """Let go of the namespace."""
        for file in self._files:
            os.close(file)


def parse(raw: Raw) -> Counted:
    """The numbers in what was read."""
    interfaces = dict(_interface(line) for line in raw.dev.splitlines() if b":" in line)
    own = interfaces.get("lo", Traffic(0, 0, 0, 0))
    ip, tcp, more = _row(raw.snmp, b"Ip"), _row(raw.snmp, b"Tcp"), _row(raw.netstat, b"IpExt")
    trains_sent = ip.get("OutTransmits", ip["OutRequests"])  # as Linux has called it since 6.8, and before
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
    """A protocol's numbers by name, of a file with a line of names and a line of numbers each."""
    names, numbers = (line.split()[1:] for line in text.splitlines() if line.startswith(protocol + b":"))
    return {name.decode(): int(number) for name, number in zip(names, numbers, strict=True)}
