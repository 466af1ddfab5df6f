"""How the hosts of a figure came about: their cores, time dilation and GPUs."""

from collections.abc import Sequence

import pandas as pd

from ddlbench.devices.device import without_origin
from ddlbench.figures.captions.conditions import by_waiting, computed_here, fabrics, is_emulated
from ddlbench.figures.captions.core_use import core_use
from ddlbench.figures.captions.emulation_error import emulation_error
from ddlbench.figures.words import counted, listed, values_of


def hosts(measured: pd.DataFrame, y: str) -> list[str]:
    """Describe the hosts, the machine that they were on, and what that does to times.

    Args:
        measured: points that were measured.
        y: the column that is shown.

    Returns:
        Sentences.
    """
    return [
        machine(measured),
        *unequal(measured),
        *replayed(measured),
        *uneven(measured),
        *shared_cards(measured),
        *cores(measured),
        *emulation_error(measured, y),
        *core_use(measured, y),
        *shared_gpus(measured),
    ]


def machine(measured: pd.DataFrame) -> str:
    """Say whether hosts and network are emulated or real, and on what.

    Args:
        measured: points that were measured.

    Returns:
        `Emulated hosts and network, on AMD EPYC, 2 cores, 25 GB.`
    """
    what = fabrics(measured)
    return f"{what[:1].upper()}{what[1:]}, on {listed(values_of(measured, 'host')) or 'an unknown machine'}."


def unequal(measured: pd.DataFrame) -> list[str]:
    """Say which points have repetitions from hosts of different kinds.

    Args:
        measured: points that were measured.

    Returns:
        `Repetitions of 2 of 8 points are from hosts that differ in cpu model: ...`; empty if all are of one kind.
    """
    facts = values_of(measured, "hosts_differ_in")
    if not facts:
        return []
    count = int(measured["hosts_differ_in"].notna().sum())
    names = dict.fromkeys(name.replace("_", " ") for each in facts for name in str(each).split(", "))
    of_all = f"{count} of {counted(len(measured), 'point')}"
    return [
        f"Repetitions of {of_all} are from hosts that differ in {listed(names)}: their bars hold that, too."
    ]


def cores(measured: pd.DataFrame) -> list[str]:
    """Describe how the vCPUs of emulated hosts were made.

    Args:
        measured: points that were measured.

    Returns:
        Sentences: the time dilation and what it means, and how a host of several vCPUs was made of one core.
    """
    waits = by_waiting(measured)
    if (measured["dilation"] == 1).all():
        own = "each host has its cores to itself"
        return [
            f"Time dilation 1: {own}." if is_emulated(measured) and not waits.any() else "Time dilation 1."
        ]
    computing = " that computes" if waits.any() else ""
    share = "" if waits.all() else f"a host{computing} has a core or a share of one, "
    what = f"Time dilation {dilations(measured)}: {share}links are slower by that factor, and times are divided by it."
    real = computed_here(measured)
    vcpus = [count for count in values_of(real, "vcpus") if count > 1]
    if not vcpus or not is_emulated(measured):
        return [what]
    return [what, threads(real, listed(vcpus))]


def threads(measured: pd.DataFrame, vcpus: str) -> str:
    """Say how fast a core counts that several vCPUs of a host are made of.

    Args:
        measured: points that were measured.
        vcpus: how many, in words.

    Returns:
        `4 vCPUs are made of one core that counts as fast as 4 threads of this machine: 2 to 2.5 times as fast as one
        (95 %: 1.9 to 3.2), by Amdahl's law from 1 and 2 threads.`; and of how many points that was not measured.
    """
    known = measured["vcpu_speedup"].notna() if "vcpu_speedup" in measured else None
    made = f"{vcpus} vCPUs are made of one core that counts as"
    if known is None or not known.any():
        return f"{made} {vcpus} times as fast: how fast {vcpus} threads are was not measured."
    found = measured[known]
    speedup = _from_to(found["vcpu_speedup"].min(), found["vcpu_speedup"].max())
    bounds = f"{found['vcpu_speedup_low'].min():.2g} to {found['vcpu_speedup_high'].max():.2g}"
    by = " / ".join(map(str, values_of(found, "vcpu_threads")))
    least = (~known & (measured["vcpus"] > 1)).sum()
    rest = (
        f"; not measured for {least} of {counted(len(measured), 'point')}, where it counts as {vcpus} times as fast"
        if least
        else ""
    )
    return (
        f"{made} fast as {vcpus} threads of this machine: {speedup} times as fast as one (95 %: {bounds}), by Amdahl's "
        f"law from {by} threads{rest}."
    )


