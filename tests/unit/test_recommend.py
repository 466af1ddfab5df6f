"""`ddlbench recommend` and the choice behind it."""

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from prediction_samples import cell, grid, measure, true_ms

from ddlbench.cli.main import main
from ddlbench.prediction.answer import Answer, as_json
from ddlbench.prediction.cell import Measured
from ddlbench.prediction.choice import Goal, choose
from ddlbench.prediction.predictor import learn
from ddlbench.prediction.prices import Price
from tests.support.recommender_server import ANWAR
from tests.support.repository import REPOSITORY

MACHINE = Price("ours", 3600.0, 1.0, "EUR", 1.0, 8.0, "here", "us", "2026-06-17")  # a second costs 1
MEASURED = measure(grid())


@pytest.fixture(scope="module")
def predictor():
    return learn(MEASURED)


def ranked(predictor, goal, cells, unfit=()):
    return choose(predictor, MEASURED, cells, goal, unfit)


def at(batch, latency, workers=(1, 2, 3, 4, 5, 6)):
    return [cell(batch_size=batch, latency_ms=latency, workers=each) for each in workers]


@pytest.mark.parametrize(("batch", "latency"), [(100, 0.0), (700, 3.0), (1500, 8.0), (2048, 20.0)])
def test_the_fastest_of_the_cost_model_is_chosen_or_one_that_is_hardly_slower(predictor, batch, latency):
    cells = at(batch, latency)
    best = ranked(predictor, Goal(), cells)[0].estimate.cell
    assert true_ms(best) < 1.1 * min(map(true_ms, cells))


def test_money_counts_as_much_as_it_weighs(predictor):
    cells = at(2048, 0.0)
    fastest = ranked(predictor, Goal(price=MACHINE), cells)[0]
    cheapest = ranked(predictor, Goal(alpha=0, beta=1, price=MACHINE), cells)[0]
    assert fastest.estimate.cell.workers > cheapest.estimate.cell.workers == 1
    assert cheapest.cost == pytest.approx(cheapest.estimate.time_ms / 1000)


def test_traffic_is_paid_by_the_gigabyte(predictor):
    free = replace(MACHINE, hourly=0.0)
    (option,) = ranked(predictor, Goal(price=free, steps=1000), at(128, 0.0, [3]))
    assert option.cost == pytest.approx(1000 * 3 * 4 / 3 * 4 * 152_410 / 1e9)


def test_the_cost_has_the_interval_of_the_time(predictor):
    for price in (MACHINE, replace(MACHINE, hourly=0.0), None):
        goal = Goal(price=price, steps=1000)
        found = as_json(Answer(ranked(predictor, goal, at(128, 0.0, [3])), goal, "step", {}, []))["best"]
        if price is None:
            assert (found["cost"], found["cost_low"], found["cost_high"]) == (None, None, None)
            continue
        traffic = 1000 * 3 * 4 / 3 * 4 * 152_410 / 1e9
        for end in ("", "_low", "_high"):
            of_hosts = 3 * price.hourly * found[f"time{end}_s"] / 3600
            assert found[f"cost{end}"] == pytest.approx(of_hosts + traffic)


def test_a_budget_a_deadline_an_accuracy_and_a_memory_leave_out_with_a_reason(predictor):
    cells = at(2048, 0.0)
    options = ranked(predictor, Goal(price=MACHINE, budget=0.3), cells)
    assert {each.excluded.split(",")[1] for each in options if each.excluded} <= {" above the budget of 0.3"}
    assert all(each.cost <= 0.3 for each in options if not each.excluded)
    late = ranked(predictor, Goal(deadline_h=0.1 / 3600), cells)
    assert {each.estimate.cell.workers for each in late if not each.excluded} == {3, 4, 5, 6}
    assert all(
        each.excluded == "its accuracy was not measured"
        for each in ranked(predictor, Goal(accuracy_percent=50), cells)
    )
    too_large = replace(cells[1], memory_gb=4.0)
    fits = ranked(predictor, Goal(), cells, [too_large])
    assert {each.estimate.cell.workers for each in fits if not each.excluded} == {3, 4, 5, 6}
    more = ranked(predictor, Goal(price=MACHINE), cells, [too_large])
    assert not any(each.excluded for each in more)
    small = Goal(price=replace(MACHINE, memory_gb=0.2))
    assert "ours has 0.2 GB, and it needs 0." in ranked(predictor, small, cells)[0].excluded


def test_accuracy_is_that_of_the_nearest_batch_size(predictor):
    with_accuracy = [replace(each, accuracy_percent=97.0 - each.cell.batch_size / 100) for each in MEASURED]
    options = choose(predictor, with_accuracy, at(1024, 0.0), Goal(accuracy_percent=90.0))
    assert options[0].excluded == "reaches 86.76 %, less than 90 %"


