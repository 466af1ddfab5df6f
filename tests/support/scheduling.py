"""Which tests run in one process: those that share what is expensive to make, or what their module makes.

pytest-xdist's own groups are a suffix of a test's id, which pytest 9.2 does not let it change. So the processes that
collect tests write their groups into a file, and the one that deals them out reads it.
"""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.vanishing import vanishing_folder

# The fixtures that are expensive to have twice: a test is with those of the last one that it has. What takes longest
# begins first.
EXPENSIVE = ("horovod_environment", "four_nodes", "engine_address", "podman_address")


class Groups(LoadScopeScheduling):
    """Deals out whole groups, in the order of their first tests."""

    def _split_scope(self, nodeid: str) -> str:
        if not hasattr(self, "_groups"):
            self._groups: dict[str, str] = json.loads(Path(self.config.option.groups_file).read_text())
        return self._groups.get(nodeid, nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    return Groups(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every process gets the name of the file."""
    option = node.config.option
    if not hasattr(option, "groups_file"):
        until_the_end = ExitStack()
        node.config.add_cleanup(until_the_end.close)
        folder = until_the_end.enter_context(vanishing_folder("ddlbench-groups-"))
        option.groups_file = str(folder / "groups.json")
    node.workerinput["groups_file"] = option.groups_file


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long groups first, then groups, then what stands alone.

    Making PyTorch's environment takes a minute. So of the groups that need it one comes first, then come the groups
    that do not need it, and then the others, which would only wait.
    """
    groups = [group_of(item) for item in items]
    maker = next((group for group, item in zip(groups, items, strict=True) if group and _waits(item)), None)
    items.sort(key=lambda item: (_place(item), _turn(item, maker)))
    if file := getattr(config, "workerinput", {}).get("groups_file"):
        own = Path(f"{file}.{os.getpid()}")
        own.write_text(json.dumps({item.nodeid: group for item in items if (group := group_of(item))}))
        own.replace(file)  # all processes write the same


def group_of(item: pytest.Item) -> str | None:
    """The name of a test's group, if it has one."""
    fixtures = getattr(item, "fixturenames", ())
    if expensive := [name for name in EXPENSIVE if name in fixtures]:
        return expensive[-1]
    if item.get_closest_marker("other_kernel"):
        return "other_kernel"
    definitions = item._fixtureinfo.name2fixturedefs.values() if hasattr(item, "_fixtureinfo") else ()
    shares = any(each[-1].scope == "module" for each in definitions if each)
    return item.path.stem if shares else None


def _waits(item: pytest.Item) -> bool:
    return "torch_environment" in getattr(item, "fixturenames", ())


def _turn(item: pytest.Item, maker: str | None) -> int:
    group = group_of(item)
    return 0 if group in (None, maker) else 1 + _waits(item)


def _place(item: pytest.Item) -> int:
    group = group_of(item)
    order = [*EXPENSIVE, "other_kernel"]
    return order.index(group) if group in order else len(order) + (group is None)
