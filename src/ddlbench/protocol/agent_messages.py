"""All messages between a supervisor and the samplers and node agents that work for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddlbench.protocol.fork_messages import Started, StartMember

# ------------------------------------------------------------------------------------------------- to and from samplers


@dataclass(frozen=True)
class Sampling:
    """The name of a run's telemetry, how often its hosts are sampled, and where the samples go.

    Attributes:
        run: the id of the run.
        started: when the session began, ISO 8601.
        hertz: samples a second, in the time of the hosts.
        dilation: of that time.
        vcpus: of a host.
        on_gpus: sample the GPUs too.
        folder: where the Parquet files go.
        log: the file for the sampler's output.
    """

    run: str
    started: str
    hertz: float
    dilation: float
    vcpus: int
    on_gpus: bool
    folder: str
    log: str


@dataclass(frozen=True)
class WatchedHost:
    """A host to be sampled.

    Attributes:
        name: of the host.
        role: of its first process.
        namespace: the path of its network namespace (None: it has none of its own).
        pids: of its processes.
        has_machine: the host is this whole machine, with its network.
        gpu: the UUID of its GPU (None: all GPUs are its own; empty: it has none).
    """

    name: str
    role: str
    namespace: str | None
    pids: Sequence[int]
    has_machine: bool = False
    gpu: str | None = None


@dataclass(frozen=True)
class SamplerJob:
    """What a sampler is started with; clock_s: when the session began (`time.monotonic`)."""

    hosts: Sequence[WatchedHost]
    sampling: Sampling
    clock_s: float


@dataclass(frozen=True)
class BeginSteps:
    """The timed steps of a repetition begin."""

    point: str
    repetition: int


@dataclass(frozen=True)
class EndSteps:
    """The timed steps have ended; a worker has made so many on average."""

    steps: float


@dataclass(frozen=True)
class Edge:
    """The counters of each host at a moment of the session, by host and counter."""

    time_s: float
    hosts: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class TelemetryFile:
    """A part of a run's telemetry."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Edges:
    """The complete files of a repetition's telemetry, and the counters of each host when its steps ended."""

    end: Edge
    files: Sequence[TelemetryFile]


@dataclass(frozen=True)
class Sampled:
    """Telemetry of a repetition's timed steps: its files, when the steps were, and what each host counted in a step."""

    files: Sequence[TelemetryFile]
    begin_s: float
    end_s: float
    hosts: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class SamplingCosts:
    """What sampling has taken: seconds and per cent of one core, passes over the hosts and how long they last."""

    sampler_start_s: float
    sampler_cpu_s: float
    sampler_core_percent: float
    passes: int
    pass_median_ms: float
    pass_longest_ms: float


# ---------------------------------------------------------------------------------------------- to and from node agents


@dataclass(frozen=True)
class Binding:
    """What one of a node's workers has of it: processors, and a GPU's name for CUDA_VISIBLE_DEVICES."""

    cores: tuple[int, ...]
    gpu: str | None


@dataclass(frozen=True, kw_only=True)
class AgentHello:
    """A node agent's first message: what its node is.

    Attributes:
        index: of its task in the srun.
        node: its name.
        interface: over which members communicate.
        address: of that interface.
        cores: that members may use.
        port: the first of those that its members listen at.
        facts: of the node, for the records.
        token: of the control socket.
        bindings: of the node's workers, if there are several.
    """

    index: int
    node: str
    interface: str
    address: str
    cores: Sequence[int]
    port: int
    facts: Mapping[str, object]
    token: str | None = None
    bindings: Sequence[Binding] = ()


@dataclass(frozen=True)
class AgentFailed:
    """A node agent cannot serve; `why` is for a person."""

    node: str
    why: str
    token: str | None = None


@dataclass(frozen=True)
class StartOnNode:
    """Start a member; it must have been started after `within_s` seconds."""

    member: StartMember
    within_s: float


@dataclass(frozen=True)
class KillMember:
    """Kill a member by SIGKILL."""

    pid: int


@dataclass(frozen=True)
class CloseStarter:
    """Start no more members, until `OpenStarter`."""


@dataclass(frozen=True)
class OpenStarter:
    """Be ready to start members in a runtime."""

    runtime: str


@dataclass(frozen=True)
class Watch:
    """Sample the node from now on; now_s: the time of the session. role, pids: of the members there."""

    now_s: float
    role: str
    pids: Sequence[int]
    sampling: Sampling


@dataclass(frozen=True)
class Unwatch:
    """Write what was sampled, and end the sampler."""


@dataclass(frozen=True)
class MemberEnded:
    """A member has ended; its exit status, negative for a signal."""

    pid: int
    status: int


@dataclass(frozen=True)
class Done:
    """The agent has carried out the command; costs: of sampling, when that has ended."""

    costs: SamplingCosts | None = None


@dataclass(frozen=True)
class Failed:
    """The agent could not carry out the command; `why` is for a person."""

    why: str


ToAgent = StartOnNode | KillMember | CloseStarter | OpenStarter | Watch | BeginSteps | EndSteps | Unwatch
AgentReply = Started | Sampled | Done | Failed
FROM_SAMPLER = (Edge, Edges, SamplingCosts)
TO_SAMPLER = (BeginSteps, EndSteps)
TO_AGENT = (StartOnNode, KillMember, CloseStarter, OpenStarter, Watch, BeginSteps, EndSteps, Unwatch)
FROM_AGENT = (AgentHello, AgentFailed, Started, Sampled, Done, Failed, MemberEnded)
