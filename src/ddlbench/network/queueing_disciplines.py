"""The kernel's queueing disciplines on each link: read, not measured, which costs next to nothing."""

from typing import Any

from ddlbench.network.star import Star

Settings = dict[str, dict[str, Any]]  # direction of a link -> kind of discipline -> its parameters


def settings(star: Star) -> Settings:
    """Read the queueing disciplines of every link, in less than a millisecond for each direction.

    Args:
        star: the hosts' network.

    Returns:
        {direction of a link: {kind: parameters}}, for instance {"link 1 back": {"tbf": {...}}}. The directions are
        `link 1`, from the host, and `link 1 back`, to the host.
    """
    return {
        f"link {number}{way}": {
            qdisc.get_attr("TCA_KIND"): _plain(qdisc.get_attr("TCA_OPTIONS"))
            for qdisc in egress.netlink.get_qdiscs(index=egress.index)
        }
        for number, port in enumerate(star.backend.ports, start=1)
        for way, egress in zip(("", " back"), port.egresses, strict=False)
    }


def differences(before: Settings, after: Settings) -> list[str]:
    """Compare two readings.

    Args:
        before: the earlier one.
        after: the later one, of the same links.

    Returns:
        One text for each change; none if nothing has changed.
    """
    found = []
    for name, old in before.items():
        new = after[name]
        for kind in sorted({*old, *new}):
            if kind not in new:
                found.append(f"{name} has no {kind} any more")
            elif kind not in old:
                found.append(f"{name} has {kind} now")
            elif old[kind] != new[kind]:
                keys = sorted(
                    key for key in {*old[kind], *new[kind]} if old[kind].get(key) != new[kind].get(key)
                )
                changes = ", ".join(f"{key} {old[kind].get(key)} -> {new[kind].get(key)}" for key in keys)
                found.append(f"{kind} of {name}: {changes}")
    return found


def _plain(options: Any) -> dict[str, Any]:
    """Return the numbers and texts among a discipline's parameters, by name."""
    if options is None:
        return {}
    if isinstance(options, bytes | str | int | float):
        return {"options": options}
    found = {key: value for key, value in options.items() if isinstance(value, int | float | str)}
    for _, value in options.get("attrs", []) or []:
        found |= _plain(value) if hasattr(value, "items") else {}
    return found
