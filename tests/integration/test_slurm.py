"""Measuring on a real SLURM cluster: four nodes, all of them on this machine and on its network."""

import json
import signal
import subprocess
import sys
from itertools import pairwise

import psutil
import pytest

from ddlbench.runs.measure_run import SESSION
from tests.support.on_cluster import LONG, PATIENCE_S, OnCluster, wait_for
from tests.support.repository import environment
from tests.support.slurm_cluster import command_of

pytestmark = pytest.mark.timeout(1800)


def test_the_same_point_is_measured_on_two_and_on_four_nodes(on_cluster):
    on_cluster.configure({"relaunch": True})
    assert on_cluster.run("tiny2000_few") == 0, on_cluster.pipeline.said
    assert (on_cluster.pipeline.root / "results/figures/tiny2000_few.svg").is_file()
    records = on_cluster.records()
    assert {record["point"]["workers"] for record in records} == {2, 4}
    for record in records:
        workers, slurm = record["point"]["workers"], record["provenance"]["slurm"]
        assert record["parameters_identical"]
        assert slurm["exclusive"] is True
        assert len(record["parameters_sha256"]) == len(record["step_times_ms"]) == workers
        assert slurm["nodes"] == [f"node{number}" for number in range(1, workers + 1)]
        assert [facts["slurm_job"] for facts in record["provenance"]["hosts"]] == [slurm["job"]] * workers
        assert set(slurm["interfaces"]) == set(record["telemetry"]["hosts"]) == set(slurm["nodes"])
        assert len(record["telemetry"]["files"]) == workers
    assert len({record["launch"] for record in records}) == len(records)  # each repetition has new workers
    sidecar = json.loads(
        next(on_cluster.pipeline.root.glob("results/runs/*/*2w*.json.prov.json")).read_text()
    )
    assert "node[1-2]" in json.dumps(sidecar)


def test_a_parameter_server_has_a_node_of_its_own(on_cluster):
    assert on_cluster.run("tiny2000_server") == 0, on_cluster.pipeline.said
    for record in on_cluster.records():
        assert len(record["provenance"]["slurm"]["nodes"]) == 3
        assert len(record["step_times_ms"]) == 2


def test_on_nodes_with_gpus_a_framework_without_cuda_says_which_requirements_have_it(on_cluster):
    assert on_cluster.run("tiny2000_gpus", "--retries", "0") == 1
    told = on_cluster.pipeline.said
    assert "environments: {torch: {requirements: containers/torch/requirements-cuda.txt}}" in told
    assert "has been submitted" not in told


def test_jobs_are_not_submitted_as_arrays(on_cluster):
    assert on_cluster.run("tiny2000_two", "--slurm-array-jobs", "all") == 1
    assert "slurm-array-jobs: ddlbench submits each job by itself" in on_cluster.pipeline.said
    assert "has been submitted" not in on_cluster.pipeline.said


def test_the_logs_of_jobs_that_succeeded_are_kept_on_request(on_cluster):
    assert on_cluster.run("tiny2000_two", "--slurm-keep-successful-logs") == 0, on_cluster.pipeline.said
    assert list(on_cluster.pipeline.root.glob(".snakemake/slurm_logs/**/*.log"))


