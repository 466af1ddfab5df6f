"""How workers without a container are started."""

from pathlib import Path

from ddlbench.launch.bare import workers_argv, workers_environment
from ddlbench.launch.network_variables import network_variables
from ddlbench.system.package import package_root


def test_the_command_from_which_torch_workers_are_forked():
    assert workers_argv("/env/bin/python", "torch") == [
        "/env/bin/python",
        "-m",
        "ddlbench.workers.common.fork_server",
        "ddlbench.workers.torch.ring_allreduce",
    ]


def test_a_worker_has_its_threads_its_interface_and_our_package():
    environment = workers_environment({}, threads=2, interface="eth0")
    assert environment["OMP_NUM_THREADS"] == "2"
    assert network_variables("eth0").items() <= environment.items()
    assert (Path(environment["PYTHONPATH"]) / "ddlbench/workers/torch/ring_allreduce.py").exists()


def test_what_the_shell_has_set_reaches_no_worker_but_for_what_a_program_needs():
    shell = {
        "PATH": "/bin",
        "HOME": "/users/ada",
        "OMP_NUM_THREADS": "64",
        "PYTHONPATH": "/mine",
        "TOKEN": "secret",
    }
    environment = workers_environment(shell, threads=1, interface="lo")
    assert environment["PATH"] == "/bin"
    assert environment["HOME"] == "/users/ada"
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["PYTHONPATH"] == package_root()
    assert "TOKEN" not in environment
