"""Where this package is installed, for other processes and containers that must import it too."""

import sys
from pathlib import Path


def package_root() -> str:
    """Return the folder from which `ddlbench` is imported."""
    return str(Path(sys.modules["ddlbench"].__file__ or "").parent.parent)
