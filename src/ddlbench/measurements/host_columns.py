"""Columns of a table that say how the hosts of a point were: cores and their shares, vCPUs, memory, GPUs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ddlbench.measurements.record import Record

Row = dict[str, Any]


def of_hosts(records: Sequence[Record], parts: Sequence[Record]) -> Row:
    """Say how the hosts of a point were.

    Args:
        records: all repetitions of the point.
        parts: those that were measured; of an epoch, if the table has a row for each.

    Returns:
        The columns from unexplained_wait_percent to workers_per_gpu, as of `tables.aggregate`.
    """
    gpus = records[0]["provenance"].get("gpus") or {} if records else {}
    return {
        **_shares(parts),
        "own_work_percent": max((each.get("own_work_percent") or 0.0 for each in parts), default=None)
        or None,
        **_systematic_error(parts),
        **_vcpus(parts),
        "host_memory_gb": _host_memory_gb(records),
        "workers_per_gpu": gpus.get("workers_per_gpu"),
    }


def own_error(row: Mapping[Any, Any]) -> float:
    """Say how far times may be off by what no repetition shows: the emulation's own error, and that of its threads.

    Args:
        row: of a table.

    Returns:
        A factor, by which times may be too long or too short; 1 where nothing is known.
    """
    percent = float(row.get("systematic_error_percent") or 0.0)
    return (1.0 if math.isnan(percent) else 1 + percent / 100) * thread_error(row)


def thread_error(row: Mapping[Any, Any]) -> float:
    """Say how far times may be off because it is not certain how fast the threads of a host are.

    Args:
        row: of a table.

    Returns:
        A factor, by which times may be too long or too short if all of them is compute; 1 where nothing is known.
    """
    speedup, low, high = (float(row.get(f"vcpu_speedup{end}") or 0.0) for end in ("", "_low", "_high"))
    return max(speedup / low, high / speedup) if speedup > 0 and low > 0 and not math.isnan(high) else 1.0


def is_short_of_memory(row: Mapping[Any, Any]) -> bool:
    """Say whether the hosts of a point had less memory than the study's; what did not fit there may fit into those.

    Args:
        row: of a table.

    Returns:
        True if this machine could not give a host as much; False where nothing is known.
    """
    had_gb, studied_gb = row.get("host_memory_gb"), row.get("memory_gb")
    return had_gb is not None and studied_gb is not None and had_gb < _three_digits(studied_gb)


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _shares(records: Sequence[Record]) -> Row:
    """How long threads waited without a cause of their host, whether shares were held, and what hosts got."""
    hold = [each["shares_hold"] for each in records if each.get("shares_hold") is not None]
    bursts = [value for each in records for value in each.get("burst_percent") or []]
    hosts = [host for each in records for host in each.get("kept") or []]
    got = [round(host["got_percent"], 1) for host in hosts if host["got_percent"] is not None]
    return {
        "unexplained_wait_percent": _most(host["unexplained_percent"] for host in hosts),
        "shares_hold": all(hold) if hold else None,
        "burst_percent": _farthest(bursts),
        "got_percent": min(got, default=None),
        "got_percent_most": max(got, default=None),
    }


def _systematic_error(records: Sequence[Record]) -> Row:
    """How far the emulation may be off, and by what that was judged; the largest error of all records."""
    known = [each for each in records if each.get("systematic_error")]
    worst = max(known, key=lambda each: float(each["systematic_error"]["percent"]), default={})
    error = worst.get("systematic_error") or {}
    judged: dict[str, list[str]] = {}
    for case in error.get("worst_cases", [error] if error else []):
        cases = _judged(case, (worst.get("vcpu_speed") or {}).get("vcpus", 1))
        judged.setdefault(case["machine"], []).append(cases)
    return {
        "systematic_error_percent": error.get("percent"),
        "systematic_error_judged": ". ".join(f"{on}: {'; '.join(cases)}" for on, cases in judged.items())
        or None,
    }


def _judged(worst_case: Mapping[str, Any], vcpus: int) -> str:
    """`12 cases of hosts that share a core, divided between sessions, ...`; older records do not say of what."""
    cases = f"{worst_case['cases']} cases"
    if worst_case.get("of") == "vcpus":
        cases += f" of {worst_case['on_a_core']} vCPUs that are one core"
        cases += f", as {vcpus} were not judged" if vcpus > worst_case["on_a_core"] else ""
    if between := worst_case.get("divided_between"):
        cases += f" of hosts that share a core, divided between {between}"
    return f"{cases}, {worst_case['date']}, {str(worst_case['commit'])[:7]}"


def _vcpus(records: Sequence[Record]) -> Row:
    """How fast the vCPUs are that are made of one core, by the last record that says so."""
    known = [each["vcpu_speed"] for each in records if each.get("vcpu_speed")]
    last: Record = next((each for each in reversed(known) if each.get("speedup")), {})
    return {
        "vcpus_of_a_core": known[-1]["vcpus"] if known else None,
        "vcpu_speedup": last.get("speedup"),
        "vcpu_speedup_low": last.get("low"),
        "vcpu_speedup_high": last.get("high"),
        "vcpu_threads": " and ".join(map(str, last["threads"])) if last else None,
    }


def _most(percent: Iterable[float]) -> float | None:
    """The largest value, with one decimal."""
    most = max(percent, default=None)
    return None if most is None else round(most, 1)


def _farthest(percent: Iterable[float | None]) -> float | None:
    """The value that is farthest from 100, with one decimal."""
    known = [float(each) for each in percent if each is not None]
    farthest = max(known, key=lambda each: abs(each - 100), default=None)
    return None if farthest is None else round(farthest, 1)


def _host_memory_gb(records: Sequence[Record]) -> float | None:
    """The memory that each host really had, in GiB; older records do not have it. They have that of one worker."""
    size = records[0].get("host_memory_bytes") if records else None
    if size is None:
        return None
    return _three_digits(size * records[0]["point"].get("workers_per_host", 1) / 2**30)
