"""What the user reads when the commands have ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from ddlbench.emulate.emulation import Emulated, Emulation, HostEnd

_OVER_TCP = ("TCP sent MB", "TCP received MB", "sent again")
_HEAD = ("host", "exit", "wall s", "CPU s", "of a core", *_OVER_TCP, "printed MB")


def summary(emulation: Emulation, found: Emulated) -> str:
    """Write the summary.

    Args:
        emulation: what was asked for.
        found: what came of it.

    Returns:
        Lines for a person.
    """
    after = _words(found.after) if found.after else found.drifted or "not measured, as it was interrupted"
    lines = [
        f"link: {_asked(emulation)} ({found.backend})",
        f"  before: {_words(found.before)}",
        f"  after:  {after}",
        *_table([_HEAD, *(_row(host, emulation.dilation) for host in found.hosts)]),
    ]
    if emulation.dilation != 1:
        lines.append(f"Wall and CPU time are the hosts': real seconds divided by {emulation.dilation:g}.")
    return "\n".join(lines)


def announcement(emulation: Emulation) -> str:
    """Say what is about to be emulated.

    Args:
        emulation: what was asked for.

    Returns:
        One or two lines for a person.
    """
    first, count = emulation.hosts[0], len(emulation.hosts)
    share = "" if first.core_share == 1 else f", {first.core_share:.3g} of its time"
    cores = f"{len(first.cores)} core{'s' * (len(first.cores) > 1)} each{share}"
    text = f"{count} host{'s' * (count > 1)} ({first.address} ...), {cores}; {_asked(emulation)}"
    if emulation.dilation == 1:
        return text
    k = f"{emulation.dilation:g}"
    return (
        f"{text}\n  The hosts' time is dilated by {k}: the link is {k} times slower, and its latency {k} times longer. "
        f"Divide the times that your script measures by {k}."
    )


def _asked(emulation: Emulation) -> str:
    return str(emulation.wires)


def _words(measured: Mapping[str, Any]) -> str:
    if "rate_mbit" in measured:
        rate_mbit, rtt_ms = measured["rate_mbit"], measured["rtt_ms"]
        return f"{rate_mbit:.4g} Mbit/s, round trip {rtt_ms:.3g} ms, {measured['loss_percent']:.2g} % loss"
    return "; ".join(
        f"{name}: {of['rate_mbit']:.4g} Mbit/s, {of['latency_ms']:.3g} ms one way, {of['loss_percent']:.2g} % loss"
        for name, of in measured.items()
    )


def _row(host: HostEnd, dilation: float) -> tuple[str, ...]:
    ended = " (ended by us)" * host.was_ended
    return (
        host.name,
        f"{host.exit_code}{ended}",
        f"{host.wall_s / dilation:.2f}",
        "-" if host.cpu_s is None else f"{host.cpu_s / dilation:.2f}",
        "-" if host.cpu_s is None or not host.wall_s else f"{host.cpu_s / host.wall_s:.2f}",
        f"{host.sent_bytes / 1e6:.2f}",
        f"{host.received_bytes / 1e6:.2f}",
        str(host.retransmits),
        f"{host.output_bytes / 1e6:.2f}",
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
