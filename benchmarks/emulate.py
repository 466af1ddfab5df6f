"""`ddlbench emulate` against the same script on network namespaces made by hand: step times, and how soon it starts.

By hand: two namespaces, a veth pair, `tc ... tbf` at each end, `taskset` for the cores; as tutorials do it. But `tbf`
lets as much pass at once as on our links, if their trains of segments were as long as the kernel's, and not the bytes
of a tick (rate / 250, for kernels without timers of high resolution): with these, 4 ms of each step's bytes are not
shaped. That is measured, too, and does not count. Both run a plain DistributedDataParallel script over Gloo in turns,
on links without latency, which `tbf` alone makes. What counts is the median over the turns of the ratio of step times.
The start is from calling `ddlbench` to the command's first act, with hosts made and links verified in between.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import (
    benchmark,
    in_sandbox,
    in_words,
    options,
    python_of_workers,
    row,
    save,
    say,
    spread,
)
from ddlbench.network.link import Link
from ddlbench.network.sizes import burst_bytes

WITHIN_PERCENT, START_S = 2.0, 2.0
TIMEOUT_S = 120
QUEUE = "50ms"
HZ = 250  # tc-tbf(8): without timers of high resolution, a burst of less than rate / HZ does not reach the rate
SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(Sequential(Linear(784, 1024), ReLU(), Linear(1024, 1024)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
times = []
for _ in range(int(sys.argv[1])):
    began = time.perf_counter()
    optimizer.zero_grad()
    model(torch.randn(64, 784)).square().mean().backward()
    optimizer.step()
    times.append(time.perf_counter() - began)
if dist.get_rank() == 0:
    print("steps", *times, flush=True)
dist.barrier()
os._exit(0)  # PyTorch 2's interpreter sometimes aborts at its end, while a thread of Gloo's still runs
"""


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, turns=3, steps=20, starts=5, slow_mbit=200, fast_mbit=1000)
    python = python_of_workers()
    found: dict[str, list[dict[str, float]]] = {}
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        (Path(folder) / "train.py").write_text(SCRIPT)
        command = [python, "train.py", str(asked.steps)]
        for turn in range(asked.turns):
            for mbit in (asked.slow_mbit, asked.fast_mbit):
                job = {"mbit": mbit, "command": command, "folder": folder}
                bursts = {
                    "by_hand_s": burst_bytes(Link(mbit), longest_trains=True),
                    "by_hand_of_a_tick_s": int(mbit * 1e6 / 8 / HZ),
                }
                times_s = {"ours_s": emulated(job)} | {
                    name: in_sandbox("benchmarks.emulate", job | {"burst_bytes": burst}, timeout_s=TIMEOUT_S)
                    for name, burst in bursts.items()
                }
                found.setdefault(f"{mbit} Mbit/s", []).append(times_s)
                words = ", ".join(
                    f"{name.removesuffix('_s').replace('_', ' ')} {1e3 * time_s:.1f} ms"
                    for name, time_s in times_s.items()
                )
                say(f"turn {turn + 1}, {mbit} Mbit/s: {words}")
    starts = spread([start_s() for _ in range(asked.starts)])
    rows = [steps(link, turns) for link, turns in found.items()]
    rows.append(
        row(
            "`ddlbench emulate`: two hosts, from the call to the command's start",
            at_least=f"{START_S:g} s",
            measured=in_words(starts, " s"),
            peer="-",
            met=starts["median"] <= START_S,
        )
    )
    save("emulate", rows, {"asked": vars(asked), "turns": found, "starts_s": starts})


def steps(link: str, turns: Sequence[dict[str, float]]) -> dict[str, Any]:
    def median_ms(name: str) -> str:
        return f"{1e3 * median(each[name] for each in turns):.1f} ms"

    ratio = spread([each["ours_s"] / each["by_hand_s"] for each in turns])
    return row(
        f"`ddlbench emulate`: step time at {link}, against namespaces made by hand",
        at_least=f"within {WITHIN_PERCENT:g} %",
        measured=f"ratio {in_words(ratio)}",
        peer=f"ip netns, tc tbf, taskset: {median_ms('by_hand_s')}; {median_ms('by_hand_of_a_tick_s')} with a burst of "
        f"rate / {HZ}",
        met=abs(ratio["median"] - 1) * 100 <= WITHIN_PERCENT,
    )


def emulated(job: dict[str, Any]) -> float:
    """The median step time on our hosts, in s."""
    argv = [sys.executable, "-m", "ddlbench.cli", "emulate", "--bandwidth-mbit", str(job["mbit"]), "--"]
    answer = subprocess.run(
        [*argv, *job["command"]],
        cwd=job["folder"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return step_s(answer.stdout)


def start_s() -> float:
    """From calling us to the first act of the command on the last host, in s."""
    argv = [
        sys.executable,
        "-m",
        "ddlbench.cli",
        "emulate",
        "--bandwidth-mbit",
        "1000",
        "--",
        "date",
        "+%s.%N",
    ]
    began = time.time()
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return max(float(line.split()[-1]) for line in answer.stdout.splitlines()) - began


def by_hand(job: dict[str, Any]) -> float:
    """The median step time on namespaces made by hand, in s. It runs in a sandbox, and needs no clean-up therefore."""
    cores = sorted(os.sched_getaffinity(0))
    limit = f"tbf rate {job['mbit']}mbit burst {job['burst_bytes']} latency {QUEUE}"
    # `ip netns` writes its names there; the sandbox has mounts of its own
    made = ["mount -t tmpfs none /run", "ip link add name va type veth peer name vb"]
    for number, name in enumerate("ab", start=1):
        inside = f"ip -n {name}"
        made += [
            f"ip netns add {name}",
            f"ip link set v{name} netns {name}",
            f"{inside} link set lo up",
            f"{inside} addr add 10.0.0.{number}/24 dev v{name}",
            f"{inside} link set v{name} up",
            f"tc -n {name} qdisc add dev v{name} root {limit}",
        ]
    for words in made:
        subprocess.run(words.split(), check=True)
    ranks = []
    for rank, name in enumerate("ab"):
        variables = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": f"v{name}",
            "OMP_NUM_THREADS": "1",
        }
        where = ["ip", "netns", "exec", name, "taskset", "--cpu-list", str(cores[rank % len(cores)])]
        ranks.append(
            subprocess.Popen(
                [*where, *job["command"]], cwd=job["folder"], env=variables, stdout=subprocess.PIPE, text=True
            )
        )
    outputs = [each.communicate(timeout=TIMEOUT_S)[0] for each in ranks]
    return step_s(outputs[0])


def step_s(output: str) -> float:
    """The median of the step times in a script's output, without the first three."""
    line = next(line for line in output.splitlines() if "steps " in line)
    return median(float(word) for word in line.partition("steps ")[2].split()[3:])


if __name__ == "__main__":
    benchmark(main, by_hand)
