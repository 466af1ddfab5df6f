"""Sites: from their file to points and runs, what a mistake in them is told, and who is on which."""

import json

import pytest
import yaml

from ddlbench.errors import ConfigError
from ddlbench.measurements import record, tables
from ddlbench.network import sites as network
from ddlbench.network.link import Link
from ddlbench.plan import Point, link_words, load, words
from tests.support.small_study import small_repository, write_study

FILE = "config/sites.yaml: "
BANDWIDTH = "config/studies/small2000.yaml: grids.bandwidth."
PLACES = {
    "two-towns": {
        "sites": {
            "here": {"lan": "gigabit"},
            "there": {"lan": {"bandwidth_mbit": 100, "latency_ms": 1}},
            "nowhere": {"lan": "lan-2g"},
        },
        "wan": [
            {"from": "here", "to": "there", "bandwidth_mbit": 20, "latency_ms": 10, "jitter_ms": 2},
            {"from": "there", "to": "here", "bandwidth_mbit": 5, "latency_ms": 30, "loss_percent": 1},
            {"between": ["nowhere", "here"], "bandwidth_mbit": 50, "latency_ms": 40},
            {"between": ["nowhere", "there"], "bandwidth_mbit": 60, "latency_ms": 50},
        ],
        "source": "made up",
    }
}


@pytest.fixture
def repository(tmp_path):
    return tmp_path, *small_repository(tmp_path)


def planned(root, settings, study, places=PLACES, **grid):
    """The plan with these sites, the small study's first grid changed; its link is left out where it has sites."""
    (root / "config/sites.yaml").write_text(yaml.safe_dump(places, sort_keys=False))
    if "sites" in grid:
        for key in ("link", "bandwidth_mbit"):
            study["grids"]["bandwidth"].pop(key)
        study["figures"].pop("small2000_fig1")
        settings["default_figures"] = ["small2000_fig2"]
    study["grids"]["bandwidth"] |= grid
    write_study(root, study)
    return load(settings, root)


def told(*arguments, **options):
    with pytest.raises(ConfigError) as caught:
        planned(*arguments, **options)
    assert caught.value.exit_code == 2
    return str(caught.value).split("\n")


def a_point(repository, workers=2, **grid):
    plan = planned(*repository, sites="two-towns", workers=workers, model="mlp", batch_size=64, **grid)
    return plan.grid("small2000", "bandwidth").points[0]


def test_a_point_holds_every_link_of_the_sites_that_it_uses_and_no_other(repository):
    sites = a_point(repository).as_dict()["sites"]
    none = {"loss_percent": 0.0, "jitter_ms": 0.0}
    assert sites == {
        "name": "two-towns",
        "sites": ["here", "there"],
        "lans": {
            "here": {"bandwidth_mbit": 1000.0, "latency_ms": 0.0} | none,
            "there": {"bandwidth_mbit": 100.0, "latency_ms": 1.0} | none,
        },
        "wans": {
            "here -> there": {
                "bandwidth_mbit": 20.0,
                "latency_ms": 10.0,
                "loss_percent": 0.0,
                "jitter_ms": 2.0,
            },
            "there -> here": {
                "bandwidth_mbit": 5.0,
                "latency_ms": 30.0,
                "loss_percent": 1.0,
                "jitter_ms": 0.0,
            },
        },
    }


def test_a_link_given_between_two_sites_holds_in_both_directions(repository):
    wans = dict(planned(*repository).sites["two-towns"].wans)
    assert wans["nowhere", "here"] == wans["here", "nowhere"]


def test_a_point_with_sites_is_json_and_comes_back_and_is_called_by_their_name(repository):
    point = a_point(repository)
    assert Point.from_dict(json.loads(json.dumps(point.as_dict(), sort_keys=True))) == point
    assert point.bandwidth_mbit is point.latency_ms is point.loss_percent is None
    assert "-2w-two-towns-" in point.id
    assert link_words(point) == "two-towns"
    assert words(point) == "mlp, digits, batch 64, 2 workers, two-towns"


def test_a_table_and_a_trace_call_sites_by_their_name(repository):
    data = a_point(repository).as_dict()
    assert record.words(data) == "mlp, digits, batch 64, 2 workers, two-towns"
    assert tables.cell(data["sites"]) == "two-towns"


def test_other_values_or_another_order_of_sites_make_another_point(repository):
    root, settings, study = repository
    ids = set()
    for change in (lambda each: None, lambda each: each["wan"][0].update(latency_ms=11), reverse):
        places = yaml.safe_load(yaml.safe_dump(PLACES, sort_keys=False))
        change(places["two-towns"])
        own = yaml.safe_load(yaml.safe_dump(study, sort_keys=False))
        ids.add(planned(root, settings, own, places, sites="two-towns", workers=2).runs[0].points[0].id)
    assert len(ids) == 3


def reverse(sites):
    sites["sites"] = dict(reversed(sites["sites"].items()))


def test_one_worker_uses_no_sites(repository):
    plan = planned(*repository, sites="two-towns", workers=1)
    assert all("sites" not in point.as_dict() for point in plan.grid("small2000", "bandwidth").points)


