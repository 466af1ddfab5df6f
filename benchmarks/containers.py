"""What our launcher adds to the start of a worker in a container, against the same container started by hand.

Ours: from the command that makes the sandbox to the worker's hello, with network, limits and supervision. By hand: from
`docker run` or `apptainer exec` to the word that the same interpreter prints once it has imported the same worker.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from benchmarks.common import benchmark, in_sandbox, in_words, options, row, save, say, spread
from ddlbench.environments.materials import Described, Materials, files_of
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.hosts.group_on_hosts import launched
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.roles import members
from ddlbench.network.hosts import GIB, Host, Placement
from ddlbench.protocol.codec import read, written
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.system.package import package_root
from ddlbench.workers.modules import MODULES

AT_MOST_S = 0.5
TURNS = 7
RUNTIMES = ("docker", "apptainer")
LIMITS = Timeouts(launch_s=120, prepare_s=60, step_s=60, heartbeat_s=60)
_SAYS = f"import {MODULES['torch']}; print('hello', flush=True)"
_TIMEOUT_S = 300.0


def main(arguments: Sequence[str]) -> None:
    options(__doc__, arguments)
    environments, without = Materials(
        {runtime: files_of("torch", runtime) for runtime in RUNTIMES}, {}
    ).described()
    if without:
        raise DdlbenchError("; ".join(without.values()))
    took_s: dict[str, dict[str, list[float]]] = {name: {"ours": [], "by hand": []} for name in RUNTIMES}
    for turn in range(TURNS):
        for runtime in RUNTIMES:
            took_s[runtime]["by hand"].append(by_hand_s(runtime, environments[runtime]))
            took_s[runtime]["ours"].append(ours_s(runtime, environments))
        say(f"turn {turn + 1} of {TURNS}: {json.dumps(took_s)}")
    rows = []
    for runtime, each in took_s.items():
        added = spread([ours - hand for ours, hand in zip(each["ours"], each["by hand"], strict=True)])
        rows.append(
            row(
                f"added by our launcher to a worker's start in {runtime}",
                at_least=f"{AT_MOST_S:g} s",
                measured=in_words(added, " s"),
                peer=f"the same container by hand: {in_words(spread(each['by hand']), ' s')}",
                met=added["median"] <= AT_MOST_S,
            )
        )
    save("containers", rows, {"took_s": took_s, "load_average": os.getloadavg()})


def by_hand_s(runtime: str, described: RuntimeEnvironment) -> float:
    """How long a container takes until its worker is imported and says a word."""
    source, command = package_root(), [described.python, "-c", _SAYS]
    argv = {
        "docker": [
            *("docker", "run", "--rm", "--network", "none", "--volume", f"{source}:{source}:ro"),
            *("--env", f"PYTHONPATH={source}", described.image_id or "", *command),
        ],
        "apptainer": [
            *("apptainer", "exec", "--cleanenv", "--contain", "--no-home", "--no-privs"),
            *("--bind", f"{source}:{source}:ro"),
            *("--env", f"PYTHONPATH={source}", described.sif or "", *command),
        ],
    }[runtime]
    began = monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        took = monotonic() - began
    if said != b"hello\n":
        raise DdlbenchError(f"{runtime} by hand said {said!r}")
    return took


def ours_s(runtime: str, environments: Described) -> float:
    """How long our launcher takes until the worker has said hello."""
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        host = Host("h1", "10.66.0.1", (min(os.sched_getaffinity(0)),), 1, 4 * GIB)
        job = GroupJob(
            run="benchmark",
            worker="torch",
            strategy="ring_allreduce",
            fabric="loopback",
            placement=Placement((host,), 1.0, memory_reduced=False),
            members=members("torch", "ring_allreduce", 1, 1),
            runtime=runtime,
            environments=environments,
            timeouts=LIMITS,
            inherited=dict(os.environ),
            logs=folder,
        )
        began = monotonic()
        return (
            float(in_sandbox("benchmarks.containers", json.loads(written(job)), timeout_s=_TIMEOUT_S)) - began
        )


def inside(job: Mapping[str, Any]) -> float:
    """The moment of the worker's hello, on the clock that all processes of a machine share."""
    with launched(read(GroupJob, job)) as on_hosts:
        return on_hosts.group.greeted_s


if __name__ == "__main__":
    benchmark(main, inside)
