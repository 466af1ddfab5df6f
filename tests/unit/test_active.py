"""Which option is measured next, and when measuring stops."""

import json
import runpy
from dataclasses import replace
from types import SimpleNamespace

import pytest
from prediction_samples import cell, grid, measure, true_ms

from ddlbench.environments.materials import Materials
from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.plan import load
from ddlbench.plan.config_files import configuration
from ddlbench.plan.settings import Recommend
from ddlbench.prediction.cell import Measured
from ddlbench.prediction.choice import Goal
from ddlbench.prediction.foreign.imported import write_imported
from ddlbench.recommender.active import measuring as active_measuring
from ddlbench.recommender.active.advice import advise
from ddlbench.recommender.active.measuring import measure_for_choice
from ddlbench.recommender.active.options import cell_of, options_of
from ddlbench.runs import one_point
from tests.support.repository import REPOSITORY

OPTIONS = [cell(batch_size=512, latency_ms=5.0, workers=workers) for workers in (1, 2, 3, 4, 6)]
OTHERS = measure([each for each in grid() if each.batch_size != 512])
ASKED = Recommend({"model": "keras_sequential", "batch_size": 1280, "latency_ms": 40.0}, 90.0, 8, 15.0)


@pytest.fixture(scope="module")
def plan():
    return load(REPOSITORY / "config/config.yaml", REPOSITORY)


@pytest.mark.long
def test_measuring_goes_on_until_the_choice_is_certain_and_the_choice_is_right():
    known = list(OTHERS)
    for _ in range(len(OPTIONS) + 1):
        advice = advise(known, OPTIONS, Goal(), sureness=0.95)
        if advice.cell is None:
            break
        assert advice.cell in OPTIONS
        assert advice.cell not in {each.cell for each in known}
        known += measure([advice.cell], noise=0.0)
    assert advice.cell is None
    best = advice.options[0].estimate.cell
    assert true_ms(best) <= 1.05 * min(map(true_ms, OPTIONS))


def test_with_nothing_known_options_far_from_each_other_come_first():
    first = advise([], OPTIONS, Goal(), sureness=0.9)
    assert first.cell == OPTIONS[0]
    second = advise(measure([OPTIONS[0]]), OPTIONS, Goal(), sureness=0.9)
    assert second.cell == OPTIONS[-1]


def test_an_option_of_which_nothing_is_known_is_measured_though_another_seems_sure():
    strange = cell(batch_size=512, latency_ms=5.0, workers=2, framework="tensorflow")
    advice = advise([*OTHERS, *measure(OPTIONS)], [*OPTIONS, strange], Goal(), sureness=0.5)
    assert advice.cell == strange


def test_what_does_not_fit_is_not_tried_again():
    first = advise([], OPTIONS, Goal(), sureness=0.9)
    for memory_gb in (first.cell.memory_gb, 1.4):  # what its host really had
        unfit = [replace(first.cell, memory_gb=memory_gb)]
        assert advise([], OPTIONS, Goal(), sureness=0.9, unfit=unfit).cell != first.cell


def test_every_option_measured_ends_it_however_unsure_the_choice_is():
    twins = [replace(each, time_ms=10.0, low_ms=1.0, high_ms=100.0) for each in measure(OPTIONS)]
    advice = advise([*OTHERS, *twins], OPTIONS, Goal(), sureness=0.99)
    assert advice.cell is None
    assert "every option" in advice.why


def test_options_of_the_default_question_differ_only_in_what_is_decided(plan):
    options = options_of(plan, ASKED)
    assert len(options) >= 4
    assert {point.batch_size for point in options} == {1280}
    assert {point.latency_ms for point in options if point.hosts > 1} == {40.0}
    assert {point.framework for point in options} == {"torch", "tensorflow"}
    assert all(point in plan.run(run).points for point, run in options.items())


def test_several_workers_a_host_are_no_option_as_nothing_would_be_learned_from_them(plan):
    (point, *_) = (each for each in options_of(plan, ASKED) if each.workers > 1)
    run = SimpleNamespace(id="both", points=[replace(point, workers_per_host=2), point])
    made_up = SimpleNamespace(runs=[run], status=plan.status)
    assert list(options_of(made_up, ASKED)) == [point]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"model": "keras_sequentail"}, "did you mean 'keras_sequential'"),
        ({"model": "keras_sequential", "batch_size": 1280}, "leaves latency_ms open"),
        ({"batch_size": 1281}, "no point has batch_size 1281"),
        ({"model": "mlp", "batch_size": 1280}, "no point that can be measured here has all"),
    ],
)
def test_a_question_that_has_no_answer_is_refused_in_words(plan, question, message):
    with pytest.raises(ConfigError, match=message):
        options_of(plan, replace(ASKED, question=question))


def test_the_job_has_the_options_that_were_planned_on_gpus_too(monkeypatch, tmp_path):
    question = {"model": "resnet18", "devices": "gpu", "batch_size": 128}
    given = configuration(
        [REPOSITORY / "config/examples/gpu_mnist.yaml"],
        {"recommend": {"question": question}},
        root=REPOSITORY,
    ).settings
    plan, measured = load(given, REPOSITORY, gpus=1), []
    planned = options_of(plan, replace(ASKED, question=question))

    def not_measured(_asked, _goal, options, _tables, _measure):
        measured.extend(options)
        raise DdlbenchError("nothing is measured here")

    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr(active_measuring, "measure_for_choice", not_measured)
    job = SimpleNamespace(
        log=[str(tmp_path / "log")],
        output=[f"{plan.settings.own_results}/recommendation.json"],
        input=SimpleNamespace(tables=[], datasets=[]),
        params=SimpleNamespace(gpus=1),
        config=given,
    )
    with pytest.raises(SystemExit):
        runpy.run_path(str(REPOSITORY / "workflow/scripts/measure_for_choice.py"), {"snakemake": job})
    assert measured == list(planned) != []


