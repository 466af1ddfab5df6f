"""`ddlbench serve` on one core, asked to recommend by 100 clients at once, against a route that returns a constant.

Both serve on the same core by turns, each with one process of uvicorn, uvloop and httptools, warm before the first
turn; wrk (Debian's package) asks from another core. What differs makes it harder for ours: the constant is asked with a
GET that has no body, and nothing checks, counts, limits or logs its requests. Questions that were asked before are
answered from memory; `new` ones, each with a batch size that nobody has asked for, are not. Whoever waits for an answer
asks again at once, so that the latencies are those of a server that is always busy.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import requests

from benchmarks.common import ROOT, benchmark, in_words, options, row, save, say, spread
from ddlbench.errors import DdlbenchError
from ddlbench.system.processes import die_with_parent
from tests.support.recommender_server import served

TABLE = ROOT / "config/examples/anwar2021_printed.csv"
REQUESTS = ROOT / "benchmarks/api_requests.lua"
P99_MS, SHARE = 30.0, 0.6
ANSWER_S = 60
WARM_S = 2  # that each is asked before it counts
KINDS = {"known": "36 questions by turns", "new": "each question new"}

Turn = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, clients=100, seconds=10, turns=5)
    if shutil.which("wrk") is None:
        raise DdlbenchError("this needs wrk.  sudo apt-get install wrk")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise DdlbenchError("this needs two cores: one that serves, and one that asks")
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        turns = take_turns(Path(folder), cores, asked.clients, asked.seconds, asked.turns)
    rows = [each for kind in KINDS for each in rows_of(kind, turns, asked.clients)]
    save("api", rows, {"asked": vars(asked), "turns": turns})


def take_turns(folder: Path, cores: Sequence[int], clients: int, seconds: int, count: int) -> list[Turn]:
    """All turns: each asks both servers, ours in all kinds of ways."""
    serving, asking = cores[:2]
    turns: list[Turn] = []
    with ExitStack() as servers:
        with on_core(serving):
            server = servers.enter_context(served(folder, "--rate", "1e6"))
            constant = servers.enter_context(constant_route())
        if not server.import_table("anwar", TABLE.read_bytes()).ok:
            raise DdlbenchError(f"{TABLE} cannot be imported")
        if not server.post("recommend", {"batch_size": 64000}).ok:  # when it has learned
            raise DdlbenchError(f"nothing can be recommended from {TABLE}")
        urls = {"constant": f"{constant}recommend"} | dict.fromkeys(KINDS, f"{server.url}recommend")
        with on_core(asking):
            for kind, url in urls.items():
                answers(url, kind, clients, WARM_S, 0)
            for number in range(1, count + 1):
                turn = {kind: answers(url, kind, clients, seconds, number) for kind, url in urls.items()}
                turns.append(turn)
                rates = ", ".join(f"{kind} {each['rate']:.0f}/s" for kind, each in turn.items())
                say(f"turn {number} of {count}: {rates}")
    return turns


def answers(url: str, kind: str, clients: int, seconds: int, seed: int) -> dict[str, float]:
    """Have wrk ask for some seconds: answers a second, and latencies."""
    how = ("--threads", "1", "--connections", str(clients), "--duration", f"{seconds}s")
    command = ["wrk", *how, "--timeout", f"{ANSWER_S}s", "--script", str(REQUESTS), url]
    done = subprocess.run(
        [*command, "--", kind, str(seed)],
        capture_output=True,
        text=True,
        timeout=seconds + 2 * ANSWER_S,
        preexec_fn=die_with_parent,
    )
    if done.returncode:
        raise DdlbenchError(f"wrk failed: {done.stderr.strip()[-1000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if found["failed"] or not found["requests"]:
        raise DdlbenchError(f"{url} has refused or dropped {found['failed']} requests of {found['requests']}")
    return found | {"rate": found["requests"] / found["seconds"]}


def rows_of(kind: str, turns: Sequence[Turn], clients: int) -> list[dict[str, Any]]:
    """The latency and the throughput of a kind of questions."""
    p99_ms = spread([turn[kind]["p99_ms"] for turn in turns])
    share = spread([turn[kind]["rate"] / turn["constant"]["rate"] for turn in turns])
    rate = spread([turn[kind]["rate"] for turn in turns])
    constant = spread([turn["constant"]["rate"] for turn in turns])
    constant_p99_ms = spread([turn["constant"]["p99_ms"] for turn in turns])
    what = f"`POST /recommend` on one core, {clients} clients, {KINDS[kind]}"
    peer = "a FastAPI route that returns a constant, same core, unlimited, not logged"
    return [
        row(
            f"{what}: p99 of the latency",
            at_least=f"under {P99_MS:g} ms",
            measured=in_words(p99_ms, " ms"),
            peer=f"{peer}: {in_words(constant_p99_ms, ' ms')}",
            met=p99_ms["median"] < P99_MS,
        ),
        row(
            f"{what}: throughput against a constant",
            at_least=f"{SHARE:g}",
            measured=f"{in_words(share)}; {in_words(rate)} answers a second",
            peer=f"{peer}: {in_words(constant)} a second",
            met=share["median"] >= SHARE,
        ),
    ]


@contextmanager
def constant_route() -> Iterator[str]:
    """The address of the peer."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.constant_route"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise DdlbenchError("the route that returns a constant is not served")
        requests.get(f"{address}recommend", timeout=ANSWER_S).raise_for_status()
        yield address
    finally:
        process.kill()
        process.wait()


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """What is started here stays on this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    benchmark(main)
