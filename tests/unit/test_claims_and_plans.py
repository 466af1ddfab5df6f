"""Claims and plans: each claim finds its points in both plans, and the default figures judge many claims."""

import pandas as pd
import pytest

from ddlbench.claims.claim import read_claims
from ddlbench.claims.judge import judge
from ddlbench.measurements.metrics import METRICS
from ddlbench.plan import load
from tests.support.repository import REPOSITORY as ROOT

FILES = sorted((ROOT / "config/claims").glob("*.yaml"))


def test_every_study_has_claims_and_there_are_at_least_forty():
    studies = {file.stem for file in (ROOT / "config/studies").glob("*.yaml")}
    assert {file.stem for file in FILES} >= {
        "zhao2016",
        "pani2020",
        "anwar2021",
        "shi2019",
        "wang2019",
    } & studies
    assert sum(len(read_claims(file, ROOT)) for file in FILES) >= 40


def planned(plan, name):
    """The table that a figure would have if each of its points took equally long."""
    figure = plan.figures[name]
    points = {
        point.id: point for run in plan.runs_of(name) for point in run.points if figure.shows(point)
    }.values()
    rows = [
        {**point.as_dict(), "point_id": point.id, "epoch": epoch}
        for point in points
        for epoch in (range(1, point.epochs + 1) if figure.per_epoch else [None])
    ]
    values = {f"{metric}{end}": 1.0 for metric in METRICS for end in ("", "_low", "_high")}
    return pd.DataFrame(rows).assign(status="measured", repetitions=5, bounds="interval", **values)


@pytest.fixture(scope="module", params=["config", "paper"])
def plan(request):
    return load(ROOT / f"config/{request.param}.yaml", ROOT)


@pytest.mark.long
def test_each_claim_finds_one_point_for_a_setting(plan):
    claims = [claim for file in FILES for claim in read_claims(file, ROOT) if claim.figure in plan.figures]
    tables = {name: planned(plan, name) for name in {claim.figure for claim in claims}}
    reasons = {f"{claim.figure}: {claim.name}": judge(claim, tables).reason for claim in claims}
    assert not {
        name: why for name, why in reasons.items() if "must choose one" in why or "has no column" in why
    }


@pytest.mark.long
def test_the_default_figures_judge_at_least_sixty_claims():
    plan = load(ROOT / "config/config.yaml", ROOT)
    tables = {name: planned(plan, name) for name in plan.default_figures}
    claims = [claim for file in FILES for claim in read_claims(file, ROOT)]
    assert sum(judge(claim, tables).verdict != "not reached" for claim in claims) >= 60
