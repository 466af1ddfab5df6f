"""What SLURM says of a job and of its nodes."""

import socket
import stat

import pytest

from ddlbench.cluster import slurm
from ddlbench.cluster.node_agent import free_port
from ddlbench.cluster.slurm import allocation, ask, fields, own_address
from ddlbench.errors import DdlbenchError
from ddlbench.launch.roles import cluster, members, port_ranges

SCONTROL = """#!/bin/sh
case "$*" in
  "show hostnames n[1-2]") echo n1; echo n2 ;;
  "show node --oneliner n1") echo "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=n1" ;;
  "show job --oneliner 7") echo "JobId=7 JobName=a OverSubscribe=NO Contiguous=0" ;;
  "show job --oneliner 8") echo "JobId=8 JobName=b OverSubscribe=OK Contiguous=0" ;;
  *) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    """A cluster's commands, which tell what a real one's have told."""
    for name, text in (("scontrol", SCONTROL), ("squeue", "#!/bin/sh\necho 'n[1-2]'\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_a_job_knows_its_nodes_from_its_number_alone(told):
    assert allocation({"SLURM_JOB_ID": "7"}).nodes == ("n1", "n2")


@pytest.mark.parametrize(("job", "exclusive"), [("7", True), ("8", False), ("9", None)])
def test_a_job_knows_whether_its_nodes_are_its_own(told, job, exclusive):
    assert slurm.is_exclusive(job) is exclusive


def test_outside_of_a_job_there_are_no_nodes():
    with pytest.raises(DdlbenchError, match="inside of a SLURM job, and this is none"):
        allocation({})


def test_the_driver_is_found_where_slurm_itself_finds_its_node(told):
    assert own_address({"SLURMD_NODENAME": "n1"}) == "10.0.0.1"


def test_what_slurm_refuses_is_told_in_its_words(told):
    with pytest.raises(DdlbenchError, match="Invalid job id specified"):
        ask("scontrol", "show", "job", "9")


def test_a_machine_without_slurm_is_told_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DdlbenchError, match="sinfo is not here: this is no machine of a SLURM cluster"):
        ask("sinfo")


def test_scontrol_is_read_as_a_table():
    assert fields("JobState=TIMEOUT Reason=TimeLimit Dependency=(null)")["Reason"] == "TimeLimit"


def test_how_a_job_ended_is_asked_again_while_slurm_tidies_up(monkeypatch, tmp_path):
    answers = f"{tmp_path}/answers"
    (tmp_path / "answers").write_text("COMPLETING\nCOMPLETING\nTIMEOUT\n")
    (tmp_path / "scontrol").write_text(
        f"#!/bin/sh\necho JobState=$(head -n 1 {answers}) Reason=TimeLimit\nsed -i 1d {answers}\n"
    )
    (tmp_path / "scontrol").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm, "_AGAIN_S", 0.01)
    assert slurm.how_it_ended("7") == "TIMEOUT (TimeLimit)"


def test_jobs_that_share_a_node_have_ports_of_their_own():
    first = [next(port_ranges(str(job))) for job in range(100, 290)]
    assert len({port for ports in first for port in ports}) == 64 * len(first)
    assert max(ports.stop for ports in first) <= 32768  # Linux's first port for outgoing connections


def test_ports_that_somebody_listens_at_are_left_to_them():
    first, second, *_ = port_ranges("190")
    with socket.create_server(("", first.start + 3)):
        assert free_port("190") == second.start


def test_the_members_of_a_large_group_keep_to_the_range_that_was_free_on_their_nodes():
    group = members("tensorflow", "parameter_server_async", 80, 40, workers_per_host=2)
    first = next(port_ranges("190")).start
    found = cluster(group, [f"10.0.0.{host}" for host in range(40)], [first] * 40)
    assert found["worker"][-1] == f"10.0.0.39:{first + 1}"
    assert (found["ps"], found["chief"]) == ([f"10.0.0.39:{first + 2}"], [f"10.0.0.39:{first + 3}"])
    ours = [where for addresses in found.values() for where in addresses]
    assert len(set(ours)) == len(group)
    assert {int(where.rpartition(":")[2]) - first for where in ours} <= set(range(64))


def test_members_that_share_an_address_have_ports_of_their_own():
    found = cluster(members("torch", "ring_allreduce", 3, 3), ["127.0.0.1"] * 3)
    assert len(set(found["worker"])) == 3
