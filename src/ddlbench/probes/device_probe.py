"""UCX's and RDMA's own benchmarks between this machine and another that answers, over a device that both have.

Devices have the names that `ddlbench interfaces` lists: `tcp/eth0` or `rc_mlx5/mlx5_0:1` for UCX, `mlx5_0:1` for verbs.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

from ddlbench.errors import ConfigError, nearest
from ddlbench.probes import perftest, ucx
from ddlbench.probes.exchange import ExchangeFailed, Side, ask, serve
from ddlbench.probes.transports import transports
from ddlbench.probes.ucx_probe import repeated, sizes

TRANSPORTS = ("ucx", "verbs")
_REPETITIONS = 3
_ITERATIONS = 1000  # of a size, as perftest's own default

Curves = dict[str, Mapping[int, Sequence[float]]]


def device_of(transport: str, asked: str | None) -> str:
    """Choose the device to measure over.

    Args:
        transport: one of TRANSPORTS.
        asked: the device's name on the command line; None: the only one that this machine has.

    Returns:
        The device's name.

    Raises:
        ConfigError: the transport is not available, the device does not exist, or there are several and none is named.
    """
    (found,) = [each for each in transports() if each.name == transport]
    if not found.available:
        raise ConfigError(f"transport {transport}: {found.reason}")
    here = ", ".join(found.devices)
    if asked is None and len(found.devices) > 1:
        raise ConfigError(f"transport {transport}: --device is needed; this machine has {here}")
    if asked is not None and asked not in found.devices:
        hint = nearest(asked, found.devices)
        raise ConfigError(f"--device {asked}: {transport} does not find it{hint}; this machine has {here}")
    return asked or found.devices[0]


def answer(transport: str, device: str, port: int, *, timeout_s: float) -> None:
    """Run the servers that the other machine's programs connect to, until none has come for `timeout_s`.

    Args:
        transport: one of TRANSPORTS.
        device: the device's name, as `device_of` returns it.
        port: the TCP port at which the servers listen.
        timeout_s: how long a server waits for its client, in s.

    Raises:
        ExchangeFailed: a server fails or is not installed, or nobody has come at all.
    """
    serve(_servers(transport, device, port), timeout_s=timeout_s)


def _servers(transport: str, device: str, port: int) -> Iterable[Side]:
    if transport == "ucx":
        return repeat(Side(ucx.server_argv(port), ucx.variables(*device.split("/", 1))))
    return [
        Side(perftest.server_argv(program, port, rdma_port=device, iterations=_ITERATIONS), {})
        for program in perftest.PROGRAMS
    ]


def probe(
    transport: str, device: str, host: str, port: int, *, largest_bytes: int, timeout_s: float
) -> tuple[Curves, Curves, str | None]:
    """Measure to the host that answers.

    Args:
        transport: one of TRANSPORTS.
        device: the device's name, as `device_of` returns it.
        host: the address of the machine that answers.
        port: the TCP port at which its servers listen.
        largest_bytes: UCX's largest message, in bytes; perftest always measures all sizes from 2 bytes to 8 MiB.
        timeout_s: how long a program may run, in s.

    Returns:
        One-way times in s by program and size in bytes, throughputs of streams in 10^6 bit/s by program and size, and
        what went wrong (None: nothing); what was measured before that is kept.
    """
    if transport == "verbs":
        return _verbs(device, host, port, timeout_s)
    variables = ucx.variables(*device.split("/", 1))

    def tested(test: str, size_bytes: int, trips: int) -> str:
        argv = ucx.client_argv(host, port, test=test, size_bytes=size_bytes, iterations=trips)
        return ask(Side(argv, variables), timeout_s=timeout_s)

    found = repeated(tested, _REPETITIONS, sizes(largest_bytes))
    return {ucx.LATENCY: found.times_s}, {ucx.STREAM: found.throughput_mbit}, found.vanished


def _verbs(device: str, host: str, port: int, timeout_s: float) -> tuple[Curves, Curves, str | None]:
    """Run both of perftest's programs, each of which measures all sizes from 2 bytes to 8 MiB."""

    def report(program: str) -> str:
        argv = perftest.client_argv(program, port, host, rdma_port=device, iterations=_ITERATIONS)
        return ask(Side(argv, {}), timeout_s=timeout_s)

    times_s: Curves = {}
    streams: Curves = {}
    try:
        times_s[perftest.LATENCY] = perftest.one_way_s(report(perftest.LATENCY))
        streams[perftest.BANDWIDTH] = perftest.throughput_mbit(report(perftest.BANDWIDTH))
    except (ExchangeFailed, ValueError) as error:
        return times_s, streams, str(error)
    return times_s, streams, None
