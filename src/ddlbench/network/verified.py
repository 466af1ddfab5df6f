"""Whatever hosts are connected by, measured and compared with what was asked for."""

from collections.abc import Mapping

from ddlbench.network.link import Link
from ddlbench.network.sites import SharedCards, Sites
from ddlbench.network.star import Star
from ddlbench.network.traffic import FULL, Effort
from ddlbench.network.verify import verify
from ddlbench.network.verify_sites import verify_sites
from ddlbench.protocol.tolerances import Tolerances


def verified(
    star: Star, made: Link | Sites | SharedCards, tolerances: Tolerances, effort: Effort = FULL
) -> Mapping[str, object]:
    """Measure what connects the hosts of a star.

    Args:
        star: the hosts; nothing else may be sent over their links.
        made: what they were given, not dilated.
        tolerances: how far it may be from that.
        effort: how long to measure in the first attempt.

    Returns:
        What was measured, for a record.

    Raises:
        OutOfTolerance: it stays out of tolerance; with what was asked for and what was measured.
        DdlbenchError: a process that the links need has died.
    """
    if isinstance(made, Link):
        return verify(star, made, tolerances, effort).as_dict()
    return verify_sites(star, made, tolerances, effort)
