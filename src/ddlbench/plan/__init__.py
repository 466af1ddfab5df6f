"""From the configuration to what is measured and drawn: points, runs, figures. Nothing starts here."""

from ddlbench.plan.config import load
from ddlbench.plan.plan import Plan, Status
from ddlbench.plan.point import POINT_KEYS, Point, link_words, point_id, words
from ddlbench.plan.run import GROUP_KEYS, Run, group_key
from ddlbench.plan.study import Figure, Grid, Hosts, Link, Study

__all__ = [
    "GROUP_KEYS",
    "POINT_KEYS",
    "Figure",
    "Grid",
    "Hosts",
    "Link",
    "Plan",
    "Point",
    "Run",
    "Status",
    "Study",
    "group_key",
    "link_words",
    "load",
    "point_id",
    "words",
]