def replayed(measured: pd.DataFrame) -> list[str]:
    """Say whose compute was replayed, and how its times are known.

    Args:
        measured: points that were measured.

    Returns:
        `Compute is replayed: NVIDIA Tesla V100 SXM2, fp32 (computed).`, with `(4 of 8 points)` where others are real,
        and what the emulation itself took of the cores; empty if none was replayed.
    """
    names = values_of(measured, "replay") if "replay" in measured else []
    if not names:
        return []
    count = int(measured["replay"].notna().sum())
    share = "" if count == len(measured) else f" ({count} of {counted(len(measured), 'point')})"
    work = measured["own_work_percent"].max() if "own_work_percent" in measured else float("nan")
    words = [f"Compute is replayed{share}: {listed(_each_device_once(names))}."]
    return words if pd.isna(work) else [*words, f"Moving bytes took {work:.2g} % of the cores at most."]


def _each_device_once(names: Sequence[str]) -> list[str]:
    """The names of replays, where those of one device, of which batches differ in how they are known, are one."""
    known: dict[str, list[str]] = {}
    for name in names:
        device = without_origin(name)
        known.setdefault(device, []).append(name.removeprefix(device).strip(" ()"))
    return [f"{device} ({'; '.join(origins)})" for device, origins in known.items()]


def uneven(measured: pd.DataFrame) -> list[str]:
    """Say which hosts were made unlike the others.

    Args:
        measured: points that were measured.

    Returns:
        `Hosts are uneven: host 3 is 1.5 times as slow.`; empty if they are alike.
    """
    names = values_of(measured, "uneven") if "uneven" in measured else []
    return [f"Hosts are uneven: {' / '.join(map(str, names))}."] if names else []


def shared_cards(measured: pd.DataFrame) -> list[str]:
    """Say how many workers share a host and its network card, and what connects them inside of it.

    Args:
        measured: points that were measured.

    Returns:
        Sentences such as `8 workers share a host and its network card, with pcie3-x16 between them.`; empty if no card
        is shared.
    """
    if "workers_per_host" not in measured:
        return []
    found = []
    for count in sorted({each for each in measured["workers_per_host"] if each > 1}):
        shared = measured[measured["workers_per_host"] == count]
        inside = listed(values_of(shared, "inside")) if "inside" in shared else ""
        between = f", with {inside} between them" if inside else ""
        share = "" if len(shared) == len(measured) else f" ({counted(len(shared), 'point')})"
        found.append(f"{count} workers share a host and its network card{between}{share}.")
    return found


def shared_gpus(measured: pd.DataFrame) -> list[str]:
    """Describe how many workers shared a GPU.

    Args:
        measured: points that were measured.

    Returns:
        Sentences such as `2 workers share a GPU (2, 4 workers).`; empty if no GPU was shared.
    """
    counts = [count for count in values_of(measured, "workers_per_gpu") if count > 1]
    of = {count: values_of(measured[measured["workers_per_gpu"] == count], "workers") for count in counts}
    return [f"{count:g} workers share a GPU ({listed(workers)} workers)." for count, workers in of.items()]


def dilations(measured: pd.DataFrame) -> str:
    """List the factors of time dilation.

    Args:
        measured: points that were measured.

    Returns:
        `1`, or `2.6 to 3.1 (1, 2 workers), 5.2 to 6.1 (3, 4 workers)` if the factors differ.
    """
    least = "dilation_least" if "dilation_least" in measured else "dilation"  # older tables have that alone
    of_workers = {
        count: _from_to(of_count[least].min(), of_count["dilation"].max())
        for count, of_count in measured.groupby("workers")
    }
    factors = list(dict.fromkeys(of_workers.values()))
    if len(factors) == 1:
        return factors[0]
    groups = {k: [count for count, factor in of_workers.items() if factor == k] for k in factors}
    noun = {k: "worker" if workers == [1] else "workers" for k, workers in groups.items()}
    return ", ".join(f"{k} ({listed(workers)} {noun[k]})" for k, workers in groups.items())


def _from_to(least: float, most: float) -> str:
    """A value with two digits, or the least and the most of several."""
    words = [f"{float(f'{value:.2g}'):g}" for value in (least, most)]
    return " to ".join(dict.fromkeys(words))
