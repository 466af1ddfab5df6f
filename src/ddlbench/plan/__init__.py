"""From the configuration to what is measured and drawn: points, runs, figures. Nothing is started here."""

from ddlbench.plan.config import load
from ddlbench.plan.plan import Plan, Status
from ddlbench.plan.point import POINT_KEYS, Point, link_words, point_id, words
from ddlbench.plan.probe import Collectives
from ddlbench.plan.request import overridden, requested
from ddlbench.plan.run import GROUP_KEYS, Run, group_key
from ddlbench.plan.sites import Sites
from ddlbench.plan.study import Fault, Figure, Grid, Hosts, Link, PointToPoint, Study

__all__ = [
    "GROUP_KEYS",
    "POINT_KEYS",
    "Collectives",
    "Fault",
    "Figure",
    "Grid",
    "Hosts",
    "Link",
    "Plan",
    "Point",
    "PointToPoint",
    "Run",
    "Sites",
    "Status",
    "Study",
    "group_key",
    "link_words",
    "load",
    "overridden",
    "point_id",
    "requested",
    "words",
]
