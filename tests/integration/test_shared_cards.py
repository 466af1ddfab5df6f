"""Hosts of several workers: two levels of links, and all-reduces that know them or do not."""

from collections.abc import Callable
from typing import Any

import pytest

from ddlbench.datasets import prepare
from ddlbench.workers.common.memory import parameter_bytes
from tests.integration.test_replay import LEAST, MODEL, MOST, SMALL, step
from tests.support.sandboxes import run_inside

pytestmark = pytest.mark.long


@pytest.fixture
def through(tmp_path, torch_environment) -> Callable[..., Any]:
    """A function that says what four workers on two hosts send through their links and cards."""
    return lambda strategy, framework="torch": run_inside(
        tmp_path,
        "bytes_through_cards",
        python=torch_environment["python"],
        strategy=strategy,
        point=step(),
        workers=4,
        workers_per_host=2,
        framework=framework,
    )


@pytest.mark.parametrize(
    ("strategy", "of_card", "of_worker"),
    [
        # One worker of each host sends to the other host, and so all that it sends passes the card.
        ("ring_allreduce", 1.5, 1.5),
        # Half of the model to the other worker, twice; of its half, half to the other host, twice.
        ("hierarchical_allreduce", 1.0, 1.5),
    ],
)
def test_an_all_reduce_of_two_levels_moves_the_model_once_through_each_card(
    through, strategy, of_card, of_worker
):
    model = parameter_bytes(MODEL, SMALL)
    found = through(strategy)
    for sent in found["cards"]:
        assert LEAST * of_card * model < sent < MOST * of_card * model
    for sent in found["inside"]:
        assert LEAST * of_worker * model < sent < MOST * of_worker * model


def test_training_by_two_levels_gives_all_ranks_the_parameters_that_a_ring_gives(tmp_path, torch_environment):
    digits = tmp_path / "digits.npz"
    prepare("digits", {}, digits)

    def trained(strategy: str) -> list[dict[str, Any]]:
        (found,) = run_inside(
            tmp_path,
            "trainings",
            python=torch_environment["python"],
            datasets={"digits-28x28x1": str(digits)},
            workers=4,
            workers_per_host=2,
            strategy=strategy,
            points=[{"model": "mlp", "batch_size": 64, "seed": 1}],
        )
        return found["ranks"]

    ring, levels = trained("ring_allreduce"), trained("hierarchical_allreduce")
    assert len({rank["parameters_sha256"] for rank in levels}) == 1
    assert levels[0]["test_loss"] == pytest.approx(ring[0]["test_loss"], rel=1e-4)


def test_the_kernel_holds_cards_and_the_links_inside_of_hosts_to_their_rates_and_both_are_measured(tmp_path):
    found = run_inside(tmp_path, "verified_cards", card=200.0, inside=800.0)
    assert found["given_mbit"] == [800.0] * 4 + [200.0] * 2
    assert found["measured"]["card"]["rate_mbit"] > 0
    assert found["measured"]["inside"]["rate_mbit"] > 0
