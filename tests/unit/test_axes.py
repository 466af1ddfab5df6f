"""What axes say: labels with units, and numbers."""

import pandas as pd
import plotnine as p9
import pytest
import yaml

from ddlbench.figures.axes import XAxis, YAxis, ticks
from ddlbench.figures.chart import LABELS, number
from ddlbench.measurements.metrics import METRICS
from tests.support.repository import REPOSITORY


def test_every_column_that_can_be_an_axis_has_a_label_with_its_unit():
    schema = yaml.safe_load((REPOSITORY / "workflow/schemas/study.schema.yaml").read_text())
    keys = schema["$defs"]["figure"]["properties"]
    columns = {*METRICS, *keys["x"]["enum"], *keys["y"]["enum"], *keys["lines"]["enum"]} - {None}
    assert columns <= set(LABELS)
    words = {
        "model",
        "link",
        "compute",
        "devices",
        "fabric",
        "framework",
        "killed",
        "network",
        "outcome",
        "replay",
        "runtime",
        "sites",
        "strategy",
        "speedup",
    }  # no unit to a word
    assert {column for column in LABELS if "(" not in LABELS[column]} == words


def test_numbers_have_three_digits_in_tables_and_all_of_theirs_at_axes():
    assert [number(v) for v in (0.0123, 1.5, 61, 999.6, 64000)] == [
        "0.0123",
        "1.50",
        "61.0",
        "1000",
        "64,000",
    ]
    assert ticks([0, 0.1 + 0.2, 2.5, 1280]) == ["0", "0.3", "2.5", "1280"]
    assert ticks([5000, 10000]) == ["5,000", "10,000"]


@pytest.mark.parametrize("log_base", [None, 2, 10])
def test_an_axis_of_one_value_can_be_drawn(log_base):
    points = pd.DataFrame({"x": [2.0], "y": [1.0]})
    scale = XAxis.of(points["x"], log_base).scale()
    drawn = (p9.ggplot(points, p9.aes("x", "y")) + p9.geom_point() + scale).draw()
    assert [text.get_text() for text in drawn.axes[0].get_xticklabels()] == ["2"]


def test_a_logarithmic_axis_says_so_with_a_unit_and_without():
    logarithmic, linear = YAxis(1.0, 100.0, log=True), YAxis(1.0, 100.0, log=False)
    assert logarithmic.title("throughput (images/s)") == "throughput (images/s, log scale)"
    assert logarithmic.title("speed-up over one worker") == "speed-up over one worker (log scale)"
    assert linear.title("speed-up over one worker") == "speed-up over one worker"
