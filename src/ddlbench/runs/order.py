"""The order in which runs are measured: so that figures are complete one after another, the first one soon."""

from ddlbench.plan.plan import Plan
from ddlbench.plan.run import GroupKey

FIRST = 1000  # the priority of what takes seconds and is waited for: data sets, tables, figures


def priorities(plan: Plan) -> dict[str, int]:
    """Give each run a priority by the first figure that needs it.

    The figures of the configuration come first, then all others; among them always the one that needs the fewest points
    beyond those of the figures before it. A session measures all points of a worker group, so these count together.

    Args:
        plan: with the figures and their runs.

    Returns:
        Priorities by `Run.id`, from 1; a run with a higher one is measured earlier.
    """
    points_of: dict[tuple[str, GroupKey], int] = {}
    for run in plan.runs:
        points_of[run.study, run.key] = points_of.get((run.study, run.key), 0) + len(run.points)
    groups_of = {name: {(run.study, run.key) for run in plan.runs_of(name)} for name in plan.figures}
    ordered: dict[tuple[str, GroupKey], None] = {}
    while groups_of:
        first = min(
            groups_of,
            key=lambda name: (
                name not in plan.default_figures,
                sum(points_of[group] for group in groups_of[name] if group not in ordered),
            ),
        )
        needed = sorted(
            groups_of.pop(first) - ordered.keys(), key=lambda group: (points_of[group], str(group))
        )
        ordered |= dict.fromkeys(needed)
    priority = {group: len(ordered) - place for place, group in enumerate(ordered)}
    return {run.id: priority.get((run.study, run.key), 0) for run in plan.runs}
