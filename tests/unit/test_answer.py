"""The answer in words."""

from dataclasses import replace

import pytest
from prediction_samples import cell, grid, measure

from ddlbench.prediction.answer import Answer, as_json, in_words
from ddlbench.prediction.choice import Goal, choose
from ddlbench.prediction.predictor import learn

MEASURED = measure(grid())


@pytest.mark.parametrize(
    ("batch_size", "gain", "advice"),
    [
        (512, 0.01, "Measuring 6 workers again would help most: 1.0 % better"),
        (600, 0.01, "Measuring 6 workers would help most: 1.0 % better"),
        (512, 0.0004, None),
    ],
)
def test_a_measurement_is_advised_that_helps_and_again_where_it_was_made(batch_size, gain, advice):
    (option,) = choose(learn(MEASURED), MEASURED, [cell(batch_size=batch_size, workers=6)], Goal())
    answer = Answer([replace(option, gain=gain * option.value)], Goal(), "step", {}, [])
    assert (advice in in_words(answer)) if advice else ("Measuring" not in in_words(answer))
    assert (as_json(answer)["measure_next"] is None) == (advice is None)
