"""Loss and queueing of forwarded packets with nf_tables, over netlink.

Neither `nft` nor `iptables` must be installed, and one transaction replaces all rules at once. The formats are those of
the kernel's linux/netfilter/nf_tables.h and nfnetlink.h. (The kernel refuses nf_tables expressions as pyroute2 0.9
encodes them.)
"""

import os
import socket
import struct
from dataclasses import dataclass

NETLINK_NETFILTER = 12
_SUBSYSTEM_NFTABLES = 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEWTABLE, _NEWCHAIN, _NEWRULE, _DELRULE = 0, 3, 6, 8
_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NESTED = 0x8000
_FORWARD_HOOK, _ACCEPT, _DROP = 2, 1, 0
_REGISTER, _VERDICT_REGISTER = 1, 0
_META_INPUT_NAME, _EQUAL, _LESS, _RANDOM, _TO_NETWORK_ORDER = 6, 0, 2, 1, 1
_TABLE, _CHAIN = b"ddlbench\0", b"links\0"
# Loss is decided by a random number below 2^24, fine enough for a millionth.
_RANDOM_RANGE = 1 << 24


@dataclass(frozen=True)
class Rule:
    """What happens to packets that arrive over an interface.

    Attributes:
        interface: its name.
        loss: the share of packets that are dropped, 0 to 1.
        queue: the number of the NFQUEUE that delays the others; None: they are not delayed.
    """

    interface: str
    loss: float = 0.0
    queue: int | None = None


class Forwarding:
    """The rules for forwarded packets in the network namespace in which the object was made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        hook = _nested(4, _number(1, _FORWARD_HOOK) + _number(2, 0))
        chain = (
            attribute(1, _TABLE)
            + attribute(3, _CHAIN)
            + hook
            + _number(5, _ACCEPT)
            + attribute(7, b"filter\0")
        )
        self._commit([(_NEWTABLE, _CREATE, attribute(1, _TABLE)), (_NEWCHAIN, _CREATE, chain)])
        self._queue_expression = _native_queue
        try:
            self.replace([Rule("lo", queue=0)])
        except OSError:
            # A kernel without nft_queue has the older target, which nf_tables can call.
            self._queue_expression = _target_queue
            self.replace([Rule("lo", queue=0)])
        self.replace([])

    def replace(self, rules: list[Rule]) -> None:
        """Replace all rules in one step.

        Args:
            rules: the new ones; an empty list: packets are forwarded without loss or delay.

        Raises:
            OSError: the kernel refused.
        """
        place = attribute(1, _TABLE) + attribute(2, _CHAIN)
        commands = [(_DELRULE, 0, place)]
        for rule in rules:
            if rule.loss > 0:
                commands.append(
                    (_NEWRULE, _CREATE | _APPEND, place + _expressions(rule.interface, _lose(rule.loss)))
                )
            if rule.queue is not None:
                delay = [self._queue_expression(rule.queue)]
                commands.append((_NEWRULE, _CREATE | _APPEND, place + _expressions(rule.interface, delay)))
        self._commit(commands)

    def close(self) -> None:
        """Close the socket; the rules stay until their namespace ends."""
        self._socket.close()

    def _commit(self, commands: list[tuple[int, int, bytes]]) -> None:
        batch = _message(_BATCH_BEGIN, 0, b"", family=0, resource=_SUBSYSTEM_NFTABLES)
        for kind, flags, attributes in commands:
            batch += _message(
                _SUBSYSTEM_NFTABLES << 8 | kind, flags | _ACK, attributes, family=socket.AF_INET
            )
        batch += _message(_BATCH_END, 0, b"", family=0, resource=_SUBSYSTEM_NFTABLES)
        self._socket.send(batch)
        awaited = len(commands)
        failure = 0
        while awaited > 0:
            answers = self._socket.recv(1 << 16)
            while answers:
                length, kind = struct.unpack_from("=IH", answers)
                if kind == 2:  # NLMSG_ERROR, which carries acknowledgements too
                    failure = failure or -struct.unpack_from("=i", answers, 16)[0]
                    awaited -= 1
                answers = answers[(length + 3) & ~3 :]
            if failure:
                self._socket.setblocking(False)
                try:
                    while self._socket.recv(1 << 16):
                        pass
                except BlockingIOError:
                    self._socket.setblocking(True)
                raise OSError(failure, f"nf_tables: {os.strerror(failure)}")


def _message(kind: int, flags: int, attributes: bytes, *, family: int, resource: int = 0) -> bytes:
    body = struct.pack("!BBH", family, 0, resource) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, flags | _REQUEST, 0, 0) + body


def attribute(kind: int, payload: bytes) -> bytes:
    """Encode an attribute of a netlink message.

    Args:
        kind: its number.
        payload: its content.

    Returns:
        The attribute, filled up to whole words.
    """
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("!I", value))


def _nested(kind: int, payload: bytes) -> bytes:
    return attribute(kind | _NESTED, payload)


def _expression(name: str, attributes: bytes) -> bytes:
    return _nested(1, attribute(1, name.encode() + b"\0") + _nested(2, attributes))


def _expressions(interface: str, then: list[bytes]) -> bytes:
    name = interface.encode().ljust(16, b"\0")
    from_interface = [
        _expression("meta", _number(1, _REGISTER) + _number(2, _META_INPUT_NAME)),
        _expression("cmp", _number(1, _REGISTER) + _number(2, _EQUAL) + _nested(3, attribute(1, name))),
    ]
    return _nested(4, b"".join(from_interface + then))


def _lose(probability: float) -> list[bytes]:
    below = struct.pack("!I", round(probability * _RANDOM_RANGE))
    swap = (
        _number(1, _REGISTER)
        + _number(2, _REGISTER)
        + _number(3, _TO_NETWORK_ORDER)
        + _number(4, 4)
        + _number(5, 4)
    )
    drop = _nested(2, _nested(2, _number(1, _DROP)))
    return [
        _expression("numgen", _number(1, _REGISTER) + _number(2, _RANDOM_RANGE) + _number(3, _RANDOM)),
        _expression("byteorder", swap),
        _expression("cmp", _number(1, _REGISTER) + _number(2, _LESS) + _nested(3, attribute(1, below))),
        _expression("immediate", _number(1, _VERDICT_REGISTER) + drop),
    ]


def _native_queue(number: int) -> bytes:
    return _expression("queue", attribute(1, struct.pack("!H", number)) + attribute(2, struct.pack("!H", 1)))


def _target_queue(number: int) -> bytes:
    information = struct.pack("=H", number).ljust(8, b"\0")
    return _expression("target", attribute(1, b"NFQUEUE\0") + _number(2, 0) + attribute(3, information))
