"""The anwar2021 default grid: our sweep against a loop that launches torchrun once for each point.

A round is a sweep into a fresh results folder (one call of Snakemake; its whole wall time counts: plan, data sets,
sandboxes, launches, probes, steps), and after it the loop over its points; with --points, over a random few, spread
over strata (workers; latency up to 40 ms, or more), from which the rest is extrapolated. The loop runs plain_ddp.py in
the same emulated hosts (same code, pinning, dilation, shaped link), with as many steps as all repetitions of that point
took, warm-up included. Its time runs from the start of the agents to the end of the last one; its hosts, links and data
are given to it for free, and it probes nothing. At a point that does not fit into a host's memory it tries one step, as
we do, and dies.

Our time for a point is its share of the sweep's wall time (`own_times_s`); all shares together are that wall time.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import fsum
from pathlib import Path
from typing import Any

from benchmarks.common import (
    ROOT,
    benchmark,
    in_words,
    options,
    repository,
    row,
    save,
    say,
    snakemake_s,
    spread,
)
from benchmarks.torchrun_loop import Record, torchrun_loop
from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.plan import load, words

FIGURES = " ".join(
    name
    for name in read_yaml(ROOT / "config" / "config.yaml", ROOT)["default_figures"]
    if name.startswith("anwar2021")
)
AT_LEAST = 5.0
SWEEP_TIMEOUT_S = 3600


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, rounds=1, points=100, seed=1, min_repetitions=0, figures=FIGURES)
    rounds = []
    for number in range(1, asked.rounds + 1):
        say(f"round {number} of {asked.rounds}: our sweep")
        with repository(config=config(asked.min_repetitions)) as folder:
            swept = sweep(folder, asked.figures)
            points = measured_points(swept)
            order = picked(points, random.Random(asked.seed))
            chosen = order[(number - 1) * asked.points : number * asked.points]
            compared = torchrun_loop(chosen, folder, say_as=f"round {number} of {asked.rounds}")
        rounds.append(compare(swept, points, compared))
        say(
            f"round {number} of {asked.rounds}: {rounds[-1]['ratio_of_subset']:.2f} times faster on this subset"
        )
    save("sweep", rows(rounds), {"asked": vars(asked), "rounds": rounds})


def rows(rounds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    ratio = spread([each["ratio_of_total"] for each in rounds])
    compared, points = sum(len(each["compared"]) for each in rounds), rounds[0]["points"]
    extrapolated = f", extrapolated from {compared} of them" if compared < points else ""
    return [
        row(
            f"sweep: the {points} points of the anwar2021 default grid",
            at_least=f"{AT_LEAST:g} times faster",
            measured=f"{in_words(ratio)}: {rounds[0]['wall_s']:.0f} s",
            peer=f"a loop that launches torchrun once for each point, same steps{extrapolated}",
            met=ratio["median"] >= AT_LEAST,
        )
    ]


def config(min_repetitions: int = 0) -> dict[str, Any]:
    """The default configuration; with a number of repetitions given, exactly that many."""
    settings: dict[str, Any] = read_yaml(ROOT / "config" / "config.yaml", ROOT)
    if min_repetitions:
        settings["measure"] |= {"min_repetitions": min_repetitions, "max_repetitions": min_repetitions}
    return settings


# ------------------------------------------------------------------------------------------------ ours


def sweep(folder: Path, figures: str = FIGURES) -> dict[str, Any]:
    """Measure the runs of the figures (or grids: anwar2021/latency_0): wall_s, records, and each run's session.json."""
    plan = load(read_yaml(folder / "config" / "config.yaml", folder), folder)
    runs = dict.fromkeys(run for figure in figures.split() for run in plan.runs_of(figure))
    targets = [f"results/runs/{run.study}/{run.id}.json" for run in runs]
    wall_s = snakemake_s(
        folder,
        "--quiet",
        "rules",
        "progress",
        "--cores",
        "all",
        *targets,
        timeout_s=SWEEP_TIMEOUT_S,
        quiet=False,
    )
    store = sorted((folder / "results" / "store").glob("*/*/*.json"))
    sessions = (folder / "logs" / "runs").glob("**/session.json")
    return {
        "wall_s": wall_s,
        "records": [json.loads(path.read_text()) for path in store],
        "sessions": {path.parent.name: json.loads(path.read_text()) for path in sessions},
    }


