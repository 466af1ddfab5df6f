"""What a sweep tells while it works."""

import re

from ddlbench.sweep.progress import Progress


def record(repetition=0, times=((10.0, 20.0), (12.0, 20.0)), dilation=2.0):
    return {
        "repetition": repetition,
        "step_times_ms": [*map(list, times)],
        "dilation": dilation,
        "reason": None,
    }


def lines(capsys, *reports, **progress):
    told = Progress(**{"points": 3, "elsewhere": 0, **progress})
    for number, words, given, left in reports:
        told.report(number, words, given, left_here=left)
    return capsys.readouterr().err.splitlines()


def test_a_line_names_the_point_its_number_its_repetition_and_its_time(capsys):
    (line,) = lines(capsys, (2, "mlp, digits", record(repetition=4), 5))
    assert line.startswith("point 2 of 3: mlp, digits, repetition 5: 8 ms a step; about ")


def test_a_step_is_as_long_as_its_slowest_rank_takes_without_dilation(capsys):
    (line,) = lines(capsys, (1, "mlp", record(times=((100.0,), (300.0,)), dilation=3.0), 1))
    assert "100 ms a step" in line


def test_what_does_not_fit_is_told_with_its_reason(capsys):
    refused = {"repetition": 0, "step_times_ms": [], "dilation": 1.0, "reason": "does not fit into 4 GB"}
    (line,) = lines(capsys, (1, "mlp", refused, 1))
    assert "repetition 1: does not fit into 4 GB; " in line


def test_what_has_stalled_is_told_with_the_time_that_counts(capsys):
    stalled = record(times=((240_000.0,),), dilation=1.0) | {"stalled_s": 240.0}
    (line,) = lines(capsys, (1, "mlp", stalled, 1))
    assert "repetition 1: given up after 240 s without a step, 2.4e+05 ms a step; " in line
    (line,) = lines(capsys, (1, "mlp", stalled | {"step_times_ms": [], "reason": "the link stalled"}, 1))
    assert "repetition 1: the link stalled; " in line


def test_the_time_left_counts_other_worker_groups_too(capsys):
    here, elsewhere = (
        lines(capsys, (1, "mlp", record(), 1), started=-1000.0, elsewhere=elsewhere)[0]
        for elsewhere in (0, 9)
    )
    minutes = [int(re.search(r"about (\d+) min left", line)[1]) for line in (here, elsewhere)]
    assert minutes[1] == 10 * minutes[0] or abs(minutes[1] - 10 * minutes[0]) <= 5


def test_the_last_repetition_says_so(capsys):
    assert lines(capsys, (3, "mlp", record(), 0))[0].endswith("; the last one")
