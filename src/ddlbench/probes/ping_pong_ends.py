"""The two ends of the point-to-point probe as programs, which need no package but this one: any container can run them.

python -m ddlbench.probes.ping_pong_ends answer ADDRESS PORT
python -m ddlbench.probes.ping_pong_ends probe ADDRESS PORT REPETITIONS SIZE...

The latter prints one-way times in s by size, in JSON.
"""

import json
import sys

from ddlbench.errors import exit_on_error
from ddlbench.probes.ping_pong import answer, listening, probe

TIMEOUT_S = 60.0


def main(what: str, address: str, port: int, *numbers: int) -> None:
    """Run one end of the probe.

    Args:
        what: `answer` or `probe`.
        address: where `answer` listens, which `probe` connects to.
        port: the TCP port there.
        *numbers: for `probe`: how often each size is measured, then the message sizes in bytes.

    Raises:
        PeerVanished: the other end does not come, or is lost.
    """
    if what == "answer":
        with listening(address, port) as listener:
            answer(listener, TIMEOUT_S)
        return
    repetitions, *sizes = numbers
    times_s, vanished = probe(
        address, port, sizes, needs_more=lambda values: len(values) < repetitions, timeout_s=TIMEOUT_S
    )
    if vanished:
        raise vanished
    print(json.dumps(times_s))


if __name__ == "__main__":
    with exit_on_error():
        main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
