"""From a probe of the plan to its table and sidecar."""

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.code.purposes import code_for
from ddlbench.environments.failed_environments import read_description
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.measurements import collectives, facts, point_to_point, provenance
from ddlbench.network.fabrics import OF_EMULATED_HOSTS
from ddlbench.network.link import Link
from ddlbench.network.verify import Measured
from ddlbench.plan import Collectives, Plan, PointToPoint
from ddlbench.plan.settings import as_params
from ddlbench.probes import ucx
from ddlbench.probes.collective_probe import Found, How, probe_collectives, probe_messages
from ddlbench.probes.link_probe import NETPIPE, probe_link
from ddlbench.probes.ucx_probe import probe_link as probe_link_with_ucx
from ddlbench.system.processes import die_with_parent

FABRIC = "emulated"


def write_point_to_point(
    plan: Plan, probe: PointToPoint, outputs: Sequence[str], *, environment: Path | None, logs: Path
) -> None:
    """Run a point-to-point probe; write its table, the same in NetPIPE's format, and the table's sidecar.

    Args:
        plan: the links, settings and tolerances.
        probe: which link is probed, and with which transport.
        outputs: where the CSV and NetPIPE's format go.
        environment: the description of PyTorch's environment; None: the transport is not PyTorch's.
        logs: the folder for the workers' output, and for a table that is incomplete.

    Raises:
        DdlbenchError: the probe fails, or broke off; what was measured until then is kept below `logs`.
    """
    die_with_parent()
    started = datetime.now(UTC)
    settings, link = plan.settings.probes, _link(plan, probe.link)
    largest_bytes = settings.point_to_point.largest_bytes
    streams_mbit: Mapping[str, Mapping[int, Sequence[float]]] = {}
    times_s: Mapping[str, Mapping[int, Sequence[float]]]
    if probe.transport == "ucx":
        of_ucx = probe_link_with_ucx(
            link,
            dilation=probe.dilation,
            repetitions=settings.measure.min_repetitions,
            largest_bytes=largest_bytes,
            timeout_s=plan.settings.timeouts.step_s,
            tolerances=plan.settings.tolerances,
        )
        curves = of_ucx.curves
        times_s, vanished = {ucx.LATENCY: curves.times_s}, curves.vanished
        streams_mbit = {ucx.STREAM: curves.throughput_mbit}
        made = _made(of_ucx.backend, of_ucx.measured)
    elif environment is None:
        found = probe_link(
            link,
            dilation=probe.dilation,
            rule=plan.settings.probes.measure,
            largest_bytes=largest_bytes,
            timeout_s=plan.settings.timeouts.step_s,
            netpipe=settings.netpipe and shutil.which(NETPIPE) is not None,
            tolerances=plan.settings.tolerances,
        )
        times_s, vanished = found.times_s, found.vanished
        made = _made(found.backend, found.measured)
    else:
        messages = probe_messages(link, largest_bytes=largest_bytes, how=_how(plan, probe, environment, logs))
        times_s = {"torch": {size: values for (_, size), values in messages.times_s.items()}}
        vanished = messages.vanished
        made = _found(messages)
    conditions = {
        **_conditions(probe, link),
        "device": OF_EMULATED_HOSTS.name,
        "dilation": probe.dilation,
        "complete": vanished is None,
        **made,
    }
    of_tool = {
        tool: point_to_point.rows(by_size, {"tool": tool, **conditions}) for tool, by_size in times_s.items()
    }
    streams = (
        point_to_point.stream_rows(by_size, {"tool": tool, **conditions})
        for tool, by_size in streams_mbit.items()
    )
    table = point_to_point.as_csv(row for rows in (*of_tool.values(), *streams) for row in rows)
    _refuse_a_part(vanished, table, logs)
    write_atomically(outputs[0], table)
    write_atomically(outputs[1], point_to_point.as_netpipe(next(iter(of_tool.values()))))
    _sidecar(plan, probe, link, outputs, environment, started, {"tools": ", ".join(of_tool), **made})


def write_collectives(
    plan: Plan, probe: Collectives, outputs: Sequence[str], *, environment: Path, logs: Path
) -> None:
    """Run a probe of collectives; write its table and the table's sidecar.

    Args:
        plan: the links, settings and tolerances.
        probe: which link is probed, among how many hosts, and with which transport.
        outputs: where the CSV goes.
        environment: the description of PyTorch's environment.
        logs: the folder for the workers' output, and for a table that is incomplete.

    Raises:
        DdlbenchError: the probe fails, or broke off; what was measured until then is kept below `logs`.
    """
    die_with_parent()
    started = datetime.now(UTC)
    link = _link(plan, probe.link)
    sizes_bytes = plan.settings.probes.collectives.sizes_bytes
    how = _how(plan, probe, environment, logs)
    found = probe_collectives(link, hosts=probe.hosts, sizes_bytes=sizes_bytes, how=how)
    conditions = {**_conditions(probe, link), **_found(found)}
    rows = collectives.rows(found.times_s, probe.hosts, found.not_available, conditions)
    table = collectives.as_csv(rows)
    _refuse_a_part(found.vanished, table, logs)
    write_atomically(outputs[0], table)
    facts_of_it = {"hosts": probe.hosts, **_found(found)}
    _sidecar(plan, probe, link, outputs, environment, started, facts_of_it)


def _link(plan: Plan, name: str) -> Link:
    return Link(*plan.links[name].values)


def _how(plan: Plan, probe: PointToPoint | Collectives, environment: Path, logs: Path) -> How:
    return How(
        transport=probe.transport,
        dilation=probe.dilation,
        rule=plan.settings.probes.measure,
        tolerances=plan.settings.tolerances,
        timeouts=plan.settings.timeouts,
        python=read_description(environment)["python"],
        logs=logs,
    )


def _conditions(probe: PointToPoint | Collectives, link: Link) -> dict[str, Any]:
    return {
        "transport": probe.transport,
        "fabric": FABRIC,
        "link": probe.link,
        **link.as_dict(),
        "host": facts.short_label(facts.gather()),
    }


def _found(found: Found) -> dict[str, Any]:
    """Describe the link, and the time dilation, which is more than was asked for where hosts share a core."""
    return {"dilation": found.dilation, **_made(found.backend, found.measured)}


def _made(backend: str, measured: Measured | None) -> dict[str, Any]:
    """Describe how the link was made, and what it was measured to be."""
    found = measured.as_dict() if measured else {}
    return {"backend": backend, **{f"measured_{name}": value for name, value in found.items()}}


def _refuse_a_part(vanished: str | None, table: str, logs: Path) -> None:
    """Raise DdlbenchError if a probe broke off; what it measured until then is kept beside its log."""
    if vanished:
        part = logs / "incomplete.csv"
        write_atomically(part, table)
        raise DdlbenchError(f"{vanished}. What was measured until then, and is not complete: {part}")


def _sidecar(
    plan: Plan,
    probe: PointToPoint | Collectives,
    link: Link,
    outputs: Sequence[str],
    environment: Path | None,
    started: datetime,
    more: Mapping[str, Any],
) -> None:
    rule = "collectives" if isinstance(probe, Collectives) else "point_to_point"
    provenance.write_sidecar(
        outputs[0],
        made_by=rule,
        inputs={"environment": [environment] if environment else []},
        code=code_for(rule),
        outputs=outputs[1:],
        parameters={
            "link": probe.link,
            **link.as_dict(),
            "transport": probe.transport,
            "fabric": FABRIC,
            "dilation": probe.dilation,
            "measure": as_params(plan.settings.probes.measure),
            **more,
        },
        started=started,
    )
