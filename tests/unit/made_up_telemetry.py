"""Made-up telemetry: hosts whose counters grow evenly. NOT measurements."""

from collections.abc import Iterator, Sequence
from typing import Any

ABOUT = {"run": "made-up", "started": "2026-01-02T03:04:05+00:00", "hertz": 10, "dilation": 2.0, "vcpus": 4}
ABOUT |= {"sampler_core_percent": 0.5}
CPU_S, PACKETS, PAYLOAD = 1.0, 1000, 1_000_000  # in a second


def rows(
    times_s: Sequence[float], *, hosts: int = 2, point: str | None = "a-point", shared_network: bool = False
) -> Iterator[dict[str, Any]]:
    """What the sampler writes: `h1` uses a quarter of its processors, `h2` sends twice as much."""
    for number, moment in enumerate(times_s):
        for host in range(1, hosts + 1):
            time_s = moment + 1e-4 * host  # one after another
            row = {
                "pass": number, "time_s": time_s, "host": f"h{host}", "role": "worker", "point": point,
                "repetition": None if point is None else 0, "cpu_s": 5 + CPU_S * time_s, "memory_bytes": 2**29,
                "gpu_percent": None, "gpu_memory_bytes": None,
            }  # fmt: skip
            if shared_network:
                yield row
                continue
            row |= {
                "sent_packets": int(host * PACKETS * time_s), "sent_bytes": int(host * PAYLOAD * time_s),
                "sent_payload_bytes": int(host * PAYLOAD * time_s), "received_packets": int(PACKETS * time_s),
                "received_bytes": int(PAYLOAD * time_s), "received_payload_bytes": int(PAYLOAD * time_s),
                "tcp_retransmits": 3,
            }  # fmt: skip
            for interface in ("lo", "eth0"):
                yield row | {
                    "interface": interface,
                    "rx_bytes": 1,
                    "rx_packets": 1,
                    "tx_bytes": 1,
                    "tx_packets": 1,
                }
