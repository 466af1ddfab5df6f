"""How far dilated times may be off: what `python -m benchmarks dilation` found on cases drawn at random."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddlbench.errors import ConfigError
from ddlbench.files import read_json
from ddlbench.network.hosts import Placement

FILE = Path("config/emulation_error.json")  # below the repository's root


def systematic_error(placement: Placement, file: Path = FILE) -> Mapping[str, Any] | None:
    """Find the emulation's own error for hosts that share a core.

    Args:
        placement: the hosts.
        file: as the benchmark writes it.

    Returns:
        `percent`: how far step times were from those of the same hosts with a core each, in the worst case; the number
        of `cases`, `hosts_on_a_core` there (the next larger number that was judged), `commit`, `date` and `machine`.
        None: the hosts share no core or compute nothing here, or so many on a core were not judged.

    Raises:
        ConfigError: the file is damaged.
    """
    here = round(1 / placement.hosts[0].core_share)
    if here == 1 or placement.waits or not file.is_file():
        return None
    try:
        found = read_json(file)
        judged = {int(hosts): of_hosts for hosts, of_hosts in found["hosts_on_a_core"].items()}
        enough = [hosts for hosts in judged if hosts >= here]
        if not enough:
            return None
        about = {key: found[key] for key in ("commit", "date", "machine")}
        of_hosts = judged[min(enough)]
        return {
            "percent": float(of_hosts["percent"]),
            "cases": int(of_hosts["cases"]),
            "hosts_on_a_core": min(enough),
            **about,
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{file}: cannot be read ({type(error).__name__}: {error}); `python -m benchmarks dilation` writes it"
        ) from error
