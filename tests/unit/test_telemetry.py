"""Telemetry as Parquet, the rates in it, and the table of a figure of it."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from made_up_telemetry import ABOUT, rows

from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file
from ddlbench.measurements.mismatches import verify
from ddlbench.measurements.store import Store
from ddlbench.measurements.trace_tree import trace
from ddlbench.plan.figure_kinds import KINDS
from ddlbench.telemetry.series import RATES, SCHEMA, about, as_parquet, rates, read
from ddlbench.telemetry.table import tabulate
from tests.support.measurement_samples import a_point, a_record, an_entry, write_manifest

TICKS = [10.0, 10.1, 10.2, 10.3]


def a_part(path: Path, content) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_parquet(list(content), ABOUT))
    return path


def with_telemetry(root: Path, **point) -> tuple[Path, Path]:
    """A manifest of one measured point, and its only part."""
    (root / "Snakefile").write_text("")
    part = a_part(root / "results/telemetry/zhao2016/run1/start/00000.parquet", rows(TICKS))
    files = [{"path": str(part.relative_to(root)), "sha256": sha256_file(part)}]
    record = a_record(
        3, a_point(**point), telemetry={"files": files, "begin_s": 10.0, "end_s": 10.3, "hosts": {}}
    )
    path = Store(root / "results/store").add(record)
    entry = an_entry(a_point(**point), [str(path.relative_to(root))])
    return write_manifest(root / "results/runs/zhao2016/run1.json", [entry]), part


def test_what_is_written_is_read_again(tmp_path):
    later, earlier = (
        a_part(tmp_path / f"{name}.parquet", rows([moment])) for name, moment in (("1", 10.1), ("0", 10.0))
    )
    found = read([later, earlier])
    assert list(found.columns) == SCHEMA.names
    assert set(found["host"]) == {"h1", "h2"}
    assert set(found["interface"]) == {"lo", "eth0"}
    assert about(later) == ABOUT
    assert len(pd.read_parquet(tmp_path)) == len(found)  # a folder is one table


def test_a_value_that_is_no_column_is_refused():
    with pytest.raises(Exception, match="unexpected"):
        as_parquet([{"pass": 1, "unheard_of": 2}], ABOUT)


def test_a_part_that_is_cut_off_is_named(tmp_path):
    part = a_part(tmp_path / "0.parquet", rows(TICKS))
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(DdlbenchError, match=r"0\.parquet: this telemetry cannot be read"):
        read([part])


def test_rates_are_the_growth_of_counters_in_the_hosts_own_time(tmp_path):
    found = rates(read([a_part(tmp_path / "0.parquet", rows(TICKS))]), ABOUT)
    assert list(found["host"]) == ["h1"] * 3 + ["h2"] * 3
    assert list(found["cpu_percent"]) == pytest.approx([25] * 6)  # one of four processors
    assert list(found["sent_packets_per_s"]) == pytest.approx([1000] * 3 + [2000] * 3, rel=0.02)
    assert list(found["sent_mbit"]) == pytest.approx([8] * 3 + [16] * 3, rel=0.02)
    assert list(found["retransmits_per_s"]) == [0] * 6
    assert list(found["memory_gb"]) == [0.5] * 6
    assert found["gpu_percent"].isna().all()
    assert set(RATES) <= set(found.columns)


@pytest.mark.parametrize("moment", [10.199, 10.31])
def test_an_interval_of_a_few_milliseconds_is_one_with_that_before_it(tmp_path, moment):
    times = sorted([*TICKS, moment])
    found = rates(read([a_part(tmp_path / "0.parquet", rows(times, hosts=1))]), ABOUT)
    assert len(found) == 3
    assert found["interval_s"].min() > 0.09
    assert found["interval_s"].sum() == pytest.approx(times[-1] - times[0])


def test_two_moments_are_one_interval_however_close(tmp_path):
    found = rates(read([a_part(tmp_path / "0.parquet", rows([10.0, 10.001], hosts=1))]), ABOUT)
    assert list(found["interval_s"]) == pytest.approx([0.001])


def test_hosts_that_share_a_network_have_processors_and_no_packets(tmp_path):
    found = rates(read([a_part(tmp_path / "0.parquet", rows(TICKS, shared_network=True))]), ABOUT)
    assert list(found["cpu_percent"]) == pytest.approx([25] * 6)
    assert found["sent_packets_per_s"].isna().all()


def test_what_a_figure_can_show_are_the_rates():
    schema = yaml.safe_load((Path(__file__).parents[2] / "workflow/schemas/study.schema.yaml").read_text())
    assert KINDS["telemetry"].y == RATES
    assert set(RATES) <= set(schema["$defs"]["figure"]["properties"]["y"]["enum"])


def test_the_table_has_the_timed_steps_of_the_last_repetition(tmp_path):
    manifest, part = with_telemetry(tmp_path)
    table, files = tabulate([manifest])
    assert files == [part]
    assert list(table["node"].unique()) == ["h1", "h2"]
    assert table["time_s"].iloc[0] == pytest.approx(0.05, abs=0.001)
    assert set(table["repetition"]) == {3}
    assert set(table["status"]) == {"measured"}


def test_a_point_without_telemetry_is_a_row_that_says_so(tmp_path):
    (tmp_path / "Snakefile").write_text("")
    path = Store(tmp_path / "results/store").add(a_record(1))
    manifest = write_manifest(
        tmp_path / "results/runs/zhao2016/run1.json", [an_entry(a_point(), [str(path.relative_to(tmp_path))])]
    )
    table, files = tabulate([manifest])
    assert files == []
    assert list(table["status"]) == ["not_recorded"]
    assert "enabled: false" in table["reason"].iloc[0]


def test_changed_telemetry_is_named_by_verify_and_shown_by_trace(tmp_path):
    manifest, part = with_telemetry(tmp_path)
    assert verify(manifest) == []
    assert f"telemetry {part.relative_to(tmp_path)}" in trace(manifest).text
    record = next((tmp_path / "results/store").rglob("*.json"))
    assert json.loads(record.read_text())["telemetry"]["files"][0]["path"] in trace(record).text
    part.write_bytes(part.read_bytes() + b" ")
    (mismatch,) = verify(manifest)
    assert (mismatch.path, mismatch.why) == (str(part.relative_to(tmp_path)), "has changed")
    assert len(verify(record)) == 1
