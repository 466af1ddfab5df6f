"""The protocol: what is sent arrives as it was, and what is no message is refused in words."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlbench.protocol import agent_messages, messages
from ddlbench.protocol.channel import Closed, LineChannel, Silent
from ddlbench.protocol.codec import Malformed, decode, encode, read, read_text, written
from ddlbench.protocol.messages import (
    COMMANDS,
    FROM_MEMBER,
    Alive,
    Connect,
    GpuShare,
    ModelShape,
    Prepare,
    Ready,
    Train,
    Trained,
    TrainingPoint,
)
from ddlbench.system.package import package_root

POINT = TrainingPoint("mlp", (28, 28, 1), "digits", 64, 0.05, 0.9)
SENT = [
    Connect([ModelShape("mlp", (28, 28, 1)), ModelShape("conv1", (8, 8, 3))]),
    Prepare(POINT, 7),
    Train(3, from_fresh=True),
    Ready({"torch": "2.13"}, True, None),
    Trained([[1.5, 2.0], []], 0.25, None, 1.0, None),
    Alive(),
]


@pytest.mark.parametrize("message", SENT, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message):
    assert decode(encode(message), (*COMMANDS, *FROM_MEMBER)) == message


@given(
    st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False))),
    st.none() | st.floats(allow_nan=False),
)
def test_step_times_arrive_to_the_last_bit(times, loss):
    sent = Trained(times, loss)
    assert decode(encode(sent), (Trained,)) == sent


@dataclass(frozen=True)
class Everything:
    """A field of each type that the protocol has."""

    name: str
    count: int
    share: float
    on: bool
    gpu: GpuShare | None
    devices: Literal["cpu", "gpu"]
    times_s: dict[int, list[float]]
    place: tuple[str, int]
    facts: object = None


GOOD = {
    "name": "h1",
    "count": 2,
    "share": 1,
    "on": True,
    "gpu": None,
    "devices": "cpu",
    "times_s": {"64": [1, 2.5]},
    "place": ["a", 1],
}


def test_a_file_gives_back_what_was_written():
    found = read(Everything, GOOD)
    assert found.times_s == {64: [1.0, 2.5]}
    assert found.place == ("a", 1)
    assert read_text(Everything, written(found)) == found


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"count": "2"}, "Everything.count: expected int, not '2'"),
        ({"count": True}, "Everything.count: expected int, not True"),
        ({"share": None}, "Everything.share: expected float, not None"),
        ({"on": 1}, "Everything.on: expected bool, not 1"),
        ({"devices": "tpu"}, "Everything.devices: expected 'cpu' or 'gpu', not 'tpu'"),
        ({"gpu": {"index": 0}}, "Everything.gpu: uuid, name, workers, memory_bytes is missing"),
        ({"times_s": {"64": ["x"]}}, "Everything.times_s.64[0]: expected float, not 'x'"),
        ({"place": ["a"]}, "Everything.place: expected 2 values, not ['a']"),
        ({"more": 1}, "Everything: unknown more"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else None,
)
def test_what_does_not_fit_is_named_with_its_place(change, error):
    with pytest.raises(Malformed) as caught:
        read(Everything, GOOD | change)
    assert str(caught.value) == error


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"[" * 100_000, b"3", b'{"kind": "Exec"}', b"\xff\xfe"])
def test_what_is_no_message_is_refused(line):
    with pytest.raises(Malformed):
        decode(line, COMMANDS)


def test_no_two_messages_have_one_name():
    kinds = [*COMMANDS, *FROM_MEMBER, *agent_messages.TO_AGENT, *agent_messages.FROM_AGENT]
    named: dict[str, type] = {}
    for kind in kinds:
        assert named.setdefault(kind.__name__, kind) is kind


def test_the_protocol_needs_the_standard_library_alone():
    code = (
        "import sys; from ddlbench.protocol import agent_messages, channel, codec; "
        "print(sorted({each.partition('.')[0] for each in sys.modules} - sys.stdlib_module_names))"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": package_root()}, capture_output=True, text=True
    )
    assert answer.stdout == "['__main__', 'ddlbench']\n", answer.stderr


def ends() -> "tuple[LineChannel[messages.Command], LineChannel[messages.Command]]":
    one, other = socket.socketpair()
    return LineChannel(one, kinds=COMMANDS), LineChannel(other, kinds=COMMANDS)


def test_messages_come_in_order_however_they_are_cut():
    one, other = socket.socketpair()
    channel: LineChannel[messages.Command] = LineChannel(other, kinds=COMMANDS)
    sent = b"".join(encode(Train(step)) for step in range(3))
    for byte in sent[:-1]:
        one.sendall(bytes([byte]))
    assert [channel.receive(60), channel.receive(60)] == [Train(0), Train(1)]
    assert channel.arrived() == []
    one.sendall(sent[-1:])
    assert channel.arrived(60) == [Train(2)]


def test_who_has_gone_is_told_from_who_is_silent():
    one, other = ends()
    with pytest.raises(Silent):
        other.receive(0.05)
    one.send(Train(1))
    one.close()
    assert other.receive(60) == Train(1)
    with pytest.raises(Closed):
        other.receive(60)
    with pytest.raises(Closed):
        other.arrived()


def test_what_the_peer_does_not_read_is_not_waited_for_without_end():
    one, other = ends()
    long = Connect([ModelShape("m" * (1 << 24), (1, 1, 1))])
    with pytest.raises(Silent):
        one.send(long, limit_s=0.2)
    other.close()


def test_what_is_offered_is_left_while_the_peer_does_not_read_and_sent_when_it_has():
    one, other = ends()
    offered = [one.offer(Train(number)) for number in range(10_000)]
    taken = sum(offered)
    assert offered == [True] * taken + [False] * (10_000 - taken)
    assert other.arrived() == [Train(number) for number in range(taken)]
    assert one.offer(Train(taken))
    assert other.receive(60) == Train(taken)
    other.close()
    with pytest.raises(Closed):
        one.offer(Train(0))


def test_a_pair_of_pipes_is_a_channel_too():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as incoming, os.fdopen(writing, "wb") as outgoing:
        channel: LineChannel[messages.Command] = LineChannel(incoming, outgoing, kinds=COMMANDS)
        channel.send(Prepare(POINT, 7))
        assert channel.receive(60) == Prepare(POINT, 7)


def test_a_line_without_end_is_no_message():
    one, other = socket.socketpair()
    channel: LineChannel[messages.Command] = LineChannel(other, kinds=COMMANDS, longest_bytes=1000)
    one.sendall(b"x" * 2000)
    with pytest.raises(Malformed, match="longer than 1000 bytes"):
        channel.receive(60)
