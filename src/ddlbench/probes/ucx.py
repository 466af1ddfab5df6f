"""UCX's own benchmark, `ucx_perftest`: its arguments, its reports, and which networks UCX finds on this machine.

Over TCP UCX adds a handshake before large messages (rendezvous): on a link with latency these take longer than plain
TCP's.
"""

import re

PROGRAM, INFORMATION = "ucx_perftest", "ucx_info"
PACKAGE = "ucx-utils"
LATENCY, STREAM = "tag_lat", "tag_bw"
_MIB_TO_MBIT = 8 * 2**20 / 1e6
_MICROSECOND = 1e-6


def server_argv(port: int) -> list[str]:
    """Build the command line that waits for one client, which decides what is measured.

    Args:
        port: the TCP port at which it listens.

    Returns:
        The argv.
    """
    return [PROGRAM, "-p", str(port)]


def client_argv(address: str, port: int, *, test: str, size_bytes: int, iterations: int) -> list[str]:
    """Build the command line that measures with a server.

    Args:
        address: the server's address.
        port: the server's TCP port.
        test: LATENCY or STREAM.
        size_bytes: the size of a message.
        iterations: how many messages are timed; a tenth of that number, at least 2, comes before as a warm-up.

    Returns:
        The argv.
    """
    counts = ["-n", str(iterations), "-w", str(max(2, iterations // 10))]
    return [PROGRAM, address, "-p", str(port), "-t", test, "-s", str(size_bytes), *counts, "-f", "-v"]


def variables(transports: str, device: str) -> dict[str, str]:
    """Build the environment variables that keep UCX on one network.

    Args:
        transports: UCX's names of its transports: `tcp`, or `rc` for RDMA.
        device: UCX's name of the network device: `eth0`, `mlx5_0:1`.

    Returns:
        The variables.
    """
    return {"UCX_TLS": transports, "UCX_NET_DEVICES": device}


def one_way_s(report: str) -> float:
    """Read the median one-way time in the report of a LATENCY test.

    The mean of all (`overall_lat`) is not used: over few trips it can lack one, and be 1.84 ms on a link of 2 ms.

    Args:
        report: the CSV that the client prints (`-f -v`).

    Returns:
        Seconds.

    Raises:
        ValueError: the text is no such report.
    """
    return _value(report, "50.0_percentile_lat") * _MICROSECOND


def throughput_mbit(report: str) -> float:
    """Read the throughput in the report of a STREAM test.

    Args:
        report: the CSV that the client prints (`-f -v`), in 2^20 bytes/s.

    Returns:
        10^6 bit/s.

    Raises:
        ValueError: the text is no such report.
    """
    return _value(report, "overall_bw") * _MIB_TO_MBIT


def _value(report: str, column: str) -> float:
    for names, values in zip(report.splitlines(), report.splitlines()[1:], strict=False):
        if names.startswith("iterations,") and column in names.split(","):
            return float(dict(zip(names.split(","), values.split(","), strict=True))[column])
    raise ValueError(f"{PROGRAM} said nothing of {column}: {report.strip()!r}")


def devices(information: str) -> list[str]:
    """Read the networks in the output of `ucx_info -d`.

    Args:
        information: that output.

    Returns:
        Names like `tcp/eth0` or `rc_mlx5/mlx5_0:1`.
    """
    found = re.findall(r"Transport: (\S+)\s*\n#\s+Device: (\S+)\s*\n#\s+Type: network", information)
    return [f"{transport}/{device}" for transport, device in found]
