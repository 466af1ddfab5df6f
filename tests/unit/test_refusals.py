"""Why a sandbox is refused: what helps follows from the errno and from what the kernel is set to."""

import errno
import os
import subprocess
import sys
from unittest.mock import Mock

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from ddlbench.errors import DdlbenchError
from ddlbench.network.star import Star
from ddlbench.network.wiring import Wiring
from ddlbench.runs.preconditions import check_room
from ddlbench.sandbox import sandbox
from ddlbench.system.refusals import advice, kernel_settings

DEBIANS, UBUNTUS = "kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns"


def refused(number: int, settings: dict[str, str] | None = None, *, in_container: bool = False) -> str:
    said = f"unshare: unshare failed: {os.strerror(number)}"
    return advice(said, settings or {}, in_container=in_container)


@pytest.mark.parametrize(
    ("number", "settings", "in_container", "helps"),
    [
        (errno.ENOSPC, {"user.max_user_namespaces": "0"}, False, "sysctl -w user.max_user_namespaces="),
        (errno.ENOSPC, {"user.max_pid_namespaces": "3"}, True, "sysctl -w user.max_pid_namespaces="),
        (errno.EPERM, {DEBIANS: "0", UBUNTUS: "1"}, False, f"sysctl -w {DEBIANS}=1"),
        (errno.EPERM, {DEBIANS: "1", UBUNTUS: "1"}, False, f"sysctl -w {UBUNTUS}=0"),
        (errno.EPERM, {DEBIANS: "1"}, True, "--security-opt seccomp=unconfined"),
        (errno.EPERM, {}, False, "a security module may forbid it"),
        (errno.EMFILE, {}, True, "ulimit -n"),
        (errno.ENOMEM, {}, True, "no memory left"),
        (errno.EAGAIN, {}, False, "ulimit -u"),
        (errno.EINVAL, {}, False, "CONFIG_USER_NS"),
    ],
)
def test_only_what_helps_here_is_advised(number, settings, in_container, helps):
    said = refused(number, settings, in_container=in_container)
    assert helps in said
    others = {"sysctl -w", "--security-opt", "ulimit -u", "CONFIG_USER_NS"}
    assert not [each for each in others if each in said and each not in helps and helps not in each]


@pytest.mark.needs("sandboxes")
def test_a_limit_of_the_kernel_is_named_by_the_setting_that_is_used_up():
    code = "from ddlbench.sandbox.sandbox import check_sandbox; check_sandbox()"
    forbidding = 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"'
    answer = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", forbidding, "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
    )
    assert "sysctl -w user.max_net_namespaces=" in answer.stderr
    assert "max_user_namespaces" not in answer.stderr.rpartition("\n\n")[2]


@pytest.mark.needs("sandboxes")
def test_a_limit_of_namespaces_that_hosts_reach_is_not_taken_for_a_full_disk():
    for_the_sandbox_alone = 'echo 1 >/proc/sys/user/max_net_namespaces && exec unshare --net "$@"'
    answer = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "sh", "-c", for_the_sandbox_alone, "sh"),
            *(sys.executable, "-m", "ddlbench.doctor.shaping_backend"),
        ],
        capture_output=True,
        text=True,
    )
    assert answer.returncode == DdlbenchError.exit_code
    assert answer.stderr.startswith("the kernel refuses emulated hosts (")
    assert "sysctl -w user.max_net_namespaces=" in answer.stderr


def test_a_kernel_without_the_modules_of_links_is_told_by_their_names(monkeypatch):
    def unknown(*_, **__):
        raise NetlinkError(errno.EOPNOTSUPP, "Unknown device type")

    monkeypatch.setattr(Wiring, "router", unknown)
    with pytest.raises(DdlbenchError, match=r"Unknown device type.*\n  modprobe -a veth sch_tbf"):
        Star(["10.66.0.1"], congestion_control="cubic")


def test_a_link_that_the_kernel_refuses_is_told_too():
    star = object.__new__(Star)
    star.backend = Mock(shape=Mock(side_effect=NetlinkError(errno.ENOENT, "Specified qdisc kind is unknown")))
    with pytest.raises(DdlbenchError, match=r"qdisc kind is unknown.*\n  modprobe -a veth sch_tbf"):
        star.shape(None)


@pytest.mark.parametrize("user", [0, 1000])
def test_a_missing_unshare_is_told_to_root_too(user, monkeypatch, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DdlbenchError, match="unshare is not installed"):
        sandbox.check_sandbox()


def test_a_sandbox_that_takes_too_long_is_told(monkeypatch, tmp_path):
    (tmp_path / "unshare").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(DdlbenchError, match=r"was not made in 0\.1 s. Is the machine busy\?"):
        sandbox.check_sandbox(patience_s=0.1)


def test_what_helps_is_found_in_each_language_of_the_user(monkeypatch, tmp_path):
    german = "unshare failed: Auf dem Gerät ist kein Speicherplatz mehr verfügbar"
    script = (
        f'[ "$LC_ALL" = C ] && echo "unshare failed: {os.strerror(errno.ENOSPC)}" >&2 || echo "{german}" >&2'
    )
    (tmp_path / "unshare").write_text(f"#!/bin/sh\n{script}\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    with pytest.raises(DdlbenchError, match="limit of namespaces is reached"):
        sandbox.check_sandbox()


def test_the_kernels_settings_are_numbers():
    assert all(value.lstrip("-").isdigit() for value in kernel_settings().values())


def test_room_is_looked_for_where_a_folder_would_be_made_and_nothing_is_left_there(tmp_path):
    check_room([tmp_path / "results" / "store"])
    assert list(tmp_path.iterdir()) == []
