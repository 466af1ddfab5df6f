"""One change of a small repository, and the lines of the error that it ends in."""

from collections.abc import Callable

import pytest

from ddlbench.errors import ConfigError
from ddlbench.plan import load
from tests.support.small_study import small_repository, write_study

STUDY = "config/studies/small2000.yaml: "
CONFIG = "config/config.yaml: "
BANDWIDTH = STUDY + "grids.bandwidth."


def lines_of_error(folder, change=lambda settings: None, study=lambda study: None) -> list[str]:
    """Lines of the error for a change of the settings, or of the study's file."""
    own_settings, own_study = small_repository(folder)
    change(own_settings)
    study(own_study)
    write_study(folder, own_study)
    with pytest.raises(ConfigError) as caught:
        load(own_settings, folder)
    assert caught.value.exit_code == 2
    return str(caught.value).split("\n")


def setting(path: str, value: object) -> Callable[[dict], None]:
    *parents, last = path.split("/")

    def change(data: dict) -> None:
        for key in parents:
            data = data.setdefault(key, {})
        data[last] = value

    return change
