"""What the kernel says it does to what is sent over each link: read, not measured, so that it costs next to nothing."""

from typing import Any

from ddlbench.network.star import Star

Settings = dict[str, dict[str, Any]]  # by the way of a link


def settings(star: Star) -> Settings:
    """The queueing disciplines of each way of a link and their parameters; less than a millisecond a way."""
    return {
        f"link {number}{way}": {
            qdisc.get_attr("TCA_KIND"): _plain(qdisc.get_attr("TCA_OPTIONS"))
            for qdisc in egress.netlink.get_qdiscs(index=egress.index)
        }
        for number, port in enumerate(star.backend.ports, start=1)
        for way, egress in zip(("", " back"), port.egresses, strict=False)
    }


def differences(before: Settings, after: Settings) -> list[str]:
    """What was set otherwise, in words; empty where nothing was."""
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
    """The numbers among a discipline's parameters, by name."""
    if options is None:
        return {}
    if isinstance(options, bytes | str | int | float):
        return {"options": options}
    found = {key: value for key, value in options.items() if isinstance(value, int | float | str)}
    for _, value in options.get("attrs", []) or []:
        found |= _plain(value) if hasattr(value, "items") else {}
    return found
