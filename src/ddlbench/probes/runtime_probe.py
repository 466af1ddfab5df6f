"""The network inside each runtime: messages between two ends, both bare (no container), in Docker or in Apptainer.

    python -m ddlbench.probes.runtime_probe JOB.json ANSWER.json        (the first process of a sandbox)

There are three networks: that of the host itself, which both ends share; the two namespaces of emulated hosts, which
the ends join, and whose link is open; and Docker's own bridge, through whose NAT an end outside connects. Rounds of all
of them alternate, each with containers of its own, so that a drift of the machine favours none.
"""

import json
import os
import random
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from ddlbench.code.purposes import code_for
from ddlbench.containers import engines
from ddlbench.containers.container import Needs
from ddlbench.containers.docker import client_environment, published_argv
from ddlbench.containers.podman import user_namespace
from ddlbench.environments.materials import BARE, Described, Materials
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.hosts.this_machine import raise_loopback
from ddlbench.launch.container_starter import in_container
from ddlbench.launch.inherited import inherited_variables
from ddlbench.measurements import facts, provenance, runtime_network
from ddlbench.network.star import Star
from ddlbench.plan import Plan
from ddlbench.probes.exchange import Side, exchange
from ddlbench.sandbox.job import answer_of, do
from ddlbench.system.package import package_root
from ddlbench.system.processes import die_with_parent

HOST, JOINED, BRIDGE = "host", "joined", "bridge"  # networks
SIZES_BYTES = (64, 1 << 20)  # a latency, a throughput
_PORT = 5201
_ENDS = ("-m", "ddlbench.probes.ping_pong_ends")
_REPETITIONS = 20  # of each size in a round, whose median counts
_TIMEOUT_S = 120.0
_MEMORY_BYTES = 1 << 30

_NETWORKS = {"docker": (HOST, JOINED, BRIDGE), "apptainer": (HOST, JOINED)}

Way = tuple[str, str]  # a runtime and a network
Found = dict[Way, dict[int, list[float]]]  # one-way times in s by size, one a round


@dataclass(frozen=True)
class RoundJob:
    """A round through all runtimes and networks, in random order after `seed`; `inherited`: the driver's variables."""

    environments: Mapping[str, RuntimeEnvironment]
    inherited: Mapping[str, str]
    seed: int


@dataclass(frozen=True)
class TimedWay:
    """The median one-way time in s by message size in bytes, in a runtime over a network."""

    runtime: str
    network: str
    median_s: Mapping[int, float]


@dataclass(frozen=True)
class Round:
    """What a round found."""

    timed: Sequence[TimedWay]


def probe_runtimes(environments: Described, *, rounds: int, logs: Path) -> tuple[Found, dict[Way, str]]:
    """Measure one-way times in every runtime over each of its networks.

    Args:
        environments: the descriptions of what the ends run in, by runtime; `bare` is among them.
        rounds: how often each is measured.
        logs: the folder for the output of the processes.

    Returns:
        For each runtime and network the one-way times in s by size in bytes, a median of each round; and the reasons
        why others cannot be measured.

    Raises:
        DdlbenchError: an engine is not usable, or the ends cannot reach each other.
    """
    engines.check(environments)
    found: Found = {(runtime, network): {} for runtime in environments for network in (HOST, JOINED)}
    without: dict[Way, str] = {}
    bridged = ("docker", BRIDGE)
    if "docker" in environments:
        if why := engines.why_no_bridge():
            without[bridged] = why
        else:
            found[bridged] = {}
    within = user_namespace(environments)
    for number in range(rounds):
        job = RoundJob(environments, inherited_variables(), number)
        answer = answer_of(__name__, job, Round, logs=logs, within=within)
        times_s = [((each.runtime, each.network), each.median_s) for each in answer.timed]
        if bridged in found:
            times_s.append((bridged, _over_the_bridge(environments)))
        for way, of_size in times_s:
            for size, value in of_size.items():
                found[way].setdefault(size, []).append(value)
    return found, without


