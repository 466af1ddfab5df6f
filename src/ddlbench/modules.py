"""Which of our modules decide what: editing one makes what it decides out of date, editing another does not."""

import ast
import os
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

LAUNCHING = (
    "system/gpu_shares.py",
    "network/hosts.py",
    "network/sites.py",
    "network/star.py",
    "network/shaping.py",
    "network/netfilter.py",
    "network/delay.py",
    "containers/apptainer.py",
    "launch/bare.py",
    "containers/container.py",
    "launch/container_starter.py",
    "containers/docker.py",
    "launch/gpu_variables.py",
    "launch/network_variables.py",
    "hosts/launch.py",
    "containers/podman.py",
    "launch/roles.py",
    "launch/starters.py",
    "workers/common/fork_server.py",
    "workers/common/scheduler_slice.py",
)
MEASURING = (
    *LAUNCHING,
    "sweep/link_monitor.py",
    "sweep/rounds.py",
    "sweep/session.py",
    "telemetry/telemetry.py",
    "telemetry/sampler.py",
    "telemetry/load.py",
    "launch/gpus.py",
    "telemetry/counters.py",
)
ON_NODES = (
    "network/fabrics.py",
    "network/interfaces.py",
    "cluster/node_agent.py",
    "cluster/allocation.py",
    "cluster/agent_client.py",
    "cluster/srun.py",
)
FAULTS = ("sweep/faults.py", "launch/worker_group.py", "measurements/faults.py")
PROBING_TORCH = (
    *LAUNCHING,
    "workers/common/devices.py",
    "workers/torch/collectives.py",
    "workers/torch/gpu.py",
    "workers/torch/process_group.py",
    "workers/common/listener.py",
    "workers/common/service.py",
    "probes/collective_probe.py",
    "measurements/statistics.py",
    "measurements/collectives.py",
)
PROBING = (
    *PROBING_TORCH,
    "probes/compiled_ping_pong.py",
    "probes/ping_pong.py",
    "probes/ucx.py",
    "probes/exchange.py",
    "probes/link_probe.py",
    "probes/ucx_probe.py",
    "measurements/point_to_point.py",
)
PROBING_RUNTIMES = (
    *LAUNCHING,
    "measurements/runtime_network.py",
    "probes/ping_pong_ends.py",
    "probes/ping_pong.py",
    "probes/exchange.py",
    "probes/runtime_probe.py",
)
COUNTING = ("workers/torch/flops.py", "workers/torch/models.py", "workers/common/architectures.py")
TABULATING = ("measurements/record.py", "measurements/statistics.py", "measurements/tables.py")
TABULATING_TELEMETRY = (
    "measurements/record.py",
    "measurements/tables.py",
    "telemetry/series.py",
    "telemetry/table.py",
)
DRAWING = (
    "figures/__init__.py",
    "figures/axes.py",
    "figures/caption.py",
    "figures/chart.py",
    "figures/faults.py",
    "figures/gaps.py",
    "figures/probe.py",
    "figures/rows.py",
    "figures/runtimes.py",
    "figures/table.py",
    "figures/telemetry.py",
    "figures/theme.py",
)


def measuring(worker: str, *, on_nodes: bool = False) -> list[str]:
    """The files that decide what the workers of a module (`ddlbench.workers.torch.ring_allreduce`) measure."""
    return files(*MEASURING, *(ON_NODES if on_nodes else ()), *_worker(worker))


@cache
def _worker(module: str) -> tuple[str, ...]:
    """The files of a worker's module and of all workers' modules that it imports; the channel carries them only."""
    found, new = dict[str, None](), [module]
    while new:
        name = new.pop().removeprefix("ddlbench.").replace(".", "/") + ".py"
        if name in found or name == "workers/common/channel.py":
            continue
        found[name] = None
        imports = (
            node.module or ""
            for node in ast.walk(ast.parse((PACKAGE / name).read_text()))
            if isinstance(node, ast.ImportFrom)
        )
        new += [module for module in imports if module.startswith("ddlbench.workers.")]
    return tuple(sorted(found))


def files(*names: str) -> list[str]:
    """The files of modules of ours, relative to the working directory; those that do not exist are left out."""
    return [os.path.relpath(PACKAGE / name) for name in names if (PACKAGE / name).is_file()]