def own_times_s(
    records: Sequence[Record], sessions: Mapping[str, Mapping[str, float]], wall_s: float
) -> dict[str, float]:
    """Each point's share of the sweep's wall time, by fingerprint.

    A point has the time of its own repetitions. A link's probe, which the first repetition on it contains, is divided
    among that link's points; the rest of a session (launch) among its points; what is outside of sessions among all.
    """
    count = len({record["fingerprint"] for record in records})
    outside_s = wall_s - fsum(session["wall_s"] for session in sessions.values())
    times_s: dict[str, float] = {}
    for run, session in sessions.items():
        of_run = sorted((each for each in records if each["run"] == run), key=lambda each: each["started"])
        own_s = dict.fromkeys((each["fingerprint"] for each in of_run), 0.0)
        of_link: dict[str, list[str]] = {}  # the points on each link, the one that was first on it first
        for record in of_run:
            own_s[record["fingerprint"]] += _duration_s(record)
            if record.get("link"):
                points = of_link.setdefault(json.dumps(record["link"]["asked"]), [])
                points += [] if record["fingerprint"] in points else [record["fingerprint"]]
        launch_s = session["wall_s"] - fsum(own_s.values())
        for points in of_link.values():
            probe_s = session["probe_s"] / len(of_link)
            own_s[points[0]] -= probe_s
            for point in points:
                own_s[point] += probe_s / len(points)
        times_s |= {key: own + launch_s / len(own_s) + outside_s / count for key, own in own_s.items()}
    return times_s


def _duration_s(record: Record) -> float:
    began, ended = (datetime.fromisoformat(record[key]) for key in ("started", "ended"))
    return (ended - began).total_seconds()


def measured_points(swept: Mapping[str, Any]) -> list[Record]:
    """What was measured, a point each: id (fingerprint), point, whether it fits, steps of all repetitions, our time."""
    own_s = own_times_s(swept["records"], swept["sessions"], swept["wall_s"])
    points: dict[str, Record] = {}
    for record in (each for each in swept["records"] if each["status"] != "stalled"):
        new = {
            "point": record["point"],
            "words": words(record["point"]),
            "dilation": record["dilation"],
            "planned_dilation": record["planned_dilation"],
            "fits": record["status"] == "measured",
            "steps": 0,
        }
        known = points.setdefault(record["fingerprint"], new)
        known["steps"] += record["warmup_steps"] + len(record["step_times_ms"][0]) if known["fits"] else 1
    return [{"id": key, **point, "ours_s": own_s[key]} for key, point in points.items()]


# ------------------------------------------------------------------------------------------------ theirs


def stratum(point: Mapping[str, Any]) -> tuple[int, bool]:
    """Points alike in what launching them takes: workers, and whether latency is above 40 ms."""
    return point["point"]["workers"], (point["point"]["latency_ms"] or 0.0) > 40


def picked(points: Iterable[Record], order: random.Random) -> list[Record]:
    """The points in a random order in which the strata take turns, so that the first few are spread over them."""
    strata: dict[tuple[int, bool], list[Record]] = {}
    for point in sorted(points, key=lambda each: each["id"]):
        strata.setdefault(stratum(point), []).append(point)
    for members in strata.values():
        order.shuffle(members)
    turns = max(map(len, strata.values()), default=0)
    return [
        members[turn] for turn in range(turns) for _, members in sorted(strata.items()) if turn < len(members)
    ]


def compare(swept: Mapping[str, Any], points: Sequence[Record], compared: Sequence[Record]) -> dict[str, Any]:
    """Their time by ours, for the points that were compared and, by stratum, for all that were measured."""
    ours_s, theirs_s = (fsum(each[key] for each in compared) for key in ("ours_s", "theirs_s"))
    total_s = extrapolated_s(points, compared)
    return {
        "wall_s": swept["wall_s"],
        "sessions": swept["sessions"],
        "points": len(points),
        "does_not_fit": sum(not each["fits"] for each in points),
        "compared": compared,
        "ours_s": ours_s,
        "theirs_s": theirs_s,
        "ratio_of_subset": theirs_s / ours_s,
        "theirs_extrapolated_s": total_s,
        "ratio_of_total": total_s / swept["wall_s"],
    }


def extrapolated_s(points: Iterable[Record], compared: Sequence[Record]) -> float:
    """Their time for all points: our time for each, times how much longer they took in its stratum.

    A stratum without any compared point takes the ratio of all of them.
    """
    strata: dict[tuple[int, bool], list[Record]] = {}
    for each in compared:
        strata.setdefault(stratum(each), []).append(each)
    return fsum(point["ours_s"] * _ratio(strata.get(stratum(point), compared)) for point in points)


def _ratio(compared: Iterable[Record]) -> float:
    ours_s, theirs_s = zip(*((each["ours_s"], each["theirs_s"]) for each in compared), strict=True)
    return fsum(theirs_s) / fsum(ours_s)


if __name__ == "__main__":
    benchmark(main)
