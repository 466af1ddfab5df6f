"""The commands that start workers in Docker and in Apptainer, word for word."""

from dataclasses import replace

import pytest

from ddlbench.containers.apptainer import apptainer_argv, program_environment
from ddlbench.containers.container import Needs, variables_inside
from ddlbench.containers.docker import JoinedNamespaces, client_environment, docker_argv, published_argv
from ddlbench.containers.podman import podman_argv, user_namespace
from ddlbench.emulate.contained import Image, container_argv
from ddlbench.environments.runtime_environment import Engine, RuntimeEnvironment
from ddlbench.network.hosts import Host
from ddlbench.system.package import package_root

COMMAND = [
    "/opt/ddlbench/bin/python",
    "-m",
    "ddlbench.workers.common.fork_server",
    "ddlbench.workers.torch.ring_allreduce",
]
NEEDS = Needs(("/data",), ("/logs",), {"OMP_NUM_THREADS": "2", "GLOO_SOCKET_IFNAME": "eth0"})
ON_GPUS = Needs((), (), {}, gpus=True)
JOINED = JoinedNamespaces("/proc/7/fd/8", "/proc/7/ns/pid", (1000, 1001))
SRC = package_root()


def test_the_command_of_a_docker_container_on_an_emulated_host():
    argv = docker_argv("sha256:f00", COMMAND, NEEDS, JOINED, run="a-run", shared_memory_bytes=1024)
    assert argv == [
        *("docker", "run", "--interactive", "--rm", "--pull", "never"),
        *("--runtime", "ddlbench", "--network", "host", "--label", "ddlbench.run=a-run"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp"),
        *("--user", "1000:1001", "--shm-size", "1024"),
        *("--volume", f"{SRC}:{SRC}:ro", "--volume", "/data:/data:ro", "--volume", "/logs:/logs:rw"),
        *("--env", "DDLBENCH_NETWORK_NAMESPACE=/proc/7/fd/8"),
        *("--env", "DDLBENCH_PROCESS_NAMESPACE=/proc/7/ns/pid"),
        *("--env", "GLOO_SOCKET_IFNAME=eth0", "--env", "HOME=/tmp", "--env", "OMP_NUM_THREADS=2"),
        *("--entrypoint", "/opt/ddlbench/bin/python", "sha256:f00", *COMMAND[1:]),
    ]


def test_the_command_of_a_podman_container_on_an_emulated_host():
    argv = podman_argv("sha256:f00", COMMAND, NEEDS, JOINED, run="a-run", shared_memory_bytes=1024)
    assert argv == [
        *("unshare", "--mount", "--", "sh", "-c", 'umount /proc && exec "$0" "$@"'),
        *("podman", "--remote", "run", "--interactive", "--rm", "--pull", "never"),
        *("--network", "ns:/proc/7/fd/8", "--pid", "ns:/proc/7/ns/pid", "--label", "ddlbench.run=a-run"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp"),
        *("--user", "1000:1001", "--shm-size", "1024"),
        *("--volume", f"{SRC}:{SRC}:ro", "--volume", "/data:/data:ro", "--volume", "/logs:/logs:rw"),
        *("--env", "GLOO_SOCKET_IFNAME=eth0", "--env", "HOME=/tmp", "--env", "OMP_NUM_THREADS=2"),
        *("--entrypoint", "/opt/ddlbench/bin/python", "sha256:f00", *COMMAND[1:]),
    ]


def test_no_entrypoint_of_an_image_comes_before_the_command():
    for argv in (
        docker_argv("sha256:f00", COMMAND, NEEDS, JOINED, run="a-run", shared_memory_bytes=1024),
        podman_argv("sha256:f00", COMMAND, NEEDS, JOINED, run="a-run", shared_memory_bytes=1024),
        published_argv("sha256:f00", COMMAND, NEEDS, run="a-run", port=7),
    ):
        entrypoint, image = argv.index("--entrypoint") + 1, argv.index("sha256:f00")
        assert entrypoint < image
        assert [argv[entrypoint], *argv[image + 1 :]] == COMMAND


def test_only_podman_without_root_needs_a_sandbox_in_its_own_user_namespace():
    entering = ("podman", "unshare", "setpriv", "--pdeathsig", "KILL", "--")
    bare = RuntimeEnvironment("/p")
    rootless, rootful = (
        replace(bare, engine=Engine("podman", "4", rootless=rootless)) for rootless in (True, False)
    )
    assert user_namespace({"docker": rootless}) == entering
    assert user_namespace({"docker": rootful}) == ()
    assert user_namespace({"apptainer": bare, "bare": bare}) == ()


def test_the_command_of_an_apptainer_container_on_an_emulated_host():
    argv = apptainer_argv("/usr/bin/apptainer", "/images/torch.sif", COMMAND, NEEDS, namespace="/proc/1/fd/8")
    assert argv == [
        *("nsenter", "--net=/proc/1/fd/8", "--"),
        *("/usr/bin/apptainer", "--silent", "exec", "--cleanenv", "--contain", "--no-home", "--no-privs"),
        *("--bind", f"{SRC}:{SRC}:ro", "--bind", "/data:/data:ro", "--bind", "/logs:/logs:rw"),
        *("--pwd", "/tmp", "/images/torch.sif"),
        *COMMAND,
    ]


def test_without_a_network_of_its_own_apptainer_is_called_where_we_are():
    argv = apptainer_argv("apptainer", "torch.sif", COMMAND, NEEDS, namespace=None)
    assert argv[0] == "apptainer"


def test_gpus_are_asked_for_in_each_runtime_s_own_words():
    docker = docker_argv("sha256:f00", COMMAND, ON_GPUS, JOINED, run="a-run", shared_memory_bytes=1024)
    assert docker[docker.index("--gpus") + 1] == "all"
    podman = podman_argv("sha256:f00", COMMAND, ON_GPUS, JOINED, run="a-run", shared_memory_bytes=1024)
    assert podman[podman.index("--device") + 1] == "nvidia.com/gpu=all"
    assert "--nv" in apptainer_argv("apptainer", "torch.sif", COMMAND, ON_GPUS, namespace=None)
    assert "--nv" not in apptainer_argv("apptainer", "torch.sif", COMMAND, NEEDS, namespace=None)


def test_no_container_is_privileged_or_gets_a_folder_that_it_does_not_need():
    argv = docker_argv("sha256:f00", COMMAND, ON_GPUS, JOINED, run="a-run", shared_memory_bytes=1024)
    assert not [word for word in argv if "privileged" in word and word != "no-new-privileges"]
    assert "--cap-add" not in argv
    assert argv.count("--volume") == 1  # our package


def test_what_names_the_machine_s_own_folders_stays_outside():
    variables = {"PATH": "/bin", "HOME": "/users/ada", "LD_LIBRARY_PATH": "/lib", "OMP_NUM_THREADS": "1"}
    assert variables_inside(variables) == {"OMP_NUM_THREADS": "1"}


def test_programs_of_containers_get_what_they_need_and_no_secret():
    shell = {"PATH": "/bin", "HOME": "/users/ada", "DOCKER_HOST": "unix:///d.sock", "TOKEN": "secret"}
    assert client_environment(shell, "unix:///e.sock") == {
        "PATH": "/bin",
        "HOME": "/users/ada",
        "DOCKER_HOST": "unix:///e.sock",
        "CONTAINER_HOST": "unix:///e.sock",
    }
    inside = {"OMP_NUM_THREADS": "1"}
    for program, name in (("/opt/apptainer", "APPTAINERENV"), ("singularity", "SINGULARITYENV")):
        assert program_environment(program, shell, inside) == {
            "PATH": "/bin",
            "HOME": "/users/ada",
            f"{name}_OMP_NUM_THREADS": "1",
        }


@pytest.mark.parametrize(
    ("core_share", "period_us", "quota_us"),
    [(0.5, 10_000, 5000), (0.1, 10_000, 1000), (1 / 16, 16_000, 1000), (1 / 300, 300_000, 1000)],
)
def test_a_host_of_an_emulation_has_its_share_in_a_quota_that_docker_takes(core_share, period_us, quota_us):
    host = Host("h1", "10.66.0.1", (0,), 1, 2**30, core_share)
    argv = container_argv(
        Image("busybox", "sha256:f00", "unix:///docker.sock", "/here"),
        ["true"],
        {},
        [host],
        0,
        outer_process=7,
        outer_user=(1000, 1001),
        namespace=8,
    )
    assert argv[argv.index("--cpu-period") + 1] == str(period_us)
    assert argv[argv.index("--cpu-quota") + 1] == str(quota_us)
