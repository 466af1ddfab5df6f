"""Which of our modules decide what: editing one makes what it decides out of date, editing another does not."""

import ast
import os
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

LAUNCHING = (
    "network/gpu_shares.py",
    "network/hosts.py",
    "network/sites.py",
    "network/star.py",
    "network/shaping.py",
    "network/netfilter.py",
    "network/delay.py",
    "runtime/apptainer.py",
    "runtime/bare.py",
    "runtime/container.py",
    "runtime/containers.py",
    "runtime/docker.py",
    "runtime/gpu_variables.py",
    "runtime/network_variables.py",
    "runtime/launch.py",
    "runtime/podman.py",
    "runtime/roles.py",
    "runtime/starters.py",
    "workers/fork_server.py",
    "workers/turns.py",
)
MEASURING = (
    *LAUNCHING,
    "runtime/links.py",
    "runtime/rounds.py",
    "runtime/session.py",
    "runtime/telemetry.py",
    "runtime/sampler.py",
    "runtime/load.py",
    "runtime/gpus.py",
    "network/counters.py",
)
ON_NODES = (
    "network/fabrics.py",
    "network/interfaces.py",
    "runtime/node.py",
    "runtime/nodes.py",
    "runtime/remote.py",
    "runtime/srun.py",
)
FAULTS = ("runtime/faults.py", "runtime/group.py", "measurements/faults.py")
PROBING_TORCH = (
    *LAUNCHING,
    "workers/devices.py",
    "workers/torch_collectives.py",
    "workers/torch_gpu.py",
    "workers/torch_group.py",
    "workers/listener.py",
    "workers/service.py",
    "runtime/collectives.py",
    "measurements/statistics.py",
    "measurements/collectives.py",
)
PROBING = (
    *PROBING_TORCH,
    "network/compiled.py",
    "network/pingpong.py",
    "network/ucx.py",
    "runtime/exchange.py",
    "runtime/probing.py",
    "runtime/ucx_probing.py",
    "measurements/point_to_point.py",
)
PROBING_RUNTIMES = (
    *LAUNCHING,
    "measurements/runtime_network.py",
    "network/ends.py",
    "network/pingpong.py",
    "runtime/exchange.py",
    "runtime/runtime_probing.py",
)
COUNTING = ("workers/torch_flops.py", "workers/torch_models.py", "workers/architectures.py")
TABULATING = ("measurements/record.py", "measurements/statistics.py", "measurements/tables.py")
TABULATING_TELEMETRY = (
    "measurements/record.py",
    "measurements/tables.py",
    "measurements/telemetry.py",
    "measurements/telemetry_table.py",
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
    """The files that decide what the workers of a module (`ddlbench.workers.torch_worker`) measure."""
    return files(*MEASURING, *(ON_NODES if on_nodes else ()), *_worker(worker))


@cache
def _worker(module: str) -> tuple[str, ...]:
    """The files of a worker's module and of all workers' modules that it imports; the channel carries them only."""
    found, new = dict[str, None](), [module]
    while new:
        name = new.pop().removeprefix("ddlbench.").replace(".", "/") + ".py"
        if name in found or name == "workers/channel.py":
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