def measuring(plan, folder, time_ms):
    """A function that `measures` a point by writing its table, and what it was asked for."""
    asked = []

    def measure_it(point, again):
        assert again == (point in asked)
        asked.append(point)
        table = folder / f"{point.id}.csv"
        table.unlink(missing_ok=True)
        middle_ms, width = time_ms(point), 1.4 ** (1 / asked.count(point))
        measured = Measured(cell_of(point), middle_ms, middle_ms / width, middle_ms * width)
        write_imported(table, [measured], "step")
        return table

    return measure_it, asked


def test_a_budget_of_points_is_kept_and_said(plan, tmp_path):
    options = list(options_of(plan, ASKED))
    measure_it, asked = measuring(plan, tmp_path, lambda point: 100.0)
    ended = measure_for_choice(replace(ASKED, budget_points=2), Goal(), options, [], measure_it)
    assert len(asked) == len(ended.steps) == len(ended.tables) == 2
    assert ended.advice.why == "the budget of 2 points is used up"


def test_a_budget_of_time_is_kept_and_said(plan, tmp_path):
    measure_it, asked = measuring(plan, tmp_path, lambda point: 100.0)
    options = list(options_of(plan, ASKED))
    ended = measure_for_choice(replace(ASKED, budget_min=1e-9), Goal(), options, [], measure_it)
    assert asked == []
    assert "minutes is used up" in ended.advice.why


def test_the_choice_after_all_options_is_the_fastest_and_none_is_measured_twice_without_need(plan, tmp_path):
    options = list(options_of(plan, ASKED))
    fastest = options[-1]
    measure_it, asked = measuring(plan, tmp_path, lambda point: 5.0 if point == fastest else 200.0)
    sure = replace(ASKED, sureness_percent=99.9, budget_points=100)
    ended = measure_for_choice(sure, Goal(), options, [], measure_it)
    assert len(asked) == len(set(asked))
    assert ended.advice.options[0].estimate.cell == cell_of(fastest)


def test_options_that_are_close_are_measured_again_until_the_choice_is_certain(plan, tmp_path):
    options = list(options_of(plan, ASKED))
    close = {options[-1]: 100.0, options[-2]: 110.0}
    measure_it, asked = measuring(plan, tmp_path, lambda point: close.get(point, 1000.0))
    sure = replace(ASKED, sureness_percent=95, budget_points=1000)
    ended = measure_for_choice(sure, Goal(), options, [], measure_it)
    assert ended.advice.why == "the choice is certain enough"
    assert ended.advice.options[0].probability >= 0.95
    assert ended.advice.options[0].estimate.cell == cell_of(options[-1])
    assert {point for point in asked if asked.count(point) > 1} <= close.keys()
    assert len(asked) > len(set(asked)) == len(ended.tables)
    assert any(step["why"].startswith("measured again") for step in ended.steps)


def test_a_point_is_measured_again_as_often_as_it_was_and_others_are_not(plan, tmp_path, monkeypatch):
    point, run_id = next(iter(options_of(plan, ASKED).items()))
    asked = []

    def measured(asked_plan, _run_id, _materials, *, manifest, logs, since, by_itself):
        asked.append((asked_plan.settings.measure, by_itself))
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"points": [{"measurements": ["a repetition"] * 70}]}))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(one_point, "measure_run", measured)
    for name in ("aggregate", "write_table", "write_sidecar"):
        monkeypatch.setattr(one_point, name, lambda *_, **__: None)
    one_point.measure_point(plan, run_id, point, Materials({}, {}), tmp_path, None, again=True)
    (first, alone), (second, still_alone) = asked
    assert first == plan.settings.measure
    assert (second.min_repetitions, second.max_repetitions) == (140, 140)
    assert alone
    assert still_alone


def without_values(folder):
    """A table of a point that was not measured."""
    empty = folder / "empty.csv"
    empty.write_text(
        "point_id,status,batch_size,workers,step_time_ms,model,image_shape,framework,strategy,devices,runtime\n"
    )
    return empty


def test_if_no_option_can_be_measured_it_is_an_error(plan, tmp_path):
    empty, unlimited = without_values(tmp_path), replace(ASKED, budget_points=1000)
    with pytest.raises(DdlbenchError, match="none of the options was measured"):
        measure_for_choice(unlimited, Goal(), list(options_of(plan, ASKED)), [], lambda point, again: empty)


def test_an_option_that_cannot_be_measured_is_left_out_and_the_others_are_chosen_from(plan, tmp_path, capsys):
    options = list(options_of(plan, ASKED))
    dead, empty, tried = options[-1], without_values(tmp_path), []
    measure_it, _ = measuring(plan, tmp_path, lambda point: 200.0)

    def measure_most(point, again):
        tried.append(point)
        return empty if point == dead else measure_it(point, again)

    sure = replace(ASKED, sureness_percent=99.9, budget_points=100)
    ended = measure_for_choice(sure, Goal(), options, [], measure_most)
    assert tried.count(dead) == 1
    assert "it was not measured; see" in capsys.readouterr().err
    assert {each.estimate.cell for each in ended.advice.options} == {*map(cell_of, options)} - {cell_of(dead)}
