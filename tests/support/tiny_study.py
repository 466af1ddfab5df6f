"""A study that is measured in seconds: two hosts of one core, two grids of two links, one figure each."""

import copy
from collections.abc import Mapping
from typing import Any

# Links are slow, here and in other tests: before a link is made, the machine has to forward what all hosts can send at
# once, and a machine that runs other tests has been found to forward 1,578 Mbit/s.
TINY_STUDY: dict[str, Any] = {
    "key": "tiny2000",
    "title": "a tiny study",
    "paper": {"authors": "nobody", "title": "nothing", "year": 2000},
    "hosts": {"pair": {"count": 2, "vcpus": 1, "memory_gb": 2}},
    "grids": {
        name: {
            "hosts": "pair",
            "workers": 2,
            "model": "mlp",
            "dataset": "digits",
            "batch_size": 32,
            "link": "fast-ethernet",
            axis: values,
            "report": {"epoch_images": 60000, "epochs": 10},
        }
        for name, axis, values in (
            ("bandwidth", "bandwidth_mbit", [100, 200]),
            ("latency", "latency_ms", [1, 2]),
        )
    },
    "figures": {
        f"tiny2000_fig{number}": {
            "grids": [grid],
            "title": f"Step time by {grid}",
            "x": axis,
            "y": "step_time_ms",
            "category": "Links",
            "caption": "The paper sees nothing.",
        }
        for number, grid, axis in ((1, "bandwidth", "bandwidth_mbit"), (2, "latency", "latency_ms"))
    },
}
# The same over slow links: its steps wait, so a sweep that is to be under way for long leaves the cores to other tests.
SLOW_STUDY = copy.deepcopy(TINY_STUDY)
SLOW_STUDY["grids"]["bandwidth"]["latency_ms"] = 50
SLOW_STUDY["grids"]["latency"]["latency_ms"] = [50, 60]
# Little is measured. No link is the subject of these tests: one that a busy machine slows down passes its check, and
# only a dead one fails (nothing gets through, or no round trip ends).
TINY_SETTINGS: Mapping[str, Any] = {
    "measure": {
        "warmup_steps": 1,
        "min_steps": 1,
        "max_steps": 3,
        "step_budget_s": 0.1,
        "min_repetitions": 2,
        "max_repetitions": 2,
        "interval_percent": 50,
        "lossy_interval_percent": 50,
        "point_budget_s": 0,
        "relaunch": False,
        "trainings": 2,
        "recheck_s": 20,
        "seed": 1,
    },
    "other_measurements": "ignore",  # tests run side by side, and assert no times
    "tolerances": {
        "rate_percent": 99.9,
        "rtt_percent": 100,
        "rtt_ms": 10_000,
        "loss_points": 99,
        "others_percent": 100,
        "share_percent": 100,
    },
    "timeouts": {"launch_s": 300, "prepare_s": 300, "step_s": 300, "heartbeat_s": 120},
    "studies": ["tiny2000"],
    "default_figures": ["tiny2000_fig1", "tiny2000_fig2"],
    "grids": {},
}
