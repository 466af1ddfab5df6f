"""A repository with one small study, for tests that change one thing in it."""

import copy
import shutil
from pathlib import Path
from typing import Any

import yaml

from ddlbench.configuration.yaml_file import read_yaml

REPOSITORY = Path(__file__).parents[2]

STUDY = {
    "key": "small2000",
    "title": "a small study",
    "paper": {"authors": "nobody", "title": "nothing", "year": 2000},
    "hosts": {
        "pair": {"count": 2, "vcpus": 1, "memory_gb": 4},
        "four": {"count": 4, "vcpus": 2, "memory_gb": 8},
    },
    "grids": {
        "bandwidth": {
            "hosts": "pair",
            "workers": [1, 2],
            "model": ["mlp", "conv1"],
            "dataset": "digits",
            "batch_size": [32, 64],
            "link": "lan-2g",
            "bandwidth_mbit": [400, 800, 2000],
            "report": {"epoch_images": 60000, "epochs": 10},
        },
        "latency": {
            "hosts": "four",
            "workers": 4,
            "model": "mlp",
            "dataset": "digits",
            "batch_size": 64,
            "link": "gigabit",
            "latency_ms": [0, 20],
            "report": {"epoch_steps": 70, "epochs": 1},
        },
    },
    "figures": {
        "small2000_fig1": {
            "grids": ["bandwidth"],
            "title": "a figure",
            "x": "bandwidth_mbit",
            "y": "training_time_s",
            "lines": "model",
            "where": {"workers": 2},
            "category": "Bandwidth",
            "caption": "The paper sees nothing.",
        },
        "small2000_fig2": {
            "grids": ["bandwidth", "latency"],
            "title": "a figure",
            "x": "batch_size",
            "y": "step_time_ms",
            "category": "Latency",
            "caption": "The paper sees nothing.",
        },
    },
}


def small_repository(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fill `root` with schemas, links, sites and the small study; returns settings and the study, to be changed."""
    shutil.copytree(REPOSITORY / "workflow/schemas", root / "workflow/schemas")
    (root / "config/studies").mkdir(parents=True)
    for name in ("links", "sites"):
        shutil.copy(REPOSITORY / f"config/{name}.yaml", root / f"config/{name}.yaml")
    write_few_devices(root)
    settings = read_yaml(REPOSITORY / "config/config.yaml", REPOSITORY)
    settings |= {"studies": ["small2000"], "default_figures": ["small2000_fig1"], "grids": {}}
    study = copy.deepcopy(STUDY)
    write_study(root, study)
    return settings, study


def write_few_devices(root: Path) -> None:
    """Write a file of devices to a repository that has these few only: most of each start is reading the other ones."""
    devices = read_yaml(REPOSITORY / "config/devices.yaml", REPOSITORY)
    few = {name: devices[name] for name in ("k80", "p100", "v100", "a100", "ryzen-5-3600")}
    (root / "config/devices.yaml").write_text(yaml.safe_dump(few, sort_keys=False))


def write_study(root: Path, study: object) -> None:
    (root / "config/studies/small2000.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
