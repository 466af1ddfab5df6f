"""Which of our modules decide a measurement, a probe, a table or a figure."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddlbench.code import purposes
from ddlbench.code.closure import Package
from ddlbench.code.purposes import ALWAYS, PACKAGE, PURPOSES, code_for, purpose_of
from ddlbench.workers.modules import MODULES

FRAMEWORKS = {
    "torch": {"torch"},
    "torch_parameter_server": {"torch"},
    "torch_replay": {"torch"},
    "torch_parameter_server_replay": {"torch"},
    "horovod_torch_replay": {"horovod", "torch"},
    "horovod_tensorflow_replay": {"horovod", "tensorflow"},
    "tensorflow_replay": {"tensorflow"},
    "tensorflow_parameter_server_replay": {"tensorflow"},
    "tensorflow_parameter_server_sync_replay": {"tensorflow"},
    "mxnet_parameter_server_replay": {"mxnet"},
    "tensorflow": {"tensorflow"},
    "tensorflow_parameter_server": {"tensorflow"},
    "tensorflow_parameter_server_sync": {"tensorflow"},
    "horovod_torch": {"horovod", "torch"},
    "horovod_tensorflow": {"horovod", "tensorflow"},
    "mxnet_parameter_server": {"mxnet"},
}
READING_NOTHING = ("torch_replay", "horovod_torch_replay", "horovod_tensorflow_replay")
WORDS = [
    *(name for name in PURPOSES if name not in (*purposes.OF_WORKERS, "figures")),
    *(
        f"{name} {worker}{nodes}"
        for name in purposes.OF_WORKERS
        for worker in MODULES
        for nodes in ("", " nodes")
    ),
    *(f"figures {file.stem}" for file in sorted((PACKAGE.parents[1] / "config/studies").glob("*.yaml"))),
]
OURS = Package(PACKAGE)
DRIVER = (
    "ddlbench.runs.measure_run"  # it hands settings to the session, and lists the records that this has kept
)
OF_THE_DRIVER = {  # what it takes besides, each with the reason why that does not decide what is measured
    **purposes.CHECKING_ENGINES,
    "ddlbench.runs.invocation": "It says which runs are wanted at the same time.",
    "ddlbench.runs.machine_lock": "It waits until nothing else measures here.",
    "ddlbench.runs.time_left": "It says how long the runs that are left may take.",
}


def closure(words):
    purpose = purpose_of(words)
    return set(OURS.closure(purpose.roots, purpose.without))


def reached_through(name, words):
    """What is in a closure only if an exclusion is lifted."""
    purpose = purpose_of(words)
    without = purpose.without.keys() - {name}
    return {module for module in OURS.closure(purpose.roots, without) if f"{module}.".startswith(f"{name}.")}


EXCLUSIONS = {name: reason for words in WORDS for name, reason in purpose_of(words).without.items()}


@pytest.mark.parametrize("name", EXCLUSIONS)
def test_what_is_left_out_exists_is_reached_and_has_a_reason_of_one_sentence(name):
    assert name in OURS.files
    assert any(reached_through(name, words) for words in WORDS if name in purpose_of(words).without)
    reason = EXCLUSIONS[name]
    assert reason[0].isupper()
    assert (reason.count("."), reason[-1]) == (1, ".")


@pytest.mark.parametrize("words", [words for words in WORDS if words.startswith("measure ")])
def test_what_the_driver_of_a_run_reaches_decides_or_is_left_out_by_name(words):
    reached = OURS.source(DRIVER).reached
    assert OF_THE_DRIVER.keys() <= reached
    without = {**purpose_of(words).without, **OF_THE_DRIVER}
    assert set(OURS.closure(reached, without)) - closure(words) == set()


def test_what_makes_the_speed_of_vcpus_decides_as_measured_times_are_divided_by_it():
    speed = {"ddlbench.runs.vcpus", "ddlbench.shares.amdahl", "ddlbench.probes.thread_scaling"}
    assert speed <= closure("measure torch")


@pytest.mark.parametrize("worker", FRAMEWORKS)
def test_a_workers_own_modules_and_the_network_decide_and_other_frameworks_do_not(worker):
    found = closure(f"measure {worker}")
    assert MODULES[worker] in found
    assert {
        "ddlbench.network.link",
        "ddlbench.network.star",
        "ddlbench.network.delay",
        "ddlbench.sweep.session",
        "ddlbench.telemetry.sampler",
        "ddlbench.workers.common.fork_server",
    } <= found
    reads_images = not worker.endswith("_replay")
    shares_modules = worker not in READING_NOTHING  # with the worker that trains, which reads images
    assert ("ddlbench.workers.common.batches" in found) == (reads_images or shares_modules)
    frameworks = {module.split(".")[2] for module in found if module.startswith("ddlbench.workers.")}
    assert frameworks - {"common", "strategies"} == FRAMEWORKS[worker]


@pytest.mark.parametrize("words", ["measure torch_replay", "faults torch_parameter_server"])
def test_what_a_point_derives_from_its_keys_decides_and_lists_that_grow_do_not(words):
    deriving = {
        "plan.point",
        "plan.run",
        "plan.sites",
        "devices.device",
        "devices.uneven",
        "workers.strategies",
    }
    found = closure(words)
    assert {f"ddlbench.{module}" for module in deriving} <= found
    assert not {"ddlbench.plan.catalogue", "ddlbench.plan.config", "ddlbench.plan.settings"} & found


@pytest.mark.parametrize("words", ["figures shi2019", "claims", "report", "page"])
def test_figures_and_claims_see_the_lists_whose_words_and_numbers_they_print(words):
    seen = {"plan.catalogue", "plan.study", "devices.device", "workers.strategies"}
    assert {f"ddlbench.{module}" for module in seen} <= closure(words)


@pytest.mark.parametrize("words", ["measure torch", "threads torch", "collectives"])
def test_what_sends_a_workers_heartbeats_during_timed_steps_decides(words):
    sending = {"workers.common.control", "protocol.channel", "protocol.codec"}
    assert {f"ddlbench.{module}" for module in sending} <= closure(words)


def test_the_node_agent_decides_what_is_measured_on_nodes_alone():
    on_nodes, emulated = closure("measure torch nodes"), closure("measure torch")
    assert {"ddlbench.cluster.node_agent", "ddlbench.network.interfaces"} <= on_nodes - emulated
    assert emulated < on_nodes


def test_what_draws_does_not_decide_what_is_measured_nor_the_other_way_round():
    assert "ddlbench.figures.zhao2016" in closure("figures zhao2016")
    assert "ddlbench.figures.wang2019" not in closure("figures zhao2016")
    assert not any(module.startswith("ddlbench.figures") for module in closure("measure torch"))
    assert "ddlbench.measurements.tables" in closure("table")
    assert not any(module.startswith(("ddlbench.sweep", "ddlbench.network")) for module in closure("table"))


@pytest.mark.parametrize(
    "words",
    [
        "measure torch nodes",
        "faults torch",
        "point_to_point",
        "collectives",
        "runtimes",
        "table",
        "count_models",
    ],
)
def test_all_that_python_imports_is_found(words):
    purpose = purpose_of(words)
    ours = [root for root in purpose.roots if not root.startswith("ddlbench.workers.")]
    script = "; ".join([*(f"import {root}" for root in ours), "import sys; print(*sys.modules)"])
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {name for name in answer.stdout.split() if name.startswith("ddlbench.")}
    assert imported <= set(OURS.closure(purpose.roots))


def test_modules_are_imported_by_a_computed_name_where_a_root_stands_for_them_only():
    names = ("import_module", "__import__", "spec_from_file_location", "runpy")
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in OURS.files.values()
        if any(getattr(node, "id", None) in names for node in ast.walk(ast.parse(file.read_text())))
    }
    assert found == {
        "figures/__init__.py",  # the module of a study
        "workers/common/fork_server.py",  # the worker's
        "workers/mxnet/parameter_server.py",  # none of ours
    }


def test_no_module_finds_anything_by_where_it_lies_itself():
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in OURS.files.values()
        if "(__file__)" in file.read_text()
    }
    assert found == {"code/purposes.py"}  # it decides nothing


@pytest.mark.long
def test_no_version_of_python_changes_a_hash():
    hashes = {words: code_for(words).sha256 for words in WORDS}
    imports = "import sys; from ddlbench.code.purposes import code_for"
    script = f"{imports}; print(*(code_for(words).sha256 for words in sys.argv[1:]))"
    for python in pythons():
        answer = subprocess.run(
            [python, "-c", script, *hashes],
            env={"PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.split() == list(hashes.values()), python


def pythons():
    """This Python, and others that lie beside it or in the system."""
    versions = [f"python3.{minor}" for minor in (11, 12, 13)]
    others = [
        folder / version for folder in map(Path, ("/usr/bin", "/usr/local/bin")) for version in versions
    ]
    return [sys.executable, *(str(file) for file in others if file.exists())]


def test_reasons_are_given_for_all_purposes_in_one_place():
    assert all(ALWAYS.items() <= purpose_of(words).without.items() for words in WORDS)