def test_probabilities_sum_up_to_one_and_a_measurement_helps_where_two_are_close(predictor):
    options = ranked(predictor, Goal(), at(300, 3.0))
    assert sum(each.probability for each in options) == pytest.approx(1)
    assert options[0].probability == max(each.probability for each in options)
    far = ranked(predictor, Goal(), at(100, 20.0))
    assert far[0].probability > 0.99
    assert max(each.gain for each in far) == pytest.approx(0, abs=1e-12)


def test_no_option_of_the_front_is_both_slower_and_dearer_than_another(predictor):
    options = [each for each in ranked(predictor, Goal(price=MACHINE), at(2048, 5.0)) if not each.excluded]
    front = sorted((each for each in options if each.is_on_front), key=lambda each: each.hours)
    assert [each.cost for each in front] == sorted((each.cost for each in front), reverse=True)
    assert min(options, key=lambda each: each.hours) in front
    assert min(options, key=lambda each: each.cost) in front


def test_what_is_far_from_all_measurements_is_not_recommended(predictor):
    options = ranked(predictor, Goal(), at(2048, 0.0, [6, 600]))
    assert [each.estimate.cell.workers for each in options if not each.excluded] == [6]
    assert "not known" in options[-1].excluded


def test_what_does_not_fit_is_not_to_be_measured_first_though_its_time_is_not_known(predictor):
    near, far = at(2048, 0.0, [6, 600])
    for too_large, better in ((far, []), (at(4096, 0.0, [600])[0], [600])):
        options = ranked(predictor, Goal(), [near, far], [too_large])
        found = Answer(options, Goal(), "step", {}, []).perhaps_better
        assert [each.estimate.cell.workers for each in found] == better
    assert "not known" in options[-1].excluded


def test_a_tenfold_measurement_is_used_and_doubted():
    jump = at(512, 5.0, [4])[0]
    spoilt = [replace(each, time_ms=10 * each.time_ms) if each.cell == jump else each for each in MEASURED]
    (option,) = choose(learn(spoilt), spoilt, [jump], Goal())
    assert "measure it again" in option.estimate.warning
    assert option.estimate.low_ms < true_ms(jump) < option.estimate.time_ms


def test_a_jump_that_would_be_the_best_is_not_sure_and_to_be_measured_again_until_it_has_been():
    two, jump = at(512, 5.0, [2, 4])
    spoilt = [replace(each, time_ms=each.time_ms / 20) if each.cell == jump else each for each in MEASURED]
    (again,) = [each for each in spoilt if each.cell == jump]
    first, other = choose(learn(spoilt), spoilt, [two, jump], Goal())
    assert first.estimate.cell == jump
    assert first.probability < 0.95
    assert first.gain > other.gain
    bounded = replace(again, low_ms=again.time_ms / 1.1, high_ms=again.time_ms * 1.1)  # of repetitions
    for repeated in ([*spoilt, again], [bounded if each == again else each for each in spoilt]):
        assert choose(learn(repeated), repeated, [two, jump], Goal())[0].probability > 0.99


def test_measurements_of_a_cell_that_differ_are_both_within_its_interval_and_make_the_choice_less_sure(
    predictor,
):
    two = at(512, 5.0, [2, 4])
    fast, slow = two
    alike = [Measured(fast, 140.0), Measured(fast, 142.0), Measured(slow, 150.0)]
    apart = [Measured(fast, 100.0), Measured(fast, 200.0), Measured(slow, 150.0)]
    sure, unsure = (choose(predictor, each, two, Goal())[0] for each in (alike, apart))
    assert unsure.estimate.low_ms < 100 < 200 < unsure.estimate.high_ms
    assert unsure.estimate.time_ms == pytest.approx(math.sqrt(100 * 200))
    assert unsure.estimate.deviation > 5 * sure.estimate.deviation
    assert unsure.probability < sure.probability
    assert unsure.gain > sure.gain


@pytest.fixture(scope="module")
def learned_once():
    """From the same table the same is learned, and that takes seconds."""
    learn_once = cache(learn)
    return lambda measured: learn_once(tuple(measured))


@pytest.fixture
def anwar(tmp_path, monkeypatch, capsys, learned_once):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ddlbench.prediction.predictor.learn", learned_once)
    (tmp_path / "anwar.csv").write_text(ANWAR)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/prices.yaml").write_text((REPOSITORY / "config/prices.yaml").read_text())
    assert main(["import", "anwar.csv"]) == 0
    capsys.readouterr()
    return ["recommend", "--table", "imported/anwar.csv", "--batch-size", "64000"]


