"""What a starter asks of a fork server, and its answers; workers import this, so it depends on nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StartMember:
    """Fork a member, on its host.

    Attributes:
        rank: of the member.
        control: the address of its control socket.
        host: its name.
        namespace: the path of its host's network namespace (None: the one that the fork server is in).
        cores: that the member may use.
        memory_bytes: that its data may take (RLIMIT_DATA).
        short_slice: whether its threads get the shortest scheduler slice, as on all emulated hosts.
        variables: environment variables of its own, besides those of all members.
        log: the file for its output.
    """

    rank: int
    control: str
    host: str
    namespace: str | None
    cores: Sequence[int]
    memory_bytes: int
    short_slice: bool
    variables: Mapping[str, str]
    log: str


@dataclass(frozen=True, kw_only=True)
class StartFiller:
    """Fork the filler of a host that shares its core (see `workers.common.filler`); it runs at once.

    Attributes:
        host: its name.
        core: that the host shares with others.
    """

    host: str
    core: int


@dataclass(frozen=True)
class Started:
    """The process id of a member, or of a filler."""

    pid: int


Start = StartMember | StartFiller
STARTS = (StartMember, StartFiller)
