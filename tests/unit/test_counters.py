"""What the kernel's files of a network namespace say."""

import os
from pathlib import Path

import pytest

from ddlbench.telemetry.counters import FRAME_HEADER_BYTES, IP_HEADER_BYTES, Counters, Raw, Traffic, parse

DEV = b"""Inter-|   Receive                                       |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:    4973      60    0    0    0     0    0    0     4973      60    0    0    0     0    0    0
  eth0: 9007199254740993   14030    1    2    0     0    0    0 106702795   13697    0    0    0     0    0    0
"""


def files(*, sent=0, sent_payload=0, trains_sent=0, received=0, trains_received=0, again=0, own=0):
    """The files of a host whose interfaces count trains; `own`: what it has sent to itself, 100 bytes a packet."""
    out, back = (IP_HEADER_BYTES * trains for trains in (trains_sent, trains_received))
    dev = DEV.replace(b"4973", b"%d" % (100 * own)).replace(b"  60 ", b"%d " % own)
    snmp = (
        f"Ip: Forwarding InReceives OutRequests OutTransmits\nIp: 1 {trains_received + own} 0 {trains_sent + own}\n"
        f"Icmp: InMsgs\nIcmp: 7\nTcp: MaxConn OutSegs RetransSegs\nTcp: -1 {sent - again + own} {again}\n"
    )
    netstat = (
        "TcpExt: SyncookiesSent\nTcpExt: 0\nIpExt: InOctets OutOctets InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts\n"
        f"IpExt: {back + 100 * own} {out + sent_payload + 100 * own} {received + own - 3} 0 2 1\n"
    )
    return Raw(dev, snmp.encode(), netstat.encode())


def test_each_interface_has_its_own_counters():
    found = parse(files()).interfaces
    assert found["eth0"] == Traffic(9007199254740993, 14030, 106702795, 13697)
    assert list(found) == ["lo", "eth0"]


def test_packets_are_those_on_a_wire_and_bytes_those_of_their_frames():
    found = parse(files(sent=100, sent_payload=140_000, trains_sent=10, received=50, trains_received=50))
    assert (found.sent_packets, found.sent_payload_bytes) == (100, 140_000)
    assert found.sent_bytes == 140_000 + 100 * FRAME_HEADER_BYTES
    assert (found.received_packets, found.received_payload_bytes) == (50, 0)  # acknowledgements
    assert found.received_bytes == 50 * FRAME_HEADER_BYTES


def test_what_was_sent_again_was_sent():
    found = parse(files(sent=100, again=7))
    assert (found.sent_packets, found.tcp_retransmits) == (100, 7)


def test_what_a_host_sends_to_itself_is_not_counted():
    quiet, talking = (parse(files(sent=10, received=20, sent_payload=5, own=own)) for own in (0, 60))
    assert quiet._replace(interfaces={}) == talking._replace(interfaces={})


@pytest.mark.skipif(not os.path.exists("/proc/thread-self/ns/net"), reason="no namespaces here")
def test_the_counters_of_this_namespace_only_grow():
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        counters = Counters(namespace)
    except PermissionError:
        pytest.skip("entering even one's own network namespace needs a privilege")
    finally:
        os.close(namespace)
    before, after = (parse(counters.read()) for _ in range(2))
    counters.close()
    for (
        name,
        traffic,
    ) in before.interfaces.items():  # these are counted as they pass; all else is a difference of files
        assert traffic.rx_packets <= after.interfaces[name].rx_packets
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    assert set(before.interfaces) == {line.split(":")[0].strip() for line in lines}
