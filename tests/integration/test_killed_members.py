"""What real PyTorch groups do when members of them are killed in the middle of a training."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ddlbench.datasets import prepare
from ddlbench.environments.materials import Materials
from ddlbench.plan import load
from ddlbench.runs.faults import write_faults
from tests.support.small_study import small_repository, write_study

pytestmark = pytest.mark.long

RING, SYNC, ASYNC = "ring_allreduce", "parameter_server_sync", "parameter_server_async"
# Within it workers start, train and see a server's end, on a busy machine too. Nobody waits until its end but workers
# of a synchronous server, and those of a ring of which Gloo has not seen that a connection was closed.
TIMEOUT_S = {RING: 60.0, SYNC: 60.0, ASYNC: 400.0}


@pytest.fixture(scope="module")
def rows(torch_environment: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[Any, pd.Series]:
    """What became of each training, by strategy and whom it lost."""
    root = tmp_path_factory.mktemp("repository")
    settings, study = small_repository(root)
    study["faults"] = {
        name: {
            "hosts": "four",
            "workers": 3,
            "model": "mlp",
            "dataset": "digits",
            "batch_size": 48,
            "fabric": "loopback",
            "strategy": strategy,
            "kill": kill,
            "at_step": 5,
            "steps": 60,
            "timeout_s": TIMEOUT_S[strategy],
        }
        for name, strategy, kill in (
            ("a", RING, [1, "server"]),
            ("b", SYNC, [1]),
            ("c", ASYNC, [2, "server"]),
        )
    }
    write_study(root, study)
    plan = load(settings, root)
    digits = root / "digits-28x28x1.npz"
    prepare("digits", {}, digits)
    environment = Path(torch_environment["python"]).parents[1] / "environment.json"
    materials = Materials({"bare": [environment]}, {digits.stem: digits})
    tables = []
    for fault in plan.faults.values():
        table = root / f"{fault.name}.csv"
        write_faults(plan, fault, table, materials, logs=root / "logs")
        tables.append(pd.read_csv(table))
    return {(row["strategy"], row["killed"]): row for _, row in pd.concat(tables).iterrows()}


def test_a_ring_that_loses_a_worker_ends_of_its_connection_or_of_its_time_out(rows):
    row = rows[RING, "1 worker"]
    # Gloo may not see that a connection was closed between two messages
    ends = {"died": ("closed", "reset"), "hung": ("closed", "reset", "timed out", "timeout")}
    assert row["killed_members"] == "rank 2 on host h3"
    assert any(words in row["last_log_line"].lower() for words in ends[row["outcome"]])
    assert pd.isna(row["test_accuracy_percent"])


def test_a_ring_has_no_server_to_lose(rows):
    assert (RING, "the server") not in rows


def test_workers_of_a_synchronous_server_wait_for_the_one_that_is_lost_until_their_time_out(rows):
    row = rows[SYNC, "1 worker"]
    assert row["outcome"] == "hung"
    assert row["after_s"] >= 0.9 * TIMEOUT_S[SYNC]
    assert "timed out" in row["last_log_line"].lower() or "timeout" in row["last_log_line"].lower()


def test_the_last_worker_of_an_asynchronous_server_goes_on_and_learns(rows):
    row = rows[ASYNC, "2 workers"]
    assert row["outcome"] == "went_on"
    assert row["steps_done"] == 60
    assert row["test_accuracy_percent"] > 40  # 10 is knowing nothing


def test_without_their_server_asynchronous_workers_die(rows):
    row = rows[ASYNC, "the server"]
    assert row["outcome"] == "died"
    assert row["killed_members"].startswith("the server on host h4")
