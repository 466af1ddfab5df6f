"""The bytes that tell the kernel which forwarded packets to lose and which to queue."""

import struct

import pytest

from ddlbench.network import netfilter


@pytest.mark.parametrize("length", range(9))
def test_an_attribute_tells_its_length_and_is_padded_to_four_bytes(length):
    attribute = netfilter.attribute(7, b"x" * length)
    assert struct.unpack_from("=HH", attribute) == (4 + length, 7)
    assert len(attribute) % 4 == 0
    assert attribute[4:].rstrip(b"\0") == b"x" * length


def test_a_message_tells_its_length_kind_and_family():
    message = netfilter._message(0x0A06, 0x5, b"abcd", family=2, resource=10)
    length, kind, flags = struct.unpack_from("=IHH", message)
    assert length == len(message) == 24
    assert kind == 0x0A06
    assert flags == 0x5
    assert struct.unpack_from("!BBH", message, 16) == (2, 0, 10)


@pytest.mark.parametrize("percent", [0.01, 1, 2, 50, 100])
def test_a_packet_is_lost_where_a_random_number_of_24_bits_is_below_its_share(percent):
    expressions = b"".join(netfilter._lose(percent / 100))
    assert struct.pack("!I", round(percent / 100 * 2**24)) in expressions
    names = [name for name in (b"numgen", b"byteorder", b"cmp", b"immediate") if name in expressions]
    assert len(names) == 4


def test_rules_look_at_the_interface_by_its_whole_name():
    expressions = netfilter._expressions("p1", [])
    assert b"p1".ljust(16, b"\0") in expressions  # so that p1 is not p11


def test_a_packet_goes_to_the_queue_of_its_host():
    assert struct.pack("!H", 3) in netfilter._native_queue(3)
    target = netfilter._target_queue(3)
    assert b"NFQUEUE\0" in target
    assert struct.pack("=H", 3) in target
