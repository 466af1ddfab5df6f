"""What axes say: labels with units, and numbers."""

import yaml

from ddlbench.figures.axes import YAxis, ticks
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


def test_a_logarithmic_axis_says_so_with_a_unit_and_without():
    logarithmic, linear = YAxis(1.0, 100.0, log=True), YAxis(1.0, 100.0, log=False)
    assert logarithmic.title("throughput (images/s)") == "throughput (images/s, log scale)"
    assert logarithmic.title("speed-up over one worker") == "speed-up over one worker (log scale)"
    assert linear.title("speed-up over one worker") == "speed-up over one worker"
