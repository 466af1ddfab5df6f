"""The steps of TensorFlow's asynchronous workers, timed by what each tells of its start and end."""

import pytest

from ddlbench.workers.tensorflow.made_steps import made_steps


def test_a_step_lasts_from_the_end_of_the_one_before_it_and_the_first_from_its_own_start():
    steps = [(10.5, 12.0, 0.2), (10.0, 10.4, 0.3), (12.1, 12.5, 0.1)]
    made = made_steps(steps)
    assert [each.time_ms for each in made] == pytest.approx([400, 1600, 500])
    assert [each.loss for each in made] == [0.3, 0.2, 0.1]


def test_a_worker_that_has_made_no_step_has_no_times():
    assert made_steps([]) == []
