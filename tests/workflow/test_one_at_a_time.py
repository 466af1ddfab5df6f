"""One measurement at a time on a machine, whatever options Snakemake is given."""

import pytest

from ddlbench.runs.machine_lock import alone_on_this_machine
from tests.support.pipeline import Pipeline


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--cores", "4096"),
        ("--set-threads", "measure=1"),
        ("--cores", "4096", "--set-threads", "measure=1"),
        ("--config", "fresh=true"),
    ],
)
@pytest.mark.long
def test_no_option_gets_around_the_lock_of_the_machine(prepared: Pipeline, options: tuple[str, ...]) -> None:
    prepared.configure({"other_measurements": "refuse"})
    with alone_on_this_machine("wait"):
        second = prepared.attempt(prepared.manifest("bandwidth"), *options)
    assert second.returncode != 0
    assert "another measurement is running on this machine (process " in second.stderr
    assert prepared.measurements() == {}


def test_a_probe_from_the_command_line_waits_its_turn_too(prepared: Pipeline) -> None:
    prepared.configure({"other_measurements": "refuse"})
    with alone_on_this_machine("wait"):
        second = prepared.ddlbench("probe", "link", "gigabit", "--dilation", "10")
    assert second.returncode != 0
    assert "another measurement is running on this machine (process " in second.stderr
