"""Content decides: what is not what was made is neither used nor left, and the terminal says so."""

import json
import re
from pathlib import Path
from random import Random

import pytest

from benchmarks.torture.store import together
from ddlbench.measurements.record import seal
from tests.support.pipeline import Pipeline
from tests.support.repository import dry_run
from tests.support.tiny_study import TINY_STUDY

FIGURE = "results/figures/tiny2000_fig1"
TABLE = "results/tables/tiny2000_fig1.csv"
TARGET = "tiny2000_fig1"


def verified(pipeline: Pipeline) -> bool:
    return pipeline.ddlbench("verify").returncode == 0


def rows(pipeline: Pipeline) -> str:
    return (pipeline.root / f"{FIGURE}.csv").read_text()


@pytest.mark.long
def test_a_value_written_into_a_table_is_not_drawn(drawn_copy: Pipeline) -> None:
    table, drawn = drawn_copy.root / TABLE, rows(drawn_copy)
    sound = table.read_text()
    table.write_text(re.sub(r",measured,", ",measured,by hand", sound, count=1))
    assert dry_run(drawn_copy.root, TARGET) == {"table": 1, TARGET: 1}
    said = drawn_copy.run(TARGET)
    assert f"{TABLE}: has changed" in said
    assert "results/set-aside/" in said
    assert table.read_text() == sound
    assert rows(drawn_copy) == drawn
    (aside,) = (drawn_copy.root / "results/set-aside").iterdir()
    assert "by hand" in aside.read_text()
    assert verified(drawn_copy)
    assert "Nothing to be done" in drawn_copy.run(TARGET)


@pytest.mark.long
def test_records_resealed_as_those_of_another_point_move_no_table(drawn_copy: Pipeline) -> None:
    store = drawn_copy.root / "results/store"
    slow, fast = (
        [
            file
            for file in store.rglob("*.json")
            if json.loads(file.read_text())["point"]["bandwidth_mbit"] == mbit
        ]
        for mbit in (100, 200)
    )
    key = fast[0].parent.name
    for file in slow:
        (fast[0].parent / file.name).write_text(
            json.dumps(seal({**json.loads(file.read_text()), "fingerprint": key}))
        )
    (drawn_copy.root / drawn_copy.manifest("bandwidth")).unlink()
    said = drawn_copy.run(TARGET)
    assert said.count("its fingerprint is not that of the point and the conditions that it states") == len(
        slow
    )
    (manifest,) = (drawn_copy.root / "results/runs").rglob("*[0-9a-f].json")
    for entry in json.loads(manifest.read_text())["points"]:
        for name in entry["measurements"]:
            assert json.loads((drawn_copy.root / name).read_text())["point"] == entry["point"]
    assert verified(drawn_copy)


def test_a_changed_record_is_measured_again(drawn_copy: Pipeline) -> None:
    before = drawn_copy.measurements()
    name = min(before)
    victim = drawn_copy.root / "results/store" / name
    record = json.loads(victim.read_text())
    victim.write_text(json.dumps(seal({**record, "step_times_ms": [[1.0], [1.0]]})))
    assert drawn_copy.ddlbench("trace", f"{FIGURE}.svg").returncode == 1
    said = drawn_copy.run(TARGET)
    assert f"{name}: has changed" in said
    after = drawn_copy.measurements()
    assert len(after) == len(before)
    assert name not in after
    assert verified(drawn_copy)


def test_repair_names_what_is_damaged_and_the_command_and_mends_it(drawn_copy: Pipeline) -> None:
    (drawn_copy.root / f"{FIGURE}.pdf").write_bytes(b"")
    (drawn_copy.root / f"{TABLE}.prov.json").unlink()
    before = drawn_copy.measurements()
    answer = drawn_copy.ddlbench("verify", "--repair")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"{FIGURE}.pdf: has changed" in answer.stdout
    assert f"to mend it: snakemake --cores all {FIGURE}.svg" in answer.stdout
    assert f"{TABLE}: has no sidecar" in answer.stdout
    assert answer.stdout.endswith("all match\n")
    assert drawn_copy.measurements() == before
    assert drawn_copy.ddlbench("trace", f"{FIGURE}.svg").returncode == 0


def test_results_of_an_unknown_figure_are_left_to_their_own_configuration(drawn_copy: Pipeline) -> None:
    (drawn_copy.root / f"{FIGURE}.pdf").write_bytes(b"")
    figures = {name: figure for name, figure in TINY_STUDY["figures"].items() if name != TARGET}
    drawn_copy.configure({"default_figures": list(figures)}, {**TINY_STUDY, "figures": figures})
    answer = drawn_copy.ddlbench("verify", "--repair")
    assert answer.returncode == 1
    assert "makes nothing of this" in answer.stdout
    assert (drawn_copy.root / f"{FIGURE}.svg").exists()


def test_thirty_random_mutations_are_all_noticed(drawn: Pipeline, tmp_path: Path) -> None:
    random = Random(15)
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        for outcome in together(drawn, folder, random, 10):
            assert outcome.is_noticed, outcome


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 1), (1, 4)], ids=["of a measurement", "of what is made of them"]
)
@pytest.mark.long
def test_random_mutations_are_not_used_by_the_next_run_and_are_mended(
    drawn: Pipeline, tmp_path: Path, seed: int, count: int
) -> None:
    for outcome in together(drawn, tmp_path, Random(seed), count, [TARGET]):
        assert outcome.is_good, outcome
