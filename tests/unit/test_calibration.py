"""Intervals, learned from errors whose sizes are known."""

import numpy as np
import pytest

from ddlbench.prediction import calibration
from ddlbench.prediction.calibration import calibrate


def drawn(count, seed=0):
    """Errors of 5 % of what is computed and of 30 % of what is sent, by the share of each."""
    random = np.random.default_rng(seed)
    computed = random.uniform(0, 1, count)
    errors = random.standard_normal(count) * np.hypot(0.05 * computed, 0.3 * (1 - computed))
    shares = [{"compute": each, "wire": 1 - each} for each in computed.tolist()]
    return errors, shares, np.zeros(count)


@pytest.mark.parametrize("count", [150, 5000])
def test_nine_of_ten_other_errors_are_within_the_interval(count):
    found = calibrate(*drawn(count))
    errors, shares, _ = drawn(2000, seed=1)
    inside = [
        abs(error) <= found.reach(0.9) * found.scale(share, 0.0)
        for error, share in zip(errors, shares, strict=True)
    ]
    assert 0.86 < np.mean(inside) < 0.94
    assert found.scale({"wire": 1.0}, 0.0) > 2 * found.scale({"compute": 1.0}, 0.0)


def test_errors_that_are_left_out_together_tell_the_same_as_each_alone(monkeypatch):
    together = calibrate(*drawn(1000))
    monkeypatch.setattr(calibration, "MOST_GROUPS", 1000)
    alone = calibrate(*drawn(1000))
    assert together.variances == alone.variances
    assert together.reach(0.9) == pytest.approx(alone.reach(0.9), rel=0.01)


def test_many_errors_take_no_more_fits_than_a_few_hundred(monkeypatch):
    fits = []
    solve = calibration.nnls
    monkeypatch.setattr(calibration, "nnls", lambda *system: fits.append(0) or solve(*system))
    calibrate(*drawn(3000))
    assert len(fits) == calibration.MOST_GROUPS + 1


def test_nothing_is_said_from_no_errors():
    assert calibrate(*drawn(0)).reach(0.9) == np.inf
