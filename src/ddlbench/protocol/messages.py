"""All messages between a supervisor and the members of its worker group, and to the fork servers that start these.

A supervisor is the process that runs a worker group: the first of a sandbox, or the driver of a SLURM job. Times are in
the unit that their names end in, and are real time, not divided by the dilation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Shape = tuple[int, int, int]  # of an image: height, width, channels


@dataclass(frozen=True)
class GpuShare:
    """A worker's GPU, and the worker's share of its memory.

    Attributes:
        index: its place on the PCI bus among the GPUs of its machine, from 0, as in NVML and CUDA's PCI_BUS_ID.
        uuid: as NVML reports it.
        name: of the product.
        workers: how many workers compute on it, including this one.
        memory_bytes: this worker's share.
    """

    index: int
    uuid: str
    name: str
    workers: int
    memory_bytes: int


@dataclass(frozen=True)
class Hello:
    """A member's first message, once it is connected."""

    rank: int
    pid: int
    token: str | None = None


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What a member is, and in which group: the supervisor's first message.

    Attributes:
        rank: of the member among all members, workers first.
        role: `worker`, or that of a process beside the workers.
        index: its number within its role, from 0.
        world_size: the number of workers.
        threads: how many it computes with.
        address: of its host.
        cluster: `address:port` of each process, by role.
        rendezvous: `address:port` of the first worker.
        timeout_s: for a framework's own waiting.
        devices: `cpu` or `gpu`.
        dilation: of time.
        strategy: how gradients are added up.
        datasets: files by name and image shape (`digits-28x28x1`).
        gpu: None on a CPU, or if a scheduler has chosen the worker's GPU.
        core_share: how much of its host's cores the host gets, 0 to 1.
        workers_per_host: how many share a host and its network card; they fill one host after another.
        server_bytes: how much memory the group's server may use; 0: there is no server.
    """

    rank: int
    role: str
    index: int
    world_size: int
    threads: int
    address: str
    cluster: Mapping[str, Sequence[str]]
    rendezvous: str
    timeout_s: float
    devices: str
    dilation: float
    strategy: str
    datasets: Mapping[str, str]
    gpu: GpuShare | None = None
    core_share: float = 1.0
    workers_per_host: int = 1
    server_bytes: int = 0

    @property
    def local_size(self) -> int:
        """How many workers are on each host of workers."""
        return min(self.workers_per_host, self.world_size)


@dataclass(frozen=True)
class Ready:
    """A member has its assignment and can take commands.

    Attributes:
        versions: of the libraries that it computes with.
        reconnects: `Connect` replaces its connections; else only a new group has new ones.
        slice_ms: how long the scheduler lets it keep a core (None: the kernel does not report it).
    """

    versions: Mapping[str, str]
    reconnects: bool = False
    slice_ms: float | None = None


@dataclass(frozen=True)
class Alive:
    """A member's heartbeat. made_steps: training steps since it began; None: it counts none."""

    made_steps: int | None = None


@dataclass(frozen=True)
class Refused:
    """A member cannot do what its assignment says; `why` is for a person and says what to do."""

    why: str


@dataclass(frozen=True)
class ModelShape:
    """A model of the catalogue, for images of a shape."""

    model: str
    image_shape: Shape


@dataclass(frozen=True)
class StepOfHost:
    """The times of a step on one host that differs from the others; host: its number, from 0."""

    host: int
    forward_ms: float
    backward_ms: Sequence[float]
    optimizer_ms: float


@dataclass(frozen=True)
class ReplayedJitter:
    """A distribution from which each worker draws, for each step, how long the device takes (see `devices.uneven`)."""

    distribution: str
    scale: float
    seed: int
    repetition: int  # each has draws of its own


