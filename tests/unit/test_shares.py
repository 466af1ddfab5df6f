"""What a host got against its share, and in which control group a process is."""

from pathlib import Path

import pytest

from ddlbench.network.hosts import Host
from ddlbench.shares.bursts import warning
from ddlbench.shares.control_groups import ControlGroups, own_group, remove_abandoned
from ddlbench.shares.kept import Kept, kept
from ddlbench.telemetry.waiting import ThreadTime

HALF, WHOLE = (Host("h1", "10.66.0.1", (0,), 1, 1, share) for share in (0.5, 1.0))
V1 = "3:cpuset:/\n1:cpu,cpuacct:/user.slice\n0::/user.slice/a.scope\n"
V2 = "0::/user.slice/a.scope\n"
MOUNT_V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
MOUNT_V2 = "25 31 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
IN_CONTAINER = "25 31 0:22 /user.slice /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"


def test_a_host_and_its_filler_together_get_its_share():
    assert kept(HALF, [ThreadTime(30, 30)], [ThreadTime(20, 0)], 100, 100) == Kept(100, 0)


def test_what_an_idle_neighbour_lends_is_too_much():
    assert kept(HALF, [ThreadTime(90, 0)], [ThreadTime(0, 0)], 100, 100).got_percent == 180


def test_a_wait_for_the_hosts_other_threads_is_explained():
    assert kept(WHOLE, [ThreadTime(40, 50), ThreadTime(50, 40)], [], 100, 100) == Kept(None, 0)


def test_a_wait_while_nobody_of_the_host_runs_is_not():
    assert kept(WHOLE, [ThreadTime(40, 50), ThreadTime(20, 0)], [], 100, 100).unexplained_percent == 30


def test_nothing_waits_for_cores_that_are_idle():
    assert kept(WHOLE, [ThreadTime(1, 34)], [], 100, 3).unexplained_percent == 3


def test_neighbours_explain_as_much_waiting_as_the_host_ran():
    assert kept(HALF, [ThreadTime(40, 45)], [ThreadTime(10, 50)], 100, 100).unexplained_percent == 5


@pytest.mark.parametrize(
    ("membership", "mounts", "folder"),
    [
        (V1, MOUNT_V1 + MOUNT_V2, "/sys/fs/cgroup/cpu,cpuacct/user.slice"),
        (V2, MOUNT_V2, "/sys/fs/cgroup/user.slice/a.scope"),
        (V2, IN_CONTAINER, "/sys/fs/cgroup/a.scope"),
        (V2, "", None),
    ],
)
def test_a_processs_group_is_found_below_what_is_mounted(membership, mounts, folder):
    assert own_group(membership, mounts) == (folder and Path(folder))


def test_only_the_groups_of_owners_that_have_ended_are_removed(tmp_path):
    processes, groups = tmp_path / "proc", tmp_path / "groups"
    (processes / "17").mkdir(parents=True)
    for name in ("ddlbench-17-h1", "ddlbench-18-h1", "other-18-h1"):
        (groups / name).mkdir(parents=True)
    remove_abandoned(groups, processes)
    assert sorted(each.name for each in groups.iterdir()) == ["ddlbench-17-h1", "other-18-h1"]


def test_the_hosts_of_a_second_runtime_have_the_groups_of_the_first_ones(tmp_path):
    with ControlGroups(tmp_path, 17) as first, ControlGroups(tmp_path, 17) as second:
        assert first.of("h1") == second.of("h1") == tmp_path / "ddlbench-17-h1"
    assert not list(tmp_path.iterdir())


def test_hosts_whose_bursts_are_far_from_their_share_are_named():
    second = Host("h2", "10.66.0.2", (0,), 1, 1, 0.5)
    assert warning([HALF, second], [99.0, None], 25) is None
    assert "but h2 60 % of it" in (warning([HALF, second], [99.0, 60.0], 25) or "")
