"""RDMA's own benchmarks of the package perftest, `ib_send_lat` and `ib_write_bw`: their arguments and their reports.

The formats are those of perftest's source (perftest_parameters.h: RESULT_FMT_LAT, RESULT_FMT_G), versions 4.5 to 24.
"""

from collections.abc import Iterator

LATENCY, BANDWIDTH = "ib_send_lat", "ib_write_bw"
PROGRAMS = (LATENCY, BANDWIDTH)
PACKAGE = "perftest"
_MICROSECOND = 1e-6


def server_argv(program: str, port: int, *, rdma_port: str, iterations: int) -> list[str]:
    """Build the command line that waits for one client.

    Args:
        program: one of PROGRAMS; both sides run the same with the same port number and iterations.
        port: the TCP port of the first contact.
        rdma_port: this machine's RDMA device and port, `mlx5_0:1`.
        iterations: how many messages of each size.

    Returns:
        The argv.
    """
    device, _, number = rdma_port.partition(":")
    units = ["--report_gbits"] if program == BANDWIDTH else []
    # -a: all sizes from 2 bytes to 8 MiB; -F: no warning about the processor's clock between the numbers.
    return [program, "-d", device, "-i", number, "-p", str(port), "-n", str(iterations), "-a", "-F", *units]


def client_argv(program: str, port: int, address: str, *, rdma_port: str, iterations: int) -> list[str]:
    """Build the command line that measures with a server.

    Args:
        program: one of PROGRAMS.
        port: the server's TCP port.
        address: the server's address, over which the first contact takes place.
        rdma_port: this machine's RDMA device and port, `mlx5_0:1`.
        iterations: how many messages of each size.

    Returns:
        The argv.
    """
    return [*server_argv(program, port, rdma_port=rdma_port, iterations=iterations), address]


def one_way_s(report: str) -> dict[int, list[float]]:
    """Read the latencies in a report.

    Args:
        report: the output of `ib_send_lat`.

    Returns:
        Median one-way time in s by size in bytes, one for each size.

    Raises:
        ValueError: the text is no such report.
    """
    return {size: [value * _MICROSECOND] for size, value in _column(report, "t_typical[usec]")}


def throughput_mbit(report: str) -> dict[int, list[float]]:
    """Read the throughputs in a report.

    Args:
        report: the output of `ib_write_bw --report_gbits`.

    Returns:
        Throughput in 10^6 bit/s by size in bytes, one for each size.

    Raises:
        ValueError: the text is no such report.
    """
    return {size: [value * 1000] for size, value in _column(report, "BW average[Gb/sec]")}


def _column(report: str, name: str) -> Iterator[tuple[int, float]]:
    """Yield each size and its value in the named column."""
    lines = iter(report.splitlines())
    for line in lines:
        if line.split()[:1] == ["#bytes"] and name in line:
            before = line[: line.index(name)].replace("BW peak", "BW_peak")  # one column, although two words
            column = len(before.split())
            break
    else:
        raise ValueError(f"there is no {name} in {report.strip()!r}")
    for line in lines:
        values = line.split()
        if not values or not values[0].isdigit():
            return
        yield int(values[0]), float(values[column])