def test_a_run_has_one_link_for_all_or_one_number_of_sites(repository):
    include = [{"sites": ["two-towns", "aws-europe"], "model": "mlp", "batch_size": 64}]
    europe = yaml.safe_load((repository[0] / "config/sites.yaml").read_text())["aws-europe"]
    plan = planned(*repository, PLACES | {"aws-europe": europe}, workers=2, include=include)
    runs = plan.runs_of("small2000/bandwidth")
    assert [run.group["sites"] for run in runs] == [1, 2]
    assert [len(run.points) for run in runs] == [12, 2]
    assert len({run.id for run in runs}) == 2


def test_what_the_configuration_says_of_sites_replaces_a_studys_link(repository):
    root, settings, study = repository
    settings |= {"grids": {"small2000": {"latency": {"sites": "two-towns"}}}}
    points = planned(root, settings, study).grid("small2000", "latency").points
    assert [link_words(point) for point in points] == ["two-towns"]


def test_sites_and_a_link_in_one_block_are_refused(repository):
    root, settings, study = repository
    study["grids"]["latency"]["sites"] = "two-towns"
    assert told(root, settings, study) == [
        "config/studies/small2000.yaml: grids.latency.latency_ms: cannot be given together with sites",
        "config/studies/small2000.yaml: grids.latency.link: cannot be given together with sites",
    ]


def test_unknown_sites_are_answered_with_the_nearest(repository):
    lines = told(*repository, sites="two-town")
    assert lines == [BANDWIDTH + "sites: 'two-town' is not a set of sites (did you mean 'two-towns'?)"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda each: each["wan"].pop(1),
            "two-towns.wan: there -> here is missing (expected a link for every pair of sites)",
        ),
        (
            lambda each: each["wan"].append({"between": ["here", "there"], "bandwidth_mbit": 1, "latency_ms": 1}),
            "two-towns.wan[4]: here -> there is given twice",
        ),
        (
            lambda each: each["wan"][0].update(to="thare"),
            "two-towns.wan[0]: 'thare' is not one of its sites (did you mean 'there'?)",
        ),
        (
            lambda each: each["wan"][0].update(to="here"),
            "two-towns.wan[0]: 'here' cannot be linked to itself (its hosts have their LAN)",
        ),
        (
            lambda each: each["wan"][0].pop("to"),
            "two-towns.wan[0]: expected either between, for both directions, or from and to, for one",
        ),
        (
            lambda each: each["wan"][2].update({"from": "here"}),
            "two-towns.wan[2]: expected either between, for both directions, or from and to, for one",
        ),
        (
            lambda each: each["wan"][0].update(jitter_ms=11),
            "two-towns.wan[0].jitter_ms: 11 is more than latency_ms, which is 10: a packet would arrive before",
        ),
        (
            lambda each: each["wan"][0].update(latency_ms=-1),
            "two-towns.wan[0].latency_ms: -1 is not a latency (expected a number >= 0 and <= 100000, in ms)",
        ),
        (
            lambda each: each["sites"]["here"].update(lan="gigabyte"),
            "two-towns.sites.here.lan: 'gigabyte' is not a LAN (did you mean 'gigabit'?)",
        ),
        (
            lambda each: each["sites"]["there"]["lan"].pop("latency_ms"),
            "two-towns.sites.there.lan.latency_ms: is missing (expected a number >= 0 and <= 100000, in ms)",
        ),
        (
            lambda each: each["wan"][2].update(between=["here"]),
            "two-towns.wan[2].between: has 1 entry (expected at least 2)",
        ),
        (
            lambda each: each.update(sites={"here": {"lan": "gigabit"}}),
            "two-towns.sites: has 1 entry (expected at least 2)",
        ),
        (
            lambda each: each["sites"].update({f"s{number}": {"lan": "gigabit"} for number in range(64)}),
            "two-towns.sites: has 67 entries (expected at most 64)",
        ),
        (lambda each: each.pop("source"), "two-towns.source: is missing (expected a text)"),
        (
            lambda each: each["wan"][0].update(lost=1),
            "two-towns.wan[0].lost: there is no such key",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_the_sites_is_told_with_its_place(repository, change, line):
    places = yaml.safe_load(yaml.safe_dump(PLACES, sort_keys=False))
    change(places["two-towns"])
    assert told(*repository, places)[0].startswith(FILE + line)


@pytest.mark.parametrize(
    ("hosts", "sites", "expected"),
    [(2, 2, [0, 1]), (3, 2, [0, 0, 1]), (4, 3, [0, 0, 1, 2]), (6, 3, [0, 0, 1, 1, 2, 2]), (5, 1, [0] * 5)],
)
def test_neighbours_are_on_one_site_and_no_site_is_empty(hosts, sites, expected):
    assert [network.site_of(host, hosts=hosts, sites=sites) for host in range(hosts)] == expected


def test_what_a_point_holds_is_what_the_network_makes(repository):
    made = network.Sites.from_dict(a_point(repository).as_dict()["sites"])
    assert made.names == ("here", "there")
    assert made.lans == (Link(1000), Link(100, 1))
    assert made.wans == (Link(20, 10, 0, 2), Link(5, 30, 1))
    assert network.Sites.from_dict(made.as_dict()) == made
    assert made.is_lossy
