"""Which of our modules decide what: editing one makes what it decides out of date, editing another does not."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

MEASURING = (
    "workers/fork_server.py",
    "workers/torch_worker.py",
    "workers/torch_models.py",
    "network/hosts.py",
    "network/star.py",
    "network/shaping.py",
    "network/netfilter.py",
    "network/delay.py",
    "runtime/bare.py",
    "runtime/session.py",
)
TABULATING = ("measurements/record.py", "measurements/statistics.py", "measurements/tables.py")
DRAWING = (
    "figures/__init__.py",
    "figures/axes.py",
    "figures/caption.py",
    "figures/chart.py",
    "figures/gaps.py",
    "figures/rows.py",
    "figures/theme.py",
)


def files(*names: str) -> list[str]:
    """The files of modules of ours, relative to the working directory; those that do not exist are left out."""
    return [os.path.relpath(PACKAGE / name) for name in names if (PACKAGE / name).is_file()]
