"""Which tests run: those whose needs this machine meets. What is left out is listed in the end, with how to get it.

pytest                 all that can run here
pytest --ordinary      less what needs root, other frameworks or containers, or takes long (`make test`)
pytest --left-out      what `--ordinary` has left out the last time; what is missing is a failure (`make test-all`)
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from ddlbench.plan.catalogue import FRAMEWORKS
from tests.support.needs import NEEDS, OF_FIXTURES, is_here
from tests.support.sandboxes import backends_here
from tests.support.scheduling import EXPENSIVE

_RECORD = "ddlbench/left_out"
_LEFT_OUT = pytest.StashKey[
    dict[str, str]
]()  # a test's id -> the first need for want of which it is left out


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ddlbench")
    group.addoption(
        "--ordinary", action="store_true", help="no test that needs root or another framework, or takes long"
    )
    group.addoption("--left-out", action="store_true", help="the tests that --ordinary has left out last")


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here."""
    before: list[str] | None = config.cache.get(_RECORD, None) if config.getoption("left_out") else None
    left_out: dict[str, str] = {}
    kept = []
    for item in items:
        if before is not None and item.nodeid not in before:
            continue
        wanting = next((name for name in _needs(item) if _is_left_out(name, config)), None)
        if wanting:
            left_out[item.nodeid] = wanting
        else:
            kept.append(item)
    config.stash[_LEFT_OUT] = left_out
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = left_out
    if dropped := [item for item in items if item not in set(kept)]:
        config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A missing part is a failure where nothing is to be left out."""
    if missing := [name for name in _needs(item) if not (is_here(name) or NEEDS[name].made)]:
        advice = "; ".join(f"{name}: {NEEDS[name].advice}" for name in missing)
        pytest.fail(f"not on this machine: {advice}", pytrace=False)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """What one of several processes has left out, all have."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if config.getoption("ordinary") and not hasattr(config, "workeroutput"):
        config.cache.set(_RECORD, sorted(config.stash.get(_LEFT_OUT, {})))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not (wanting := Counter(config.stash.get(_LEFT_OUT, {}).values())):
        return
    terminalreporter.section("left out")
    for name, count in wanting.most_common():
        terminalreporter.line(f"{count} tests for want of {name}: {_advice(name)}")


def _advice(name: str) -> str:
    return "make test-all runs them" if is_here(name) else NEEDS[name].advice


def _needs(item: pytest.Item) -> list[str]:
    """What a test needs, root first."""
    fixtures = getattr(item, "fixturenames", ())
    found = {name for fixture in fixtures for name in OF_FIXTURES.get(fixture, ())}
    found |= {name for marker in item.iter_markers("needs") for name in marker.args}
    if item.path.parent.name == "integration":
        found.add("sandboxes")
    if item.get_closest_marker("other_kernel"):
        found.add("User-Mode Linux")
    if item.get_closest_marker("long") and item.path.parent.name != "unit":
        found.add("time")
    return [name for name in NEEDS if name in found]


def _parameter(item: pytest.Item, name: str) -> Any:
    return item.callspec.params.get(name) if hasattr(item, "callspec") else None


def _is_left_out(name: str, config: pytest.Config) -> bool:
    need = NEEDS[name]
    if config.getoption("left_out"):
        return not need.required and not is_here(name)
    return not is_here(name) or (config.getoption("ordinary") and not need.ordinary)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test's folder is its marker; what is expensive to make takes its time; some need another kernel."""
    folder = item.path.parent.name
    item.add_marker(folder)
    backend = _parameter(item, "backend")
    if backend and is_here("sandboxes") and backend not in backends_here():
        item.add_marker("other_kernel")
    if set(getattr(item, "fixturenames", ())) & set(EXPENSIVE):
        item.add_marker(pytest.mark.timeout(3600))


def needing_environments(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Parameters of tests that begin with a framework, with what its environment needs."""
    fixtures = [f"{FRAMEWORKS[framework].environment}_environment" for framework, *_ in cases]
    return [
        pytest.param(*case, marks=pytest.mark.needs(*OF_FIXTURES[fixture]))
        for case, fixture in zip(cases, fixtures, strict=True)
    ]