@pytest.mark.parametrize(("latency", "workers"), [("0", 4), ("20", 3)])
def test_the_answers_that_anwar2021_prints_come_from_a_table_with_its_rows(anwar, capsys, latency, workers):
    assert main([*anwar, "--latency", latency]) == 0
    assert capsys.readouterr().out.startswith(f"Take {workers} workers: ")
    assert main([*anwar, "--latency", latency, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert (best["workers"], best["is_measured"]) == (workers, True)


def test_the_answer_names_cost_runners_up_and_an_old_price(anwar, capsys):
    prices = Path("config/prices.yaml")
    prices.write_text(re.sub(r"date: .*", "date: 2021-06-23", prices.read_text()))
    assert main([*anwar, "--latency", "20", "--machine", "t2.large", "--steps", "100"]) == 0
    shown = capsys.readouterr().out
    assert "873 min" in shown or "14.6 h" in shown
    assert "4.05 USD" in shown
    assert "4 workers" in shown.split("Next best:")[1]
    assert "the price of t2.large is from 2021-06-23" in shown
    assert "times that were measured without bounds are taken as exact to 3 %, which is assumed" in shown


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ("time_per_epoch", "how many steps an epoch has is not known; import the table with  --images N"),
        ("step_time_s", "how many bytes its model has is not known"),
    ],
)
def test_traffic_that_nobody_can_count_is_left_out_of_the_cost_and_the_answer_says_so(
    anwar, capsys, times, why
):
    Path("imported/anwar.csv").unlink()
    Path("anwar.csv").write_text(ANWAR.replace("time_per_epoch", times))
    assert main(["import", "anwar.csv"]) == 0
    capsys.readouterr()
    prices = Path("config/prices.yaml")
    question = [*anwar, "--latency", "20", "--machine", "t2.large", "--steps", "100", "--json"]
    assert main(question) == 0
    free = json.loads(capsys.readouterr().out)
    prices.write_text(prices.read_text().replace("gigabyte: 0", "gigabyte: 1000"))
    assert main(question) == 0
    priced = json.loads(capsys.readouterr().out)
    assert priced["best"]["cost"] == free["best"]["cost"]
    warnings = [each for each in priced["warnings"] if each not in free["warnings"]]
    assert warnings == [f"traffic is not in the costs: {why}"]


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--beta", "1"], 2, "need a price"),
        (["--alpha", "0"], 2, "neither time nor money counts.  Say  --beta 1 --machine NAME"),
        (["--machine", "t2.lrge"], 2, "did you mean 't2.large'"),
        (["--images", "100"], 1, "times are of epochs"),
        (["--model", "vgg"], 1, "this table names no model"),
        (["--latency", "-1"], 2, "is not a latency"),
        (["--deadline", "0.001"], 1, ""),
        (["--model", ""], 2, "--model: "),
        (["--framework", 61 * "x"], 2, "--framework: "),
        (["--image-shape", ""], 2, "--image-shape: "),
        (["--image-shape", "28x28"], 1, "this table names no image_shape"),
        (["--vcpus", "0"], 2, "is not a number of vCPUs"),
        (["--vcpus", "2"], 1, "this table does not say how many vCPUs its hosts have"),
        (["--workers", *map(str, range(1, 66))], 2, "--workers: "),
    ],
)
def test_a_wrong_question_says_what_is_wrong(anwar, capsys, more, status, message):
    assert main([*anwar, *more]) == status
    assert message in capsys.readouterr().err


def test_without_any_table_it_says_what_to_measure(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["recommend", "--batch-size", "64"]) == 1
    assert "make run" in capsys.readouterr().err


def test_a_table_in_which_nothing_was_measured_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns = (
        "point_id,status,model,image_shape,framework,strategy,runtime,devices,batch_size,workers,step_time_ms"
    )
    row = "p1,does_not_fit,conv1,28x28x1,torch,ring_allreduce,bare,cpu,64,1,"
    (tmp_path / "fig.csv").write_text(f"{columns}\n{row}\n")
    assert main(["recommend", "--batch-size", "64", "--table", "fig.csv"]) == 1
    assert "0 measurements are too few" in capsys.readouterr().err


def test_a_value_is_finite_for_each_option(predictor):
    assert all(math.isfinite(each.value) for each in ranked(predictor, Goal(), at(64, 0.0)))


def test_the_hosts_and_images_that_are_asked_about_are_those_that_the_answer_is_about(
    tmp_path, monkeypatch, capsys, learned_once
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ddlbench.prediction.predictor.learn", learned_once)
    header = "point_id,status,framework,strategy,runtime,devices,model,batch_size,image_shape,vcpus,workers"
    rows = [
        f"{time_ms}-{workers},measured,torch,ring_allreduce,bare,cpu,cnn,64,{kind},{workers},{time_ms / workers}\n"
        for kind, time_ms in (("28x28x1,1", 30), ("28x28x1,2", 50), ("32x32x3,2", 90))
        for workers in (1, 2, 3)
    ]
    Path("fig.csv").write_text(f"{header},step_time_ms\n{''.join(rows)}")
    question = ["recommend", "--table", "fig.csv", "--batch-size", "64", "--json"]
    for asked, time_s in (
        ([], 0.01),
        (["--vcpus", "2"], 0.05 / 3),
        (["--vcpus", "2", "--image-shape", "32x32x3"], 0.03),
    ):
        assert main([*question, *asked]) == 0
        best = json.loads(capsys.readouterr().out)["best"]
        assert (best["is_measured"], best["time_s"]) == (True, pytest.approx(time_s))