def write_runtimes(plan: Plan, materials: Materials, output: Path | str, *, logs: Path) -> None:
    """Measure all runtimes; write the table and its sidecar. A runtime that is missing gets rows that give the reason.

    Args:
        plan: the settings, among them the number of rounds.
        materials: the environments' descriptions.
        output: where the CSV goes.
        logs: the folder for the output of the processes.

    Raises:
        DdlbenchError: the environment without a container is missing, or the ends cannot reach each other.
    """
    die_with_parent()
    started = datetime.now(UTC)
    environments, lacking = materials.described()
    if BARE not in environments:
        raise DdlbenchError(lacking[BARE])
    rounds = plan.settings.probes.measure.min_repetitions
    times_s, without = probe_runtimes(environments, rounds=rounds, logs=logs)
    for runtime, why in lacking.items():
        without |= {(runtime, network): why for network in _NETWORKS[runtime]}
    host = facts.short_label(facts.gather())
    write_atomically(output, runtime_network.as_csv(runtime_network.rows(times_s, without, host)))
    provenance.write_sidecar(
        output,
        made_by="runtimes",
        inputs={"environment": materials.descriptions},
        code=code_for("runtimes"),
        parameters={"rounds": rounds, "sizes_bytes": list(SIZES_BYTES)},
        started=started,
    )


def run(job: RoundJob) -> Round:
    """Measure one round, in random order, in a sandbox.

    Args:
        job: the environments, and the seed of the order.

    Returns:
        The medians in s of all runtimes over the host's own network and over joined namespaces.

    Raises:
        DdlbenchError: an end fails.
    """
    raise_loopback()
    addresses = ["10.66.0.1", "10.66.0.2"]
    with Star(addresses, congestion_control="cubic") as star:
        shared: tuple[int | None, int | None] = (None, None)
        places = {HOST: ("127.0.0.1", shared), JOINED: (addresses[0], tuple(star.namespaces))}
        ways = [(runtime, network) for runtime in job.environments for network in places]
        random.Random(job.seed).shuffle(ways)
        found = []
        for runtime, network in ways:
            address, namespaces = places[network]
            server, client = (
                _end(job, runtime, words, namespace)
                for words, namespace in zip(_words(address, _PORT), namespaces, strict=True)
            )
            report = exchange(server, client, timeout_s=_TIMEOUT_S)
            found.append(TimedWay(runtime, network, _medians(report)))
    return Round(found)


def _end(job: RoundJob, runtime: str, words: list[str], namespace: int | None) -> Side:
    """Describe one end in a runtime and a network namespace (None: the one of this process)."""
    described = job.environments[runtime]
    command = [described.python, *_ENDS, *words]
    variables = {"PYTHONPATH": package_root()}
    if runtime == BARE:
        return Side(command, variables, namespace)
    argv, of_client = in_container(
        described,
        command,
        Needs((), (), variables),
        namespace,
        _MEMORY_BYTES,
        run="runtimes",
        inherited=job.inherited,
    )
    return Side(argv, of_client)


def _over_the_bridge(environments: Described) -> Mapping[int, float]:
    """Measure between an end without a container and one on Docker's bridge, through its NAT."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    answer, ask = _words("0.0.0.0", port)  # in a network namespace of its own  # nosec B104
    docker = environments["docker"]
    needs = Needs((), (), {"PYTHONPATH": package_root()})
    argv = published_argv(
        docker.image_id or "", [docker.python, *_ENDS, *answer], needs, run="runtimes", port=port
    )
    ask[1] = "127.0.0.1"
    client = Side([environments[BARE].python, *_ENDS, *ask], dict(needs.variables))
    server = Side(argv, client_environment(os.environ, docker.engine.address if docker.engine else ""))
    return _medians(exchange(server, client, timeout_s=_TIMEOUT_S))


def _words(address: str, port: int) -> tuple[list[str], list[str]]:
    """Return the arguments of the two ends."""
    asked = [str(each) for each in (_REPETITIONS, *SIZES_BYTES)]
    return ["answer", address, str(port)], ["probe", address, str(port), *asked]


def _medians(report: str) -> dict[int, float]:
    return {int(size): median(values) for size, values in json.loads(report).items()}


if __name__ == "__main__":
    sys.exit(do(RoundJob, run))
