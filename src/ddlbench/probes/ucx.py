"""UCX's own benchmark, `ucx_perftest`: how it is called, what it says, and which networks UCX finds here.

Over TCP it is what UCX makes of sockets, with a handshake before large messages (rendezvous): on a link with latency
these take longer than plain TCP's.
"""

import re

PROGRAM, INFORMATION = "ucx_perftest", "ucx_info"
PACKAGE = "ucx-utils"
LATENCY, STREAM = "tag_lat", "tag_bw"
_MIB_TO_MBIT = 8 * 2**20 / 1e6
_MICROSECOND = 1e-6


def server_argv(port: int) -> list[str]:
    """The argv that waits for one client, which says what to measure."""
    return [PROGRAM, "-p", str(port)]


def client_argv(address: str, port: int, *, test: str, size_bytes: int, iterations: int) -> list[str]:
    """The argv that measures with the server at `address`; `test` is LATENCY or STREAM. A tenth more are a warm-up."""
    counts = ["-n", str(iterations), "-w", str(max(2, iterations // 10))]
    return [PROGRAM, address, "-p", str(port), "-t", test, "-s", str(size_bytes), *counts, "-f", "-v"]


def variables(transports: str, device: str) -> dict[str, str]:
    """What keeps UCX on one network: its transports (`tcp`; `rc` for RDMA) and the device (`eth0`, `mlx5_0:1`)."""
    return {"UCX_TLS": transports, "UCX_NET_DEVICES": device}


def one_way_s(report: str) -> float:
    """Median one-way time in seconds of a LATENCY test, of its CSV (`-f -v`). Raises ValueError for anything else.

    Not the mean of all (`overall_lat`): over few trips it is short by up to one of them, 1.84 ms on a link of 2 ms.
    """
    return _value(report, "50.0_percentile_lat") * _MICROSECOND


def throughput_mbit(report: str) -> float:
    """Throughput in 10^6 bit/s of a STREAM test, whose CSV has 2^20 bytes/s. Raises ValueError for anything else."""
    return _value(report, "overall_bw") * _MIB_TO_MBIT


def _value(report: str, column: str) -> float:
    for names, values in zip(report.splitlines(), report.splitlines()[1:], strict=False):
        if names.startswith("iterations,") and column in names.split(","):
            return float(dict(zip(names.split(","), values.split(","), strict=True))[column])
    raise ValueError(f"{PROGRAM} said nothing of {column}: {report.strip()!r}")


def devices(information: str) -> list[str]:
    """The networks among what `ucx_info -d` lists, as `tcp/eth0` or `rc_mlx5/mlx5_0:1`."""
    found = re.findall(r"Transport: (\S+)\s*\n#\s+Device: (\S+)\s*\n#\s+Type: network", information)
    return [f"{transport}/{device}" for transport, device in found]