@dataclass(frozen=True)
class ReplayedStep:
    """The step of a device, which a worker replays, in ms without time dilation.

    Attributes:
        kind: `gpu`, which is replayed by waiting, or `cpu`, by burning CPU time.
        forward_ms: the whole forward pass.
        backward_ms: the time before the gradient of each parameter array is ready, from the last array to the first.
        optimizer_ms: the update of all parameters.
        dilation: of time, where compute is replayed by waiting (None: that of the assignment).
        odd: the hosts on which it takes other times.
        jitter: of each step; None: there is none.
    """

    kind: str
    forward_ms: float
    backward_ms: Sequence[float]
    optimizer_ms: float
    dilation: float | None = None
    odd: Sequence[StepOfHost] = ()
    jitter: ReplayedJitter | None = None


@dataclass(frozen=True)
class TrainingPoint:
    """What a worker must know of a point; batch_size is that of all workers, replay what it does not compute."""

    model: str
    image_shape: Shape
    dataset: str
    batch_size: int
    learning_rate: float
    momentum: float
    replay: ReplayedStep | None = None

    @property
    def key(self) -> tuple[str, Shape]:
        """The model and the shape of its images."""
        return self.model, self.image_shape


@dataclass(frozen=True)
class Connect:
    """Make connections, and these models on them, while the links are open (unshaped).

    dilation: of time, from now on; None: that of the assignment.
    """

    models: Sequence[ModelShape]
    dilation: float | None = None


@dataclass(frozen=True)
class Prepare:
    """Take a point with fresh parameters, and try a step of it without communication."""

    point: TrainingPoint
    seed: int


@dataclass(frozen=True)
class Train:
    """Train some steps, each timed.

    from_fresh: first set everything as the seed determines it. delay_s: each worker begins so much later than the one
    before it.
    """

    steps: int
    from_fresh: bool = False
    delay_s: float = 0.0


@dataclass(frozen=True)
class Conclude:
    """Hash the parameters; one member tests them (`evaluate`) and saves them to a file (`save_to`, .npz)."""

    evaluate: bool
    save_to: str | None = None


@dataclass(frozen=True)
class TimeCollective:
    """Time a collective, `times` in a row. `elements`: float32 numbers, or bytes of a ping-pong's message."""

    collective: str
    elements: int
    times: int


@dataclass(frozen=True)
class Stop:
    """End."""


@dataclass(frozen=True)
class Connected:
    """Connections and models are made."""


@dataclass(frozen=True)
class Prepared:
    """fits: whether a step fits into the member's memory. parameter_count: of the model, if the member has it."""

    fits: bool
    parameter_count: int | None = None


@dataclass(frozen=True)
class Trained:
    """Step times of each worker that this member reports for: itself, all of them, or none.

    The parts of a step are means over the steps, in ms; None: this framework does not report them. made_steps: of all
    workers together, if fast ones have made more than are reported.
    """

    step_times_ms: Sequence[Sequence[float]] = ()
    train_loss: float | None = None
    forward_ms: float | None = None
    backward_ms: float | None = None
    communication_ms: float | None = None
    made_steps: float | None = None


@dataclass(frozen=True)
class TestResult:
    """Mean negative log-likelihood and accuracy over the test images."""

    __test__ = False  # not pytest's

    loss: float
    accuracy_percent: float


@dataclass(frozen=True)
class Concluded:
    """parameters_sha256: of the member's parameters, if it has any. test: the result, if this member has tested."""

    parameters_sha256: str | None = None
    test: TestResult | None = None


@dataclass(frozen=True)
class Timed:
    """seconds: of one collective on this rank, mean over the times. right: whether the last one's result was."""

    seconds: float
    right: bool


Command = Connect | Prepare | Train | Conclude | TimeCollective | Stop
Reply = Connected | Prepared | Trained | Concluded | Timed
FromMember = Hello | Ready | Alive | Refused | Reply
COMMANDS = (Connect, Prepare, Train, Conclude, TimeCollective, Stop)
FROM_MEMBER = (Hello, Ready, Alive, Refused, Connected, Prepared, Trained, Concluded, Timed)
