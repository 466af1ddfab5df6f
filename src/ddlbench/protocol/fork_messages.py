"""What a starter asks of a fork server, and its answers; workers import this, so it depends on nothing.

`control_group` is the folder of a CPU control group for all processes of the host, where the kernel does not divide a
core between sessions; None: the host's session is enough. The first message for a host decides.
"""

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
        control_group: of its host.
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
    control_group: str | None = None


@dataclass(frozen=True, kw_only=True)
class StartFiller:
    """Fork the filler of a host that shares its core (see `workers.common.filler`); it runs at once.

    Attributes:
        host: its name.
        core: that the host shares with others.
        control_group: of its host.
    """

    host: str
    core: int
    control_group: str | None = None


@dataclass(frozen=True, kw_only=True)
class StartSpinner:
    """Fork a process that computes on a host, to see how much of its core the host gets; it runs at once.

    Attributes:
        host: its name.
        core: that it computes on.
        burst_ms: CPU time after which it rests.
        rest_ms: how long it rests, on average; 0: not at all.
        control_group: of its host.
    """

    host: str
    core: int
    burst_ms: float = 1.0
    rest_ms: float = 0.0
    control_group: str | None = None


@dataclass(frozen=True)
class Started:
    """The process id of a member, of a filler or of a spinner."""

    pid: int


Start = StartMember | StartFiller | StartSpinner
STARTS = (StartMember, StartFiller, StartSpinner)
