"""Published scaling beside ours: what the table says of results that are there, and of those that are not."""

from pathlib import Path

import pandas as pd
import yaml

from benchmarks.published import BEGIN, LISTED, NOT_YET, PAGE, in_words, table, with_table
from ddlbench.plan import load
from tests.support.small_study import REPOSITORY

LISTED_ROWS = yaml.safe_load(LISTED.read_text())
OURS = {
    "figure": "a_fig1",
    "y": "images_per_second",
    "rows": [{"workers": 8, "model": "vgg16"}, {"workers": 1, "model": "vgg16"}],
}


def results(folder: Path, *rows: tuple[int, str, float | None]) -> Path:
    """A folder of results whose one figure has a table of such workers, models and images per second."""
    (folder / "tables").mkdir(parents=True)
    columns = ["workers", "model", "images_per_second"]
    points = pd.DataFrame(rows, columns=columns)
    points["status"] = points["images_per_second"].notna().map({True: "measured", False: "failed"})
    points.to_csv(folder / "tables/a_fig1.csv", index=False)
    return folder


def test_a_ratio_is_told_as_times_or_as_percent_of_linear(tmp_path):
    here = results(tmp_path / "here", (1, "vgg16", 100.0), (8, "vgg16", 600.0), (8, "alexnet", 1.0))
    assert in_words(OURS, [here]) == "6 times"
    assert in_words({**OURS, "of_linear": 8}, [here]) == "75 % of linear"


def test_what_was_not_measured_is_not_a_number(tmp_path):
    failed = results(tmp_path / "failed", (1, "vgg16", 100.0), (8, "vgg16", None))
    assert in_words(OURS, [failed]) == in_words(OURS, [tmp_path / "nowhere"]) == NOT_YET
    assert in_words(OURS, [tmp_path / "nowhere", results(tmp_path / "b", *[(n, "vgg16", n) for n in (1, 8)])])
    assert in_words(None, [failed]) == "cannot be measured"


def test_the_document_has_a_row_for_each_published_number():
    page = PAGE.read_text()
    for each in LISTED_ROWS:
        assert f"| {each['what']} | {each['published']} (" in page
    assert with_table(page, page.partition(BEGIN)[2].partition("\n<!-- /published")[0].strip()) == page


def test_every_number_of_ours_is_of_points_that_a_configuration_plans():
    papers, others = (
        load(REPOSITORY / name, REPOSITORY) for name in ("config/paper.yaml", "config/examples/scaling.yaml")
    )
    for ours in (each["ours"] for each in LISTED_ROWS if "ours" in each):
        plan = papers if ours["figure"] in papers.figures else others
        points = [point for run in plan.runs_of(ours["figure"]) for point in run.points]
        for where in ours["rows"]:
            found = [
                point for point in points if all(getattr(point, key) == value for key, value in where.items())
            ]
            assert len(found) == 1, f"{ours['figure']}: {where}"


def test_a_missing_table_leaves_every_row_open(tmp_path):
    assert table(LISTED_ROWS, [tmp_path]).count(NOT_YET) == sum("ours" in each for each in LISTED_ROWS)
