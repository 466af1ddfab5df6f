"""What the store has of a run: which points are tried again when there is more memory, and what a manifest lists."""

import json
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace

import pytest
from test_filled_hosts import plan_of

from ddlbench.environments.materials import Materials
from ddlbench.measurements.provenance import sidecar_path
from ddlbench.measurements.store import Store
from ddlbench.network.hosts import GIB, MEMORY_SHARE
from ddlbench.runs import placement
from ddlbench.runs.inventory import Inventory
from tests.support.measurement_samples import a_record

STUDIED_GB, HOSTS = 4, 2


class Stored:
    """An inventory of one run of two hosts of 4 GB, on a machine whose memory can be set."""

    def __init__(self, root, monkeypatch):
        self.monkeypatch = monkeypatch
        plan = plan_of(root, workers=[HOSTS])
        self.run = plan.runs[0]
        self.point = self.run.points[0]
        environment, dataset = root / "torch.json", root / f"{self.point.dataset_key}.npz"
        environment.write_text(json.dumps({"python": "/usr/bin/python3"}))
        dataset.write_bytes(b"images")
        described = {
            "sha256": sha256(b"images").hexdigest(),
            "parameters": {"train_images": 10, "test_images": 2},
        }
        sidecar_path(dataset).write_text(json.dumps(described))
        self.store = Store(root / "store")
        self.memory_gb(STUDIED_GB)
        materials = Materials({"bare": [environment]}, {self.point.dataset_key: dataset})
        self.inventory = Inventory(plan, self.run, materials, self.store, datetime.now(UTC))
        self.key = self.inventory.fingerprint(self.point, self.run)

    def memory_gb(self, of_a_host):
        """Let this machine have so much for each host."""
        available = int(of_a_host * HOSTS / MEMORY_SHARE * GIB) + HOSTS
        found = SimpleNamespace(available=available)
        self.monkeypatch.setattr(placement.psutil, "virtual_memory", lambda: found)

    def add(self, repetition=0, **values):
        return self.store.add(
            a_record(repetition, self.point.as_dict(), **{"fingerprint": self.key, **values})
        )

    def add_unfit(self, repetition=0, gb=STUDIED_GB, **values):
        tried = {"status": "does_not_fit", "reason": f"into {gb:g} GB", "host_memory_bytes": int(gb * GIB)}
        return self.add(repetition, step_times_ms=[], metrics={}, **tried | values)

    def add_stalled(self, repetition, **values):
        stalled = {"status": "stalled", "reason": "the link stalled", "stalled_s": 240.0}
        return self.add(repetition, step_times_ms=[], metrics={}, **stalled | values)

    def is_pending(self):
        return self.inventory.is_pending(self.point, self.run)

    def entry(self):
        return self.inventory.entry(self.point, self.run)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    return Stored(tmp_path, monkeypatch)


def test_what_did_not_fit_is_tried_again_when_hosts_have_clearly_more_memory(stored):
    stored.add_unfit(gb=1.4)
    for gb, is_pending in ((1.3, False), (1.4, False), (1.5, False), (2.0, True)):
        stored.memory_gb(gb)
        assert stored.is_pending() == is_pending


def test_what_did_not_fit_into_the_studys_hosts_is_never_tried_again(stored):
    stored.add_unfit()
    stored.memory_gb(100)
    assert not stored.is_pending()


def test_a_record_that_does_not_say_what_its_hosts_had_is_not_tried_again(stored):
    stored.add(status="does_not_fit", step_times_ms=[], metrics={})
    assert not stored.is_pending()


def test_a_try_that_did_not_fit_is_no_repetition(stored):
    stored.add_unfit(gb=1.4)
    asked = stored.inventory.to_measure(stored.key, stored.point, 1)
    assert (asked.used, asked.timed) == ([], [])
    assert stored.inventory.lacking(stored.key, stored.point) == stored.inventory.measure.min_repetitions


def test_too_little_memory_hides_no_repetitions_from_before(stored):
    paths = [str(stored.add(number)) for number in (0, 1)]
    stored.add_unfit(2, gb=1.4)
    assert (stored.entry().status, stored.entry().measurements) == ("measured", paths)


def test_what_has_stalled_at_once_is_tried_again_by_the_next_invocation_and_not_by_this_one(stored):
    stored.add_stalled(0)
    assert (stored.entry().status, stored.entry().reason) == ("stalled", "the link stalled")
    assert (stored.entry().stalled, stored.entry().is_to_try_again) == (1, True)
    assert stored.is_pending()
    stored.add_stalled(1, started=datetime.now(UTC).isoformat())
    assert not stored.is_pending()


def test_what_has_stalled_and_does_not_fit_is_not_tried_again_at_each_call(stored):
    stored.add_stalled(0)
    stored.add_unfit(1)
    assert not stored.entry().is_to_try_again


def test_what_has_stalled_at_once_is_no_estimate_and_its_number_is_not_used_again(stored):
    fewest = stored.inventory.measure.min_repetitions
    stored.add_stalled(0)
    stored.add(1)
    asked = stored.inventory.to_measure(stored.key, stored.point, 1)
    assert (asked.used, len(asked.timed)) == ([0, 1], 1)
    assert stored.inventory.lacking(stored.key, stored.point) == fewest - 1
    entry = stored.entry()
    assert (entry.status, entry.reason, len(entry.measurements), entry.stalled) == ("measured", None, 1, 1)
    assert entry.is_to_try_again
    for number in range(2, fewest + 1):
        stored.add(number)
    assert not stored.entry().is_to_try_again


def test_of_several_tries_that_did_not_fit_the_last_one_counts(stored):
    stored.add_unfit(gb=1.4)
    last = stored.add_unfit(gb=2.0, started=datetime.now(UTC).isoformat())
    assert (stored.entry().reason, stored.entry().measurements) == ("into 2 GB", [str(last)])
