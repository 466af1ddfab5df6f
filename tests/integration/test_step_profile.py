"""`ddlbench profile`: what it prints of a step here is a device that config/devices.yaml may have."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ddlbench.cli.main import main
from ddlbench.devices.devices_file import devices_from, problems
from ddlbench.plan.catalogue import MODELS

pytestmark = pytest.mark.long


@pytest.fixture
def profile(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that says what `ddlbench profile` prints, and its exit code. It waits for no other measurement."""
    monkeypatch.setattr("ddlbench.runs.machine_lock.shared_folder", lambda: tmp_path)

    def profile(environment: dict[str, Any], *arguments: str) -> tuple[int, str, str]:
        described = Path(environment["python"]).parents[1] / "environment.json"
        status = main(["profile", *arguments, "--environment", str(described)])
        return status, *capsys.readouterr()

    return profile


def test_the_profiles_of_two_batches_are_one_device_as_the_file_of_devices_has_them(
    profile, torch_environment
):
    status, printed, _ = profile(torch_environment, "cnn", "--batch", "8", "64", "--steps", "3")
    assert status == 0
    found = yaml.safe_load(printed)
    assert list(problems(found, MODELS)) == []
    (device,) = devices_from(found).values()
    assert (device.kind, device.precision) == ("cpu", "fp32")
    assert [(each.model, each.batch, each.origin) for each in device.profiles] == [
        ("cnn", 8, "measured"),
        ("cnn", 64, "measured"),
    ]
    for each in device.profiles:
        assert min(each.division.backward_ms) >= 0 < each.division.forward_ms


@pytest.mark.needs("TensorFlow")
def test_a_step_of_tensorflow_has_a_time_for_each_parameter_array_too(profile, tensorflow_environment):
    status, printed, _ = profile(
        tensorflow_environment, "cnn", "--framework", "tensorflow", "--batch", "8", "--steps", "3"
    )
    assert status == 0
    found = yaml.safe_load(printed)
    assert list(problems(found, MODELS)) == []
    (device,) = devices_from(found).values()
    (step,) = device.profiles
    assert "TensorFlow 2" in step.source
    assert min(step.division.backward_ms) >= 0 < step.division.forward_ms


def test_a_profile_of_a_gpu_with_a_build_for_processors_says_which_requirements_have_it(
    profile, torch_environment
):
    status, _, said = profile(torch_environment, "cnn", "--batch", "8", "--devices", "gpu")
    assert status == 1
    assert "environments: {torch: {requirements: containers/torch/requirements-cuda.txt}}" in said
    assert "Traceback" not in said