def test_in_an_allocation_runs_share_its_nodes_one_at_a_time(on_cluster):
    asked = ("salloc", "--nodes=4", sys.executable, "-m", "snakemake", "tiny2000_few", "--cores", "2")
    root = on_cluster.pipeline.root
    command = on_cluster.nodes.command(*asked, folder=root)
    ended = subprocess.run(command, env=environment(root), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    records = on_cluster.records()
    assert {record["point"]["workers"] for record in records} == {2, 4}
    assert len(on_cluster.jobs()) == 1
    assert all(before["ended"] <= after["started"] for before, after in pairwise(records))


@pytest.mark.parametrize("harm", ["kill_daemon", "crash"])
def test_a_run_goes_on_elsewhere_when_a_node_fails(on_cluster, four_nodes, harm):
    on_cluster.configure(LONG | {"min_repetitions": 200, "max_repetitions": 200})
    going = on_cluster.start("tiny2000_two")
    lost = "node2"
    try:
        wait_for(on_cluster.pipeline.measurements, going)
        lost = on_cluster.records()[0]["provenance"]["slurm"]["nodes"][1]  # not where the driver is
        getattr(four_nodes, harm)(lost)
        assert going.wait(2 * PATIENCE_S) == 0, on_cluster.pipeline.said
    finally:
        on_cluster.kill(going)
        four_nodes.restart_daemon(lost)
    records = on_cluster.records()
    assert len(records) == 200  # none twice, none lost
    assert lost not in records[-1]["provenance"]["slurm"]["nodes"]
    assert len(on_cluster.attempts()) > 1


def test_a_driver_that_slurm_has_given_up_stores_nothing_beside_its_successor(on_cluster, four_nodes):
    on_cluster.configure(LONG)
    going = on_cluster.start("tiny2000_emulated", "--retries", "0")
    wait_for(on_cluster.pipeline.measurements, going)
    (given_up,) = on_cluster.processes(SESSION)
    lost = given_up.environ()["SLURMD_NODENAME"]
    try:
        four_nodes.kill_daemon(lost)
        wait_for(lambda: len(on_cluster.attempts()) > 1, going)
        wait_for(lambda: not given_up.is_running(), going)
        kept = len(on_cluster.records())
        wait_for(lambda: len(on_cluster.records()) > kept + 10, going)
    finally:
        on_cluster.kill(going)
        four_nodes.restart_daemon(lost)
    repetitions = [record["repetition"] for record in on_cluster.records()]
    assert repetitions == list(range(len(repetitions)))  # none twice
    assert len(on_cluster.attempts()) == 2


def test_a_pre_empted_run_goes_on_when_it_has_its_nodes_again(on_cluster, four_nodes):
    on_cluster.configure(LONG | {"min_repetitions": 60, "max_repetitions": 60})
    going = on_cluster.start("tiny2000_two", "--retries", "0")
    wait_for(on_cluster.pipeline.measurements, going)
    four_nodes.ask(
        "sbatch", "--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=true"
    )
    assert going.wait(2 * PATIENCE_S) == 0, on_cluster.pipeline.said
    assert [record["repetition"] for record in on_cluster.records()] == list(range(60))
    assert len(on_cluster.jobs()) == 1  # SLURM has started the same job again
    assert len(on_cluster.attempts()) > 1


def test_emulated_hosts_are_measured_by_a_job_on_one_node(on_cluster):
    on_cluster.pipeline.configure()
    assert on_cluster.run("tiny2000_fig1") == 0, on_cluster.pipeline.said
    jobs = [facts["slurm_job"] for record in on_cluster.records() for facts in record["provenance"]["hosts"]]
    assert len(jobs) == 8  # two hosts, two links, two repetitions
    assert len(set(jobs)) == 1
    assert jobs[0] is not None


def test_a_cancelled_run_goes_on_in_a_retry(on_cluster, four_nodes):
    on_cluster.configure(LONG | {"min_repetitions": 60, "max_repetitions": 60})
    going = on_cluster.start("tiny2000_two", "--config", "fresh=true")  # the retry is of the same call
    wait_for(on_cluster.pipeline.measurements, going)
    four_nodes.ask("scancel", *on_cluster.jobs())
    assert going.wait(2 * PATIENCE_S) == 0, on_cluster.pipeline.said
    assert len(on_cluster.jobs()) > 1
    assert [record["repetition"] for record in on_cluster.records()] == list(range(60))
    first, *_, last = on_cluster.attempts()
    assert "CANCELLED" in first["how"]
    assert last["how"] == "done"


@pytest.fixture(scope="module")
def out_of_time(with_data, four_nodes, tmp_path_factory):
    """Two pipelines whose jobs had a minute each: of one that had measured, and of one that could not."""
    measured, not_begun = (
        OnCluster(with_data.copy(tmp_path_factory.mktemp(name) / "ddlbench"), four_nodes)
        for name in ("measured", "not_begun")
    )
    measured.configure(LONG)  # two minutes of measuring; SLURM looks twice a minute whose time is over
    a_minute = {"figures": {"tiny2000_two": {"runtime_min": 1}}}
    not_begun.configure(dict.fromkeys(("min_steps", "max_steps"), 1_000_000), cluster=a_minute)
    going = [
        measured.start("tiny2000_two", "--retries", "1"),
        not_begun.start("tiny2000_two", "--retries", "1"),
    ]
    wait_for(measured.pipeline.measurements, going[0])
    four_nodes.ask("scontrol", "update", f"JobId={measured.jobs()[0]}", "TimeLimit=1")
    assert [each.wait(2 * PATIENCE_S) for each in going] == [0, 1], measured.pipeline.said
    return measured, not_begun


def test_a_run_that_meets_its_time_limit_goes_on_in_a_retry(out_of_time):
    on_cluster, _ = out_of_time
    assert len(on_cluster.records()) == LONG["min_repetitions"]
    cut_short, last = on_cluster.attempts()
    assert "TIMEOUT" in cut_short["how"]
    assert last["how"] == "done"


def test_a_time_limit_that_was_over_before_the_first_measurement_is_told_and_not_met_again(out_of_time):
    _, on_cluster = out_of_time
    assert len(on_cluster.attempts()) == 1  # of the two jobs
    told = "the time limit of 1 min ended attempt 1 before its first measurement, and now it is 1 min; ask for more"
    assert told in on_cluster.told()


def test_nothing_is_left_on_any_node_of_a_driver_that_is_killed(on_cluster):
    on_cluster.configure(LONG)
    going = on_cluster.start("tiny2000_two", "--retries", "0")
    wait_for(on_cluster.pipeline.measurements, going)
    of_ours = on_cluster.processes("ddlbench.cluster.node_agent")
    theirs = [child for each in of_ours for child in each.children(recursive=True)]
    (session,) = on_cluster.processes(SESSION)
    assert len(of_ours) == 2
    assert len(theirs) >= 4  # on each node a worker and a sampler
    session.kill()
    wait_for(lambda: not any(each.is_running() for each in [*of_ours, *theirs]))
    assert going.wait(PATIENCE_S) == 1
    said = on_cluster.pipeline.said  # the last words of the job, which it has said on its node
    assert " failed (exit status -9); " in said
    assert "Detailed failure reason unavailable" not in said


def test_a_driver_ends_with_its_jobs_although_slurmctld_does_not_answer(on_cluster, four_nodes):
    on_cluster.pipeline.configure({"measure": LONG | {"min_repetitions": 30, "max_repetitions": 30}})
    manifest = on_cluster.pipeline.manifest("bandwidth")
    going = on_cluster.start(manifest)
    wait_for(on_cluster.pipeline.measurements, going)
    control = next(each for each in four_nodes.processes() if command_of(each)[:1] == ["slurmctld"])
    control.suspend()
    try:
        assert going.wait(PATIENCE_S) == 0, on_cluster.pipeline.said
    finally:
        control.resume()
    assert len(on_cluster.records()) == 60


def test_a_driver_ends_with_its_jobs_although_slurm_has_forgotten_them(on_cluster, four_nodes):
    on_cluster.pipeline.configure()
    settings = four_nodes.folder / "etc/slurm.conf"
    before = settings.read_text()
    settings.write_text(before.replace("MinJobAge=300", "MinJobAge=2"))
    try:
        four_nodes.ask("scontrol", "reconfigure")
        going = on_cluster.start(on_cluster.pipeline.manifest("bandwidth"))
        wait_for(on_cluster.pipeline.measurements, going)
        driver = snakemake_of(going)
        driver.suspend()
        wait_for(lambda: not four_nodes.ask("squeue", "--noheader", "--states=all"))
        driver.resume()
        psutil.Process(going.pid).resume()  # nsenter stops with what it has started
        assert going.wait(PATIENCE_S) == 0, on_cluster.pipeline.said
    finally:
        settings.write_text(before)
        four_nodes.ask("scontrol", "reconfigure")


def test_ctrl_c_cancels_what_was_submitted_and_keeps_what_was_measured(on_cluster, four_nodes):
    on_cluster.configure(LONG)
    going = on_cluster.start("tiny2000_two")
    wait_for(on_cluster.pipeline.measurements, going)
    kept = on_cluster.pipeline.measurements()
    snakemake_of(going).send_signal(signal.SIGINT)
    assert going.wait(PATIENCE_S) == 130, on_cluster.pipeline.said
    assert on_cluster.pipeline.said.count("Ended by Ctrl-C: ") == 1
    assert "SLURM does not answer" not in on_cluster.pipeline.said
    wait_for(lambda: not four_nodes.ask("squeue", "--noheader"))
    assert kept.items() <= on_cluster.pipeline.measurements().items()


def snakemake_of(started: "subprocess.Popen[str]") -> psutil.Process:
    """Snakemake itself, below what enters the cluster's namespaces."""
    return psutil.Process(started.pid).children()[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["tiny2000_two", "--set-resources", "measure_on_nodes:slurm_partition=mian"],
            "there is no partition 'mian' (did you mean 'main'?)",
        ),
        (["tiny2000_five"], "partition 'main' has 4 nodes, and 5 are asked for"),
        (
            ["tiny2000_two", "--set-resources", "measure_on_nodes:gres='gpu:2'"],
            "partition 'main' has 0 nodes with gpu:2, and 2 are asked for",
        ),
        (
            ["tiny2000_two", "--set-resources", "measure_on_nodes:constraint=hdr"],
            "no node of partition 'main' has the feature 'hdr' (constraint)",
        ),
    ],
)
def test_what_the_cluster_has_not_got_is_refused_before_anything_starts(on_cluster, arguments, told):
    assert on_cluster.run(*arguments) == 1
    said = on_cluster.pipeline.said
    assert told in said
    assert "main (default): 4 nodes, each 2 processors, 8000 MB, gpu:1; no time limit" in said
    assert "has been submitted" not in said
