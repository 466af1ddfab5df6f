"""What the configuration wants of a choice, and how measuring follows it."""

import json
from dataclasses import replace
from datetime import date

import pytest
import yaml
from prediction_samples import measure
from test_active import ASKED, OPTIONS, OTHERS

from ddlbench.errors import ConfigError
from ddlbench.plan import load
from ddlbench.prediction.choice import Goal
from ddlbench.prediction.prices import read_prices
from ddlbench.recommender.active.advice import Advice, advise
from ddlbench.recommender.active.goal import goal_of
from ddlbench.recommender.active.measuring import Ended, write_answer
from ddlbench.recommender.active.options import options_of
from ddlbench.recommender.inquiry import Inquiry, Training
from tests.support.repository import REPOSITORY

TODAY = date(2030, 1, 1)
PRICE = read_prices(REPOSITORY / "config/prices.yaml", REPOSITORY)["t2.large"]


@pytest.fixture(scope="module")
def plan():
    return load(REPOSITORY / "config/config.yaml", REPOSITORY)


def test_the_configuration_takes_what_a_question_over_http_takes():
    schema = yaml.safe_load((REPOSITORY / "workflow/schemas/config.schema.yaml").read_text())
    known = schema["properties"]["recommend"]["properties"]["goal"]["properties"]
    assert known.keys() == Inquiry.model_fields.keys() - Training.model_fields.keys()


def test_a_goal_has_the_price_of_its_machine_and_says_that_it_is_old(plan):
    said = {"alpha": 2, "beta": 1, "machine": "t2.large", "steps": 100, "budget": 3, "deadline_h": 4}
    asked = replace(ASKED, goal=said)
    goal, warnings = goal_of(asked, list(options_of(plan, asked)), TODAY, REPOSITORY)
    assert goal == Goal(alpha=2, beta=1, steps=100, price=PRICE, budget=3, deadline_h=4)
    assert any("look it up" in warning for warning in warnings)
    assert goal_of(ASKED, list(options_of(plan, ASKED)), TODAY, REPOSITORY) == (Goal(), [])


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"beta": 1}, "goal: beta: .*name a machine"),
        ({"machine": "t2.lrge"}, "goal: machine: .*did you mean 't2.large'"),
        ({"steps": 1, "images": 1}, "goal: images: either"),
    ],
)
def test_a_goal_that_does_not_fit_is_refused_in_words(plan, goal, message):
    with pytest.raises(ConfigError, match=message):
        goal_of(replace(ASKED, goal=goal), list(options_of(plan, ASKED)), TODAY, REPOSITORY)


def test_an_accuracy_needs_points_that_are_trained_to_one(plan):
    with pytest.raises(ConfigError, match="accuracy_percent: no point"):
        options_of(plan, replace(ASKED, goal={"accuracy_percent": 90}))


def test_what_is_chosen_and_measured_follows_the_goal():
    cheap = Goal(alpha=0, beta=1, price=PRICE)
    known = [*OTHERS, *measure(OPTIONS)]
    fastest = advise(known, OPTIONS, Goal(), sureness=0.5).options[0]
    cheapest = advise(known, OPTIONS, cheap, sureness=0.5).options[0]
    assert cheapest.estimate.cell.hosts < fastest.estimate.cell.hosts
    assert cheapest.cost < fastest.estimate.cell.hosts * fastest.hours * PRICE.hourly


def test_where_no_accuracy_is_known_an_option_is_measured_for_it():
    advice = advise(OTHERS, OPTIONS, Goal(accuracy_percent=90), sureness=0.9)
    assert (advice.cell in OPTIONS, advice.why) == (True, "no accuracy is known yet")


def test_the_answer_says_what_was_wanted(tmp_path, capsys):
    goal = Goal(beta=1, price=PRICE)
    options = advise([*OTHERS, *measure(OPTIONS)], OPTIONS, goal, sureness=0.5).options
    asked = replace(ASKED, goal={"beta": 1, "machine": "t2.large"})
    write_answer(tmp_path / "answer.json", asked, goal, ["old"], Ended(Advice(None, "sure", options), [], []))
    written = json.loads((tmp_path / "answer.json").read_text())
    assert (written["goal"], written["warnings"]) == (asked.goal, ["old"])
    assert written["best"]["cost"] > 0
    assert "USD" in capsys.readouterr().err
