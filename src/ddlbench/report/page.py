"""One page that opens offline: claims, figures, links, hosts, environments, deviations, what is open, provenance."""

import csv
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from ddlbench.claims.judge import VERDICTS
from ddlbench.claims.report import counts, value_of
from ddlbench.files import read_regular, write_atomically
from ddlbench.measurements.provenance import code_version
from ddlbench.plan.plan import Plan
from ddlbench.report.drawn import Drawn, read_drawn
from ddlbench.report.evidence import Evidence, evidence_of
from ddlbench.report.open_points import MEASURED, gaps, unresolved

TEMPLATE = "page.html"


def write_page(
    page: Path, plan: Plan, figures: Sequence[Path], tables: Sequence[Path], claims: Path, root: Path
) -> None:
    """Write the page, whole or not at all.

    Args:
        page: where it goes.
        plan: whose figures they are.
        figures: drawn ones, as SVG.
        tables: that they were drawn from.
        claims: the verdicts, as of `claims.report.judge_files`.
        root: the repository.

    Raises:
        DdlbenchError: a measurement is damaged, or the disk is full.
        OSError: a file is missing.
    """
    names = [table.absolute().relative_to(root).as_posix() for table in tables]
    drawn = [read_drawn(svg, plan.figures[svg.stem]) for svg in figures]
    rows = {table.stem: _rows(table) for table in tables}
    write_atomically(page, _render(plan, drawn, rows, evidence_of(root, names), _verdicts(claims)))


def _verdicts(claims: Path) -> pd.DataFrame:
    return pd.read_csv(claims, dtype={"setup": str}).fillna({"setup": ""})


def _rows(table: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(read_regular(table).decode(), newline="")))


def _render(
    plan: Plan,
    drawn: Sequence[Drawn],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    evidence: Evidence,
    claims: pd.DataFrame,
) -> str:
    points = [row for row in chain(*rows.values()) if "point_id" in row]
    environment = Environment(
        loader=PackageLoader("ddlbench.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"span": _span, "number": _number}
    return environment.get_template(TEMPLATE).render(
        made=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
        code=code_version(),
        configuration=plan.settings.name or "default",
        studies=[study for study in plan.studies.values() if any(each.study == study.key for each in drawn)],
        drawn=drawn,
        undrawn=[name for name in plan.figures if name not in {each.name for each in drawn}],
        verdicts=list(VERDICTS),
        counts=[
            (study, dict(zip(VERDICTS, values, strict=True)))
            for study, *values in counts(claims).itertuples()
        ],
        claims=[{**row, "value": value_of(row)} for row in claims.to_dict("records")],
        evidence=evidence,
        points=len({row["point_id"] for row in points if row.get("status", MEASURED) == MEASURED}),
        gaps=gaps(points),
        unresolved=unresolved(
            (plan.figures[name].y, of_table) for name, of_table in rows.items() if name in plan.figures
        ),
    )


def _span(values: tuple[float, float, float] | None) -> str:
    """A median with the least and the most."""
    if values is None:
        return "not measured"
    middle, low, high = map(_number, values)
    return middle if low == high else f"{middle} ({low} to {high})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
