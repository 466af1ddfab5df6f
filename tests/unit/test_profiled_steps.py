"""What `ddlbench profile` makes of steps that a worker has measured, and says of an environment that is none."""

import json
import sys
from pathlib import Path

import pytest

from ddlbench.environments.failed_environments import record_failure
from ddlbench.errors import DdlbenchError
from ddlbench.launch.bare import KEEPS_MEMORY, workers_environment
from ddlbench.probes import environment_answer, step_profile
from ddlbench.probes.model_counts import write_counts
from ddlbench.probes.step_profile import Asked, profiled

pytestmark = pytest.mark.unit


def test_steps_are_profiled_with_the_workers_use_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment.json"
    environment.write_text(json.dumps({"python": sys.executable}))
    (tmp_path / "environment_of.py").write_text(
        "import json, os, sys; sys.exit(json.dumps(dict(os.environ)))"
    )
    monkeypatch.setattr(environment_answer, "package_root", lambda: str(tmp_path))
    monkeypatch.setitem(step_profile.MODULES, "torch", "environment_of")
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[16], devices="cpu", threads=1, steps=1)
    with pytest.raises(DdlbenchError) as told:
        profiled(asked, environment, timeout_s=600)
    seen = json.loads(str(told.value).splitlines()[-1])
    of_workers = workers_environment({}, threads=1, interface="eth0")
    assert {name: seen[name] for name in KEEPS_MEMORY} == {name: of_workers[name] for name in KEEPS_MEMORY}


def worker_that_answers(folder: Path, answer: str) -> Path:
    """An environment whose worker prints what an expression of its arguments is; its description."""
    (folder / "answering.py").write_text(
        f"import json, sys; asked = sys.argv[1:]; print(json.dumps({answer}), end='')"
    )
    described = folder / "environment.json"
    described.write_text(json.dumps({"python": sys.executable}))
    return described


def test_more_threads_than_cores_are_extrapolated_by_amdahls_law_and_the_source_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_answer, "package_root", lambda: str(tmp_path))
    monkeypatch.setitem(step_profile.MODULES, "torch", "answering")
    monkeypatch.setattr(step_profile.os, "sched_getaffinity", lambda _: {0, 1})
    # A third of the step is one thread's: 120 ms with one, 80 with two, and so 60 with four.
    step = "'forward_ms': 40.0, 'backward_ms': [30.0, 48.0], 'optimizer_ms': 2.0, 'memory_mb': 9.0"
    steps = "'steps_ms': [40 + 80 / int(asked[3])] * 3"
    environment = worker_that_answers(
        tmp_path,
        f"{{'framework': 'PyTorch 0', 'device': None, 'precision': 'fp32', 'profiles': [{{{step}, {steps}}}]}}",
    )
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[8], devices="cpu", threads=4, steps=3)
    (device,) = profiled(asked, environment, timeout_s=600).values()
    (found,) = device["profiles"]
    assert (found["forward_ms"], found["backward_ms"], found["optimizer_ms"]) == (20.0, [15.0, 24.0], 1.0)
    assert "4 threads are 2.00 times as fast as one" in found["source"]["text"]
    assert "by Amdahl's law from 1, 2" in found["source"]["text"]


def test_threads_are_not_extrapolated_from_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_profile.os, "sched_getaffinity", lambda _: {0})
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[8], devices="cpu", threads=4, steps=3)
    with pytest.raises(DdlbenchError, match="4 threads were asked for, and there is 1 core here"):
        profiled(asked, worker_that_answers(tmp_path, "{}"), timeout_s=600)


def test_an_environment_that_could_not_be_made_is_told_with_its_reason(tmp_path: Path) -> None:
    environment = tmp_path / "environment.json"
    record_failure(environment, "bare", "the index cannot be reached")
    with pytest.raises(DdlbenchError, match="the index cannot be reached"):
        write_counts(["mlp"], "28x28x1", tmp_path / "models.csv", environment=environment)
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[16], devices="cpu", threads=1, steps=1)
    with pytest.raises(DdlbenchError, match="the index cannot be reached"):
        profiled(asked, environment, timeout_s=1)


@pytest.mark.parametrize("content", [b"\x7fELF\x02\xff", b"some text", b"[]", b"{}"])
def test_a_file_that_describes_no_environment_is_told_with_what_is_expected(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a-file").write_bytes(content)
    (tmp_path / "a-circle").symlink_to("a-circle")
    asked = Asked(model="mlp", image_shape="28x28x1", batches=[16], devices="cpu", threads=1, steps=1)
    for name in ("a-file", "a-circle"):
        with pytest.raises(DdlbenchError, match=rf"{name} describes no environment .*environment\.json"):
            profiled(asked, tmp_path / name, timeout_s=1)
    with pytest.raises(DdlbenchError, match="is missing"):
        profiled(asked, tmp_path / "nowhere", timeout_s=1)
