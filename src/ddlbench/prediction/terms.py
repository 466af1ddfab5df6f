"""The parts that the time of a step is made of, each as an amount that a non-negative coefficient multiplies.

anwar2021's eq. 5 is o / x_n + l r: operations by power, and latency times messages. Here o / x_n is `compute`,
`storing` and `undivided`, l r is `trips`, `crossing` and `messages`; the rest is what the cost models of ring
all-reduce and of parameter servers add: bytes on the busiest link by its rate, and what is sent again after a loss.
Replayed compute is known, and bytes that pass meanwhile take no time of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ddlbench.prediction.cell import Cell
from ddlbench.prediction.workload import workload
from ddlbench.protocol.tcp import RTO_MIN_MS
from ddlbench.workers.strategies import STRATEGIES

SEGMENT_BYTES = 1448  # of data in a TCP segment on Ethernet
UNLIMITED_MBIT = (
    10_000.0  # stands for the rate of links without a limit; the coefficient of these is their own
)
BACKWARD_SHARE = 2 / 3  # of compute: a backward pass has two multiplications for each of the forward pass
SENT_AFTERWARDS = ("tensorflow/ring_allreduce",)  # it sends no gradient before all are there
UNLIMITED = "/unlimited"  # in the owners of wires whose rate nothing limits
GRADIENT_SHARE = {"ring_allreduce_fp16": 0.5, "ring_allreduce_powersgd": 0.05}

# Which parts of a step a kind of term belongs to; each part has an uncertainty of its own.
PARTS = {
    "compute": "compute",
    "storing": "compute",
    "undivided": "compute",
    "fixed": "overhead",
    "joining": "overhead",
    "wire": "wire",
    "trips": "latency",
    "crossing": "latency",
    "messages": "latency",
    "slowed": "loss",
    "tails": "loss",
    "again": "loss",
}


@dataclass(frozen=True)
class Term:
    """A part of a step's time.

    Attributes:
        kind: a key of PARTS.
        owner: those with the same owner have the same coefficient.
        parent: coefficients with the same parent are alike, and an owner that was never measured has its parent's.
        amount: in ms for a coefficient of 1 (compute: in 10^9 multiplications, or numbers that layers put out).
    """

    kind: str
    owner: str
    parent: str
    amount: float

    @property
    def part(self) -> str:
        """The part of a step that it belongs to."""
        return PARTS[self.kind]


def sent_bytes(cell: Cell) -> float:
    """Count what the busiest host of a step sends.

    Args:
        cell: any.

    Returns:
        Bytes: 2(N-1)/N of the model for a ring of N workers, one model for each remote worker of a server.
    """
    size = workload(cell.model, cell.image_shape).parameter_bytes * GRADIENT_SHARE.get(cell.strategy, 1.0)
    if not cell.has_server:
        return 2 * (cell.workers - 1) / cell.workers * size
    is_beside_a_worker = cell.hosts <= cell.workers
    return size * (cell.workers - 1 if is_beside_a_worker else cell.workers)


def total_sent_bytes(cell: Cell) -> float:
    """Count what all hosts of a step send.

    Args:
        cell: any.

    Returns:
        Bytes: what each worker of a ring sends; with a server, what it sends and as much that it gets.
    """
    return sent_bytes(cell) * (2 if cell.has_server else cell.workers)


def trips(cell: Cell) -> float:
    """Count messages of a step that wait for each other.

    Args:
        cell: any.

    Returns:
        2(N-1) for a ring of N workers; 2 (push and pull) for a server.
    """
    if cell.is_alone:
        return 0.0
    return 2.0 if cell.has_server else 2.0 * (cell.workers - 1)


def terms(cell: Cell, replayed_ms: float | None = None) -> Iterator[Term]:
    """List the parts of a step.

    Args:
        cell: any.
        replayed_ms: what a worker computes, where that is replayed by waiting: it is no term, as nothing of it is
            unknown. None: compute is real.

    Yields:
        Terms with an amount above zero.
    """
    local = _local(cell) if replayed_ms is None else ()
    for kind, owner, parent, amount in (*local, *_remote(cell, replayed_ms)):
        if amount > 0:
            yield Term(kind, owner, parent, amount)


def _local(cell: Cell) -> Iterator[tuple[str, str, str, float]]:
    counted, images = workload(cell.model, cell.image_shape), cell.batch_size / cell.processors
    yield "compute", cell.training, cell.machine, images / cell.workers * counted.giga_multiplications
    yield "storing", cell.machine, "", images / cell.workers * counted.giga_outputs
    yield "undivided", cell.machine, "", images * counted.giga_multiplications
    yield "fixed", cell.training, cell.machine, 1.0


def _remote(cell: Cell, replayed_ms: float | None) -> Iterator[tuple[str, str, str, float]]:
    if cell.is_alone:
        return
    sent, latency_ms, lost = sent_bytes(cell), cell.latency_ms, cell.loss_percent / 100
    packets = sent / SEGMENT_BYTES
    wire_ms = sent * 8e-3 / (cell.bandwidth_mbit or UNLIMITED_MBIT)
    kind = "server" if cell.has_server else "ring"
    is_known = cell.strategy in STRATEGIES
    if cell.has_server and STRATEGIES[cell.strategy].is_synchronous:
        wire_ms *= 2  # the server gets all gradients before it sends parameters
    limit = "" if cell.bandwidth_mbit else UNLIMITED
    if replayed_ms is not None:
        limit += "/replayed"  # a byte takes no CPU time from a device that computes
        if not cell.has_server and cell.system not in SENT_AFTERWARDS:
            wire_ms = max(0.0, wire_ms - BACKWARD_SHARE * replayed_ms)
    yield "joining", cell.system, kind, 1.0
    yield "wire", cell.system + limit, kind + limit, wire_ms
    yield "trips", cell.system, kind, trips(cell) * latency_ms
    yield "crossing", cell.system, kind, latency_ms
    if not cell.model or not is_known:  # how many messages a batch makes is known of our own trainings: none
        yield "messages", cell.system, kind, latency_ms * cell.batch_size * (cell.workers - 1) / cell.workers
    # Mathis 1997: the rate falls with the root of the loss.
    yield "slowed", kind, "", packets * lost**0.5 * 2 * latency_ms
    # After a lost end of what is sent at once a probe tells of it soon (RFC 8985, section 7). If that is lost too, or a
    # packet is lost again (Padhye 1998), a time-out comes. Whichever host waits, all wait for that host.
    yield "tails", kind, "", trips(cell) * cell.workers * lost**2 * RTO_MIN_MS
    of_all = total_sent_bytes(cell) / SEGMENT_BYTES
    yield "again", kind, "", of_all * lost**2 * RTO_MIN_MS
