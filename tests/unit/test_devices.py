"""Devices: how a step is divided among layers, which batches have a profile, and mistakes in the file of devices."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.devices.device import Device, NoProfile, Replay, computed
from ddlbench.devices.devices_file import devices_from
from ddlbench.devices.step_division import Rates, divided, parameter_arrays
from ddlbench.errors import ConfigError
from ddlbench.plan import Plan, Point, load
from ddlbench.plan.catalogue import FRAMEWORKS, MODELS
from ddlbench.workers.common.models.first_weights import initial
from tests.support.small_study import REPOSITORY, small_repository, write_study

LARGE = (224, 224, 3)
ARRAYS = {
    "alexnet": 16,
    "vgg16": 32,
    "vgg19": 38,
    "resnet152": 467,
}  # torchvision's; to draw them all takes long
RATES = Rates(tflops=10, memory_gbytes_per_s=500)
SHIPPED = devices_from(read_yaml(REPOSITORY / "config/devices.yaml", REPOSITORY))


def device(*profiles):
    return Device(key="card", name="A card", kind="gpu", precision="fp32", profiles=profiles)


def rate(batch, images_per_second, model="resnet50", source="a table, 2020-01"):
    return computed(model, LARGE, batch, images_per_second, RATES, source)


@pytest.mark.parametrize("model", MODELS)
def test_the_parts_of_a_step_are_the_step_and_each_parameter_array_has_its_time(model):
    height, width, channels = map(int, MODELS[model][-1].split("x"))
    shape = height, width, channels
    division = divided(model, shape, 32, 500.0, RATES)
    assert division.step_ms == pytest.approx(500)
    assert min(division.backward_ms) >= 0
    assert division.forward_ms > 0 < division.optimizer_ms
    arrays = ARRAYS.get(model) or sum(1 for _ in initial(model, shape, 1))
    assert len(division.backward_ms) == arrays == parameter_arrays(model, shape)


def test_most_of_vggs_parameters_are_ready_long_before_its_backward_pass_ends():
    division = divided("vgg16", LARGE, 32, 100.0, RATES)
    of_dense_layers = sum(
        division.backward_ms[:6]
    )  # the last three layers, with nine tenths of the parameters
    assert of_dense_layers < 0.1 * sum(division.backward_ms)


def test_a_backward_pass_takes_twice_the_forward_pass_but_for_the_images_gradient():
    division = divided("resnet50", LARGE, 128, 300.0, RATES)
    assert 1.9 < sum(division.backward_ms) / division.forward_ms < 2


def test_between_two_batches_a_step_is_interpolated_and_says_so():
    found = device(rate(32, 320), rate(64, 400)).replay("resnet50", LARGE, 48)
    assert found.step_ms == pytest.approx((100 + 160) / 2)
    assert found.name == "A card, fp32 (computed, interpolated)"


@pytest.mark.parametrize("batch", [16, 128])
def test_beyond_the_known_batches_there_is_no_profile(batch):
    with pytest.raises(NoProfile, match=r"with \d+ images a worker \(known batches: 32, 64"):
        device(rate(32, 320), rate(64, 400)).replay("resnet50", LARGE, batch)


def test_a_model_without_a_profile_has_none():
    with pytest.raises(NoProfile, match=r"no profile of vgg19 .*known batches: none"):
        device(rate(32, 320)).replay("vgg19", LARGE, 32)


def test_a_replay_survives_json():
    found = SHIPPED["v100"].replay("resnet50", LARGE, 128)
    assert Replay.from_dict(found.as_dict()) == found
    assert found.step_ms == pytest.approx(1000 * 128 / 412)


def test_every_shipped_profile_says_what_it_was_computed_from():
    for each in SHIPPED.values():
        for profile in each.profiles:
            assert "https://" in profile.source or profile.origin == "measured"


def repository(root: Path, change: Callable[[dict], None] = lambda devices: None, **grid: object) -> Plan:
    """The plan of a small repository, with changed devices, whose one grid is replayed."""
    settings, study = small_repository(root)
    file = root / "config/devices.yaml"
    devices = yaml.safe_load(file.read_text())
    change(devices)
    file.write_text(yaml.safe_dump(devices))
    study["hosts"]["four"]["device"] = "v100"
    more = {"compute": "replay", "model": "resnet50", "dataset": "synthetic", "image_shape": "224x224x3"}
    del study["grids"]["latency"]["batch_size"]
    study["grids"]["latency"] |= {**more, "batch_per_worker": 128, **grid}
    write_study(root, study)
    return load(settings, root)


def refused(root: Path, change: Callable[[dict], None] = lambda devices: None, **grid: object) -> str:
    with pytest.raises(ConfigError) as caught:
        repository(root, change, **grid)
    return str(caught.value)


def test_a_replayed_point_has_the_step_of_its_hosts_device(tmp_path):
    point = repository(tmp_path).grid("small2000", "latency").points[0]
    assert point.replay is not None
    assert (point.compute, point.replay.device) == ("replay", "v100")
    assert Point.from_dict(point.as_dict()) == point
    assert "v100" in point.id


def test_a_real_point_is_what_it_was_before_there_were_replays(tmp_path):
    point = repository(tmp_path).grid("small2000", "bandwidth").points[0]
    assert not {"compute", "replay"} & point.as_dict().keys()


def test_real_and_replayed_points_have_groups_of_their_own(tmp_path):
    small = {"model": "resnet50", "dataset": "synthetic", "image_shape": "224x224x3"}
    plan = repository(tmp_path, compute=["real", "replay"], **small)
    runs = plan.grid("small2000", "latency").runs
    assert [run.group.get("replay") for run in runs] == [None, "v100"]


@pytest.mark.parametrize("steps_per_epoch", [10, None])
def test_epochs_of_replayed_compute_are_refused_with_what_does_both(tmp_path, steps_per_epoch):
    text = refused(tmp_path, epochs=2, steps_per_epoch=steps_per_epoch)
    assert "grids.latency.epochs: 2 epochs of replayed compute learn nothing" in text
    assert "`compute: real`" in text
    assert "a figure can show both" in text


def test_without_a_profile_the_command_that_measures_one_is_said(tmp_path):
    text = refused(tmp_path, batch_per_worker=7)
    assert (
        "v100 has no profile of resnet50 on 224x224x3 with 7 images a worker (known batches: 16, 32, 64, 128, 192"
        in text
    )
    assert "`ddlbench profile resnet50 --batch 7 --image-shape 224x224x3 --devices gpu` measures one" in text


def with_gaps(root: Path, **grid: object) -> Plan:
    """The plan of a small repository, whose hosts leave gaps where no profile has a step."""
    settings, study = small_repository(root)
    study["hosts"]["four"] |= {"device": "v100", "without_profile": "gap"}
    more = {"compute": "replay", "model": "resnet50", "dataset": "synthetic", "image_shape": "224x224x3"}
    del study["grids"]["latency"]["batch_size"]
    study["grids"]["latency"] |= {**more, "batch_per_worker": [7, 128], **grid}
    write_study(root, study)
    return load(settings, root)


def test_hosts_may_leave_gaps_where_no_profile_has_a_step_and_the_gap_says_why(tmp_path):
    plan = with_gaps(tmp_path)
    points = {point.batch_size // point.workers: point for point in plan.grid("small2000", "latency").points}
    reason = "v100 has no profile of such a batch of resnet50 on 224x224x3, only of 16, 32, 64, 128, 192"
    assert plan.status(points[7]) == ("not_available", reason)
    assert plan.status(points[128]).name == "measurable"
    assert Point.from_dict(points[7].as_dict()) == points[7]


def test_a_gap_changes_nothing_of_points_that_have_a_profile(tmp_path):
    refusing, gaps = tmp_path / "refusing", tmp_path / "gaps"
    whole = repository(refusing, batch_per_worker=128).grid("small2000", "latency").points
    assert whole == with_gaps(gaps, batch_per_worker=128).grid("small2000", "latency").points
    assert "unknown" not in whole[0].as_dict()["replay"]


def test_hosts_without_a_device_cannot_be_replayed(tmp_path):
    text = refused(tmp_path, hosts="pair", workers=2)
    assert "hosts.pair has no `device` to replay (a name of config/devices.yaml)" in text


def test_what_is_not_replayed_is_refused_with_the_reason_and_what_is_possible(tmp_path):
    text = refused(tmp_path, strategy="ring_allreduce_powersgd")
    assert "the compute of torch with ring_allreduce_powersgd cannot be replayed: PowerSGD computes" in text
    assert (
        "torch with ring_allreduce, ring_allreduce_fp16, hierarchical_allreduce, parameter_server_sync"
        in text
    )
    assert "mxnet with parameter_server_sync" in text


def test_all_strategies_are_replayed_or_there_is_a_reason():
    for framework in FRAMEWORKS.values():
        assert set(framework.replays) == set(framework.strategies) or framework.no_replay


def test_replayed_compute_needs_emulated_links(tmp_path):
    assert "needs fabric: emulated, not loopback" in refused(tmp_path, fabric="loopback")


def first(devices: dict) -> dict:
    of_v100 = devices["v100"]["profiles"]
    of_v100[:] = [profile for profile in of_v100 if (profile["model"], profile["batch"]) == ("resnet50", 128)]
    profile: dict = of_v100[0]
    return profile


MISTAKES = {
    "images_per_second: 0 is too small": lambda devices: first(devices).update(images_per_second=0),
    "batch: 0 is too small": lambda devices: first(devices).update(batch=0),
    "source: is missing": lambda devices: first(devices).pop("source"),
    "images_per_second: is missing": lambda devices: first(devices).pop("images_per_second"),
    "source.text: 'mine' is too short": lambda devices: first(devices)["source"].update(text="mine"),
    "source.link: is missing": lambda devices: first(devices)["source"].pop("link"),
    "forward_ms: has no place in a computed profile": lambda devices: first(devices).update(forward_ms=3),
    "batch: resnet50 on 224x224x3 with 128 images is given twice": lambda devices: devices["v100"][
        "profiles"
    ].append(first(devices)),
    "image_shape: resnet50 does not take images of 28x28x1": lambda devices: first(devices).update(
        image_shape="28x28x1"
    ),
    "backward_ms: has 1 times, and resnet50 has 161 parameter arrays": lambda devices: measured(
        devices, [1.0]
    ),
    "backward_ms[160]: -1 is not a time": lambda devices: measured(devices, [1.0] * 160 + [-1]),
    "backward_ms[0]: inf is not a time": lambda devices: measured(devices, [float("inf")] + [1.0] * 160),
    "backward_ms[1]: 'x' is not a time": lambda devices: measured(devices, [1.0, "x", 1.0]),
    "backward_ms: 3 is not a list of times": lambda devices: measured(devices, 3),
    "forward_ms: a step that takes no time at all is none": lambda devices: measured(devices, [0.0] * 161),
    "source.link: is missing (what was published": lambda devices: measured(
        devices, [1.0] * 161, origin="published"
    ),
    "images_per_second: has no place in a measured profile": lambda devices: measured(
        devices, [1.0] * 161, images_per_second=4
    ),
}


def measured(devices: dict, backward_ms: object, origin: str = "measured", **more: object) -> None:
    """Make the first profile one that was measured."""
    profile = first(devices)
    profile.pop("images_per_second")
    profile["source"] = {"origin": origin, "text": "a test of this file", "date": "2026-01"}
    profile.update(forward_ms=0, backward_ms=backward_ms, optimizer_ms=0, **more)


@pytest.mark.parametrize("text", MISTAKES)
def test_a_file_of_devices_edited_by_hand_is_checked(tmp_path, text):
    found = refused(tmp_path, MISTAKES[text])
    assert (
        f"config/devices.yaml: v100.profiles[{'1' if 'twice' in text else '0'}].{text.split(':')[0]}" in found
    )
    assert text.partition(": ")[2].split(" is too")[0] in found


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_documents_table_has_the_known_batches_of_each_device():
    lines = (REPOSITORY / "docs/devices.md").read_text().splitlines()
    (head,) = (line for line in lines if line.startswith("| images a step that are known"))
    models = cells_of(head)[1:]
    table = {line.split("`")[1]: cells_of(line)[1:] for line in lines if line.startswith("| `")}
    assert table.keys() == SHIPPED.keys()
    for key, cells in table.items():
        for model, cell in zip(models, cells, strict=True):
            known = sorted(each.batch for each in SHIPPED[key].profiles if each.model == model)
            short = f"{known[0]} to {known[-1]}" if len(known) > 2 else ", ".join(map(str, known))
            assert cell == (short or "missing"), (key, model)
