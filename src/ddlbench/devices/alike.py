"""Whether all steps of a replay take the same time: then one step says what all take."""

from collections.abc import Mapping
from typing import Any

from ddlbench.devices.device import Replay
from ddlbench.workers.strategies import STRATEGIES


def steps_are_alike(point: Mapping[str, Any]) -> bool:
    """Tell whether all steps of a point take the same time, but for how busy the machine is.

    Args:
        point: as a record or a manifest holds it.

    Returns:
        True for a replay by waiting, unless chance has a part in it: jitter of hosts or links, lost packets, or the
        order in which workers of an asynchronous server come.
    """
    if not (point.get("replay") and Replay.from_dict(point["replay"]).waits):
        return False
    sites = point.get("sites") or {"lans": {}, "wans": {}}
    links = (point, *sites["lans"].values(), *sites["wans"].values())
    have_chance = any(link.get("loss_percent") or link.get("jitter_ms") for link in links)
    has_jitter = bool((point.get("uneven") or {}).get("jitter"))
    is_asynchronous = point["workers"] > 1 and not STRATEGIES[point["strategy"]].is_synchronous
    return not (have_chance or has_jitter or is_asynchronous)
