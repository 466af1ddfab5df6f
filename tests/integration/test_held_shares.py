"""A host gets its share of a core and no more, however many processes it has and whatever control group we are in."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from ddlbench.containers import engines
from ddlbench.shares.control_groups import own_group_here
from tests.support.remains import eventually
from tests.support.repository import environment
from tests.support.sandboxes import run_inside

HERE = Path(__file__).parent
PYTHON_FOLDERS = sorted(
    {
        "/usr",
        "/etc",
        sys.prefix,
        sys.base_prefix,
        *(each for each in ("/lib", "/lib64", "/bin") if Path(each).exists()),
    }
)
OWNER = "from ddlbench.sandbox.sandbox import run_sandboxed as run; run('inside', {arguments!r})"


def empty_image(folder: Path, address: str) -> dict[str, Any]:
    """An image with nothing in it; the interpreter inside is this one, in folders that are mounted."""
    (folder / "logs").mkdir()
    client = ["docker", "--host", address]
    nothing = subprocess.run(
        ["tar", "-c", "--files-from", "/dev/null"], capture_output=True, check=True
    ).stdout
    made = subprocess.run([*client, "import", "-"], input=nothing, capture_output=True, check=True)
    return {
        "python": sys.executable,
        "runtime": "docker",
        "image_id": made.stdout.decode().strip(),
        "engine": engines.describe("docker"),
    }


def is_divided(found: dict[str, Any]) -> None:
    """Each host is one part of the core for the kernel, all weigh the same, and each has what takes its idle time.

    What a busy host got of the core then is the kernel's matter, and a benchmark's (core_share).
    """
    between, busy, fillers = found["between"], found["busy"], found["fillers"]
    assert between in ("sessions", "control groups"), found
    parts = [{each[between] for each in of_host} for of_host in (busy + fillers["h1"], *fillers.values())]
    assert all(len(part) == 1 for part in parts), found
    assert parts[0] == parts[1], "the filler of the busy host is in a part of its own"
    assert len(set().union(*parts)) == len(fillers), found
    assert len(set(found["weights"].values())) <= 1, found
    everybody = [*busy, *(each for of_host in fillers.values() for each in of_host)]
    assert [each["is_idle"] for each in everybody] == [False] * len(busy) + [True] * len(fillers)
    assert all(each["cores"] == [found["core"]] for each in everybody), found


@pytest.fixture
def group(tmp_path) -> Iterator[Path]:
    """A CPU control group that is not the root."""
    root = own_group_here()
    assert root is not None
    folder = Path(mkdtemp(dir=root, prefix="tests-"))
    yield folder
    assert eventually(lambda: not any(each.is_dir() for each in folder.iterdir())), "groups of hosts are left"
    assert eventually(lambda: _is_removed(folder))


def _is_removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def inside_group(group: Path, folder: Path, **arguments: Any) -> "subprocess.Popen[bytes]":
    """A process in a control group that owns a sandbox, in which `shared` runs."""
    (folder / "arguments.json").write_text(json.dumps(arguments))
    command = OWNER.format(arguments=["shared", "arguments.json", "answer.json"])
    variables = environment(HERE.parents[1])
    variables["PYTHONPATH"] += f":{HERE}"
    script = f"echo $$ > {group}/cgroup.procs; exec {sys.executable} -c '{command.replace(chr(39), chr(34))}'"
    return subprocess.Popen(["sh", "-c", script], cwd=folder, env=variables)


@pytest.mark.needs("sandboxes")
def test_a_core_is_divided_into_two_parts_though_one_host_has_three_processes(tmp_path):
    found = run_inside(tmp_path, "shared", dilation=2)
    is_divided(found)
    assert all(percent is not None for percent in found["burst_percent"])


@pytest.mark.needs("sandboxes")
def test_two_more_idle_neighbours_are_two_more_parts(tmp_path):
    found = run_inside(tmp_path, "shared", dilation=4)
    is_divided(found)
    assert len(found["fillers"]) == 4


@pytest.mark.needs("sandboxes", "a divided CPU controller")
def test_in_a_control_group_that_is_not_the_root_hosts_have_groups_of_their_own(tmp_path, group):
    assert inside_group(group, tmp_path, dilation=2).wait(100) == 0
    found = json.loads((tmp_path / "answer.json").read_text())
    assert found["between"] == "control groups", found
    assert len(found["weights"]) >= 2
    is_divided(found)


@pytest.mark.needs("sandboxes", "a divided CPU controller")
def test_groups_whose_owner_was_killed_are_removed_by_the_next_one(tmp_path, group):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    owner = inside_group(group, first, dilation=2)
    assert eventually(lambda: any(group.glob("ddlbench-*")))
    (supervisor,) = {each.name.split("-")[1] for each in group.glob("ddlbench-*")}
    owner.kill()
    owner.wait(100)
    assert eventually(
        lambda: not Path("/proc", supervisor).exists()
    )  # the kernel ends a sandbox in its own time
    assert inside_group(group, second, dilation=2).wait(100) == 0


@pytest.mark.needs("root", "Docker")
@pytest.mark.parametrize("on_loopback", [False, True])
def test_in_docker_hosts_and_idle_neighbours_have_a_container_each(
    tmp_path, engine_address, monkeypatch, on_loopback
):
    monkeypatch.setenv("DOCKER_HOST", engine_address)
    found = run_inside(
        tmp_path,
        "in_docker",
        environments={"docker": empty_image(tmp_path, engine_address)},
        python_folders=PYTHON_FOLDERS,
        on_loopback=on_loopback,
    )
    groups = {host: {*of_host} for host, of_host in found["fillers"].items()}
    assert all(len(of_host) == 1 for of_host in groups.values()), found
    assert {host: {group} for host, group in found["hosts"].items()}.items() <= groups.items(), found
    assert len(set().union(*groups.values())) == len(groups), found


@pytest.mark.other_kernel
@pytest.mark.needs("root", "User-Mode Linux")
def test_control_groups_of_the_second_version_divide_a_core_too(tmp_path, other_kernel):
    found = run_inside(tmp_path, "shared", kernel=other_kernel(), dilation=2, mount_cgroups=True)
    assert found["between"] == "control groups", found
    assert len(found["weights"]) >= 2
    is_divided(found)
