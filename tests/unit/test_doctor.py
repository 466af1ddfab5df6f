"""`ddlbench doctor`: what is judged from findings, and what is found on this very machine."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from ddlbench.cli.main import main
from ddlbench.doctor.answers import findings
from ddlbench.doctor.finding import Finding, NoAnswer, here, lacking
from ddlbench.doctor.judgement import needs, verdict
from ddlbench.doctor.questions import questions
from ddlbench.doctor.screen import WIDTH, screen
from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.plan import Plan, load
from ddlbench.sandbox.sandbox import SandboxSlow, check_sandbox
from tests.support.small_study import REPOSITORY, small_repository, write_study

EVERYTHING = [
    here("runtime", "bare", "Python 3.11"),
    here("runtime", "docker", "version 29"),
    here("fabric", "emulated", "links by tbf+netem"),
    *(here("framework", name, "its environment is there") for name in ("torch", "tensorflow", "mxnet")),
    here("devices", "cpu", "2 cores"),
    lacking("scheduler", "slurm", "sinfo is not installed"),
]


@pytest.fixture(scope="module")
def plan() -> Plan:
    """The default plan."""
    return load(REPOSITORY / "config/config.yaml", REPOSITORY)


def without(kind: str, name: str, *, is_here: bool | None = False) -> list[Finding]:
    return [replace(each, is_here=is_here) if each.key == (kind, name) else each for each in EVERYTHING]


def test_with_everything_there_a_figure_is_whole(plan):
    judged = verdict(plan, "zhao2016_fig5", EVERYTHING)
    assert judged.is_whole
    assert judged.possible == judged.parts > 0
    assert judged.lacks == {}


def test_without_one_framework_of_two_a_figure_has_gaps(plan):
    judged = verdict(plan, "zhao2016_fig5", without("framework", "mxnet"))
    assert 0 < judged.possible < judged.parts
    assert judged.lacks == {"framework mxnet is lacking": judged.parts - judged.possible}


def test_without_emulated_hosts_nothing_of_it_is_left(plan):
    judged = verdict(plan, "zhao2016_fig5", without("fabric", "emulated"))
    assert judged.possible == 0
    assert "fabric emulated is lacking" in judged.lacks


def test_what_has_not_answered_is_not_said_to_be_lacking(plan):
    judged = verdict(plan, "zhao2016_fig5", without("fabric", "emulated", is_here=None))
    assert not judged.is_whole
    assert list(judged.lacks) == ["fabric emulated has not answered"]


@pytest.mark.parametrize(
    ("figure", "key"),
    [
        ("wang2019_fig2", ("fabric", "emulated")),  # a probe's
        ("shi2019_table3_1", ("framework", "torch")),  # counted models
        ("shi2019_faults", ("framework", "tensorflow")),
        ("shi2019_fig4_5", ("framework", "torch")),  # telemetry
    ],
)
def test_figures_without_points_of_their_own_need_something_too(plan, figure, key):
    assert verdict(plan, figure, EVERYTHING).possible > 0
    assert not verdict(plan, figure, without(*key)).is_whole


def test_every_figure_of_both_configurations_needs_something(plan):
    papers = load(REPOSITORY / "config/paper.yaml", REPOSITORY)
    assert all(verdict(each, name, EVERYTHING).parts for each in (plan, papers) for name in each.figures)


def test_in_a_container_a_framework_needs_no_environment_and_between_machines_there_is_a_scheduler(plan):
    bare = plan.runs[0].points[0]
    contained, between = replace(bare, runtime="docker"), replace(bare, fabric="ethernet")
    assert ("framework", "torch") in needs(bare)
    assert needs(contained) == needs(bare) - {("framework", "torch"), ("runtime", "bare")} | {
        ("runtime", "docker")
    }
    assert ("scheduler", "slurm") in needs(between)


def test_on_gpus_this_machine_must_have_one_or_between_machines_the_clusters_nodes(plan):
    point = replace(plan.runs[0].points[0], devices="gpu")
    assert needs(point) >= {("devices", "gpu"), ("fabric", "emulated")}
    of_nodes = needs(replace(point, fabric="infiniband"))
    assert of_nodes >= {("scheduler", "slurm"), ("scheduler", "gpu nodes")}
    assert ("devices", "gpu") not in of_nodes


def test_without_a_gpu_a_figure_that_has_points_on_one_has_gaps_for_want_of_it(tmp_path):
    settings, study = small_repository(tmp_path)
    study["grids"]["bandwidth"] |= {"devices": ["cpu", "gpu"]}
    write_study(tmp_path, study)
    plan = load(settings, tmp_path, gpus=1)
    judged = verdict(plan, "small2000_fig1", [*EVERYTHING, lacking("devices", "gpu", "no NVIDIA driver")])
    assert judged.parts == 2 * judged.possible
    assert judged.lacks == {"devices gpu is lacking": judged.possible}
    assert verdict(plan, "small2000_fig1", [*EVERYTHING, here("devices", "gpu", "1 x NVIDIA A100")]).is_whole


def test_a_figure_that_there_is_not_is_refused_with_the_nearest_name(plan):
    with pytest.raises(ConfigError, match=r"no figure 'zhao2016_fig55' \(did you mean 'zhao2016_fig5'\?\)"):
        verdict(plan, "zhao2016_fig55", EVERYTHING)


@pytest.mark.long
def test_a_question_that_hangs_or_fails_is_an_answer_like_the_others():
    def fails() -> Finding:
        raise DdlbenchError("no daemon answers (it is off). On Debian:  systemctl start it")

    def is_silent() -> Finding:
        raise NoAnswer("nothing")

    def hangs() -> Finding:
        Event().wait()
        raise AssertionError

    asked = [
        ("runtime", "a", lambda: here("runtime", "a", "yes")),
        ("runtime", "b", fails),
        ("runtime", "c", hangs),
        ("runtime", "d", is_silent),
    ]
    one, two, three, four = findings(asked, patience_s=5)
    assert (one.is_here, two.is_here, three.is_here, four.is_here) == (True, False, None, None)
    assert (two.says, two.to_do) == ("no daemon answers (it is off)", "On Debian: systemctl start it")


def test_the_screen_shows_everything_and_groups_figures_that_lack_the_same(plan):
    findings_without = without("framework", "mxnet")
    verdicts = [verdict(plan, name, findings_without) for name in ("zhao2016_fig5", "pani2020_fig1")]
    shown = screen(findings_without, verdicts)
    assert all(len(line) <= WIDTH for line in shown.splitlines())
    assert all(f" {each.name} " in shown for each in findings_without)
    assert "1 of 2 figures can be made here" in shown
    assert "zhao2016_fig5: with gaps" in shown


def test_it_finds_what_this_machine_has(tmp_path):
    settings = load(REPOSITORY / "config/config.yaml", REPOSITORY).settings
    found = {
        each.key: each for each in findings(questions(settings, REPOSITORY, patience_s=50), patience_s=60)
    }
    assert found["runtime", "bare"].is_here
    assert found["fabric", "loopback"].says.startswith("lo")
    assert found["devices", "cpu"].is_here
    assert found["devices", "gpu"].is_here is bool(list(Path("/dev").glob("nvidia[0-9]*")))
    try:
        check_sandbox()
    except DdlbenchError:
        assert found["fabric", "emulated"].is_here is False
    else:
        assert "tbf+" in found["fabric", "emulated"].says
    for each in found.values():
        assert each.says


def test_it_answers_in_json_and_its_exit_status_is_that_of_the_figures_asked_for(monkeypatch, capsys):
    monkeypatch.chdir(REPOSITORY)
    status = main(["doctor", "--json", "--patience", "60", "shi2019_table3_1"])
    told = json.loads(capsys.readouterr().out)
    (figure,) = told["figures"]
    assert status == (0 if figure["is_whole"] else 1)
    assert {"runtime", "fabric", "framework", "devices", "scheduler", "privilege"} == {
        each["kind"] for each in told["findings"]
    }


@pytest.mark.parametrize("patience", ["inf", "nan", "-1", "0"])
def test_a_patience_that_nobody_can_have_is_refused(patience, capsys):
    assert main(["doctor", "--patience", patience]) == 2
    assert f"{patience} is not a time in seconds" in capsys.readouterr().err


def test_between_machines_figures_are_judged_by_the_scheduler(monkeypatch, capsys):
    monkeypatch.chdir(REPOSITORY)
    told = ["doctor", "--patience", "60", "--json", "--configfile", "config/examples/cluster.yaml"]
    status = main(told)
    answer = json.loads(capsys.readouterr().out)
    scheduler = next(each for each in answer["findings"] if each["name"] == "slurm")
    (figure,) = (each for each in answer["figures"] if each["figure"] == "cluster2026_ethernet")
    assert status == (0 if figure["is_whole"] else 1)
    assert figure["is_whole"] is scheduler["is_here"]


def test_a_figure_that_there_is_not_ends_with_status_2(monkeypatch, capsys):
    monkeypatch.chdir(REPOSITORY)
    assert main(["doctor", "zhao2016_fig55"]) == 2
    assert "did you mean" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["{", "3", '{"failure": "no pip"}'])
def test_an_environment_whose_description_is_damaged_is_one_that_is_made_when_it_is_needed(
    plan, tmp_path, damage
):
    stamp = tmp_path / ".environments/torch/environment.json"
    stamp.parent.mkdir(parents=True)
    stamp.write_text(damage)
    (tmp_path / "containers").symlink_to(REPOSITORY / "containers")
    asked = {each[:2]: each[2] for each in questions(plan.settings, tmp_path, patience_s=60)}
    assert asked["framework", "torch"]().says == "made when a figure first needs it"


@pytest.mark.parametrize("asked", [("privilege", "sandbox"), ("fabric", "emulated")])
def test_a_sandbox_that_takes_too_long_is_no_sandbox_that_is_forbidden(plan, monkeypatch, asked):
    def slow(*, patience_s):
        assert patience_s == 60
        raise SandboxSlow("not made in 60 s")

    monkeypatch.setattr("ddlbench.doctor.questions.check_sandbox", slow)
    (question,) = (each for each in questions(plan.settings, REPOSITORY, patience_s=60) if each[:2] == asked)
    (finding,) = findings([question], patience_s=60)
    assert finding.is_here is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
        ("exit 0", "sinfo lists no partition"),
    ],
    ids=["fails", "silent"],
)
def test_an_sinfo_that_tells_nothing_does_not_mean_that_there_are_no_gpus(
    plan, tmp_path, monkeypatch, answer, why
):
    sinfo = tmp_path / "sinfo"
    sinfo.write_text(f"#!/bin/sh\n{answer}\n")
    sinfo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    asked = [each for each in questions(plan.settings, REPOSITORY, patience_s=60) if each[0] == "scheduler"]
    for finding in findings(asked, patience_s=60):
        assert finding.is_here is False
        assert "SLURM does not answer: " in finding.says
        assert why in finding.says
