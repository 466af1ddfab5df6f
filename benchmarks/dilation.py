"""Time dilation: the same hosts at several factors k, on the same two cores and over the same links.

What is compared (`--compare`, several by commas; all by default):

- two: two hosts with a core each (k = 1, the truth) against themselves at k = 2, 4 and 8, with idle neighbours;
- grouped: the same while this process is in a CPU control group that is not the root (needs root, or one that is ours);
- four: four hosts on two cores, k = 2 against 4.

`python -m benchmarks vcpus` compares hosts of two vCPUs.

Cases are drawn at random (`benchmarks.dilation_cases`, `--seed`); `--cases choosing` takes those that constants were
chosen by. All factors of a case take turns in random order, and a turn's ratio is that of the step times, which
dilation has divided. What `two` and `grouped` find on drawn cases is written to `config/emulation_error.json`: how far
dilated times may be off, by what divides the cores.

Where it may, it holds the cores awake: how long a virtual core takes to wake up is not dilated.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import chain, groupby, product
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import (
    benchmark,
    cores_awake,
    digits,
    in_sandbox,
    in_words,
    keep_worst_cases,
    options,
    python_of_workers,
    row,
    save,
    say,
    spread,
    worst_case,
)
from benchmarks.dilation_cases import CHOOSING, SYSTEMS, Case, judging
from benchmarks.dilation_server import Server, server
from benchmarks.groups import two_cores
from ddlbench.errors import DdlbenchError
from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.shares.control_groups import own_group_here
from ddlbench.shares.systematic_error import WorstCase

# What is compared: hosts; factors, of which the first is the one that others are held against; limits in percent.
COMPARED: Mapping[str, Mapping[str, Any]] = {
    "two": {"hosts": 2, "k": (1, 2, 4, 8), "worst": {2: 8, 4: 8, 8: 12}, "within": 5, "share": 90},
    "grouped": {"hosts": 2, "k": (1, 2, 4), "worst": {2: 8, 4: 8}, "within": 5, "share": 90},
    "four": {"hosts": 4, "k": (2, 4), "worst": {4: 10}, "within": 7, "share": 80},
}
SHARED_AT = (2, 4)  # the factors whose cases must be within a few percent; at 8 the worst case counts alone
WARM_STEPS = 3


def main(arguments: Sequence[str]) -> None:
    systems = ",".join(map(":".join, SYSTEMS))
    asked = options(
        __doc__,
        arguments,
        compare=",".join(COMPARED),
        cases="12",
        systems=systems,
        turns=5,
        turn_s=0.6,
        seed=1,
    )
    chosen = [tuple(each.split(":")) for each in asked.systems.split(",")]
    cases = CHOOSING if asked.cases == "choosing" else judging(int(asked.cases), asked.seed, chosen)
    found: dict[str, Any] = {}
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        job = {**vars(asked), "dataset": digits(Path(folder))}
        for name in asked.compare.split(","):
            if name not in COMPARED:
                raise DdlbenchError(f"--compare {name}: expected some of {', '.join(COMPARED)}")
            job |= {"compare": name, "of_compare": [asdict(each) for each in cases]}
            job["pythons"] = {
                case.framework: python_of_workers(FRAMEWORKS[case.framework].environment) for case in cases
            }
            limit_s = 600 + 30 * len(cases) * asked.turns * (asked.turn_s + 1)
            with grouped(name == "grouped"):
                found[name] = in_sandbox("benchmarks.dilation", job, timeout_s=limit_s)
            found[name] |= {"cases": asked.cases, "seed": asked.seed}
    for name, of_compared in found.items():
        save(f"dilation_{name}", list(rows(name, **of_compared)), {"compared": of_compared})
    if asked.cases != "choosing":
        against_truth = [of_compared for name, of_compared in found.items() if COMPARED[name]["k"][0] == 1]
        keep_worst_cases(chain.from_iterable(worst_cases(**each) for each in against_truth))


def medians(turns: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, list[float]]]:
    """Of each case and factor the ratios of all turns."""
    ratios: dict[str, dict[int, list[float]]] = {}
    for turn in turns:
        ratios.setdefault(turn["case"], {}).setdefault(turn["k"], []).append(turn["ratio"])
    return ratios


def rows(
    name: str, turns: Sequence[Mapping[str, Any]], awake: bool, between: Sequence[str], cases: str, seed: int
) -> Iterator[dict[str, Any]]:
    """A row for each factor that is held against the first one."""
    asked, ratios = COMPARED[name], medians(turns)
    drawn = "those that constants were chosen by" if cases == "choosing" else f"drawn with seed {seed}"
    what = "four hosts" if name == "four" else "two hosts"
    for k, worst_percent in asked["worst"].items():
        of_k = {case: of_case[k] for case, of_case in ratios.items()}
        worst = max(of_k, key=lambda case: abs(median(of_k[case]) - 1))
        off = [100 * abs(median(each) - 1) for each in of_k.values()]
        near = 100 * mean(each <= asked["within"] for each in off)
        counts = k in SHARED_AT
        yield row(
            f"dilation: step time of {what}, k = {asked['k'][0]} against {k}"
            + (
                f", in a CPU control group ({' and '.join(between)} divide the cores)"
                if name == "grouped"
                else ""
            ),
            at_least=f"worst median {worst_percent} %"
            + (f"; {asked['share']} % of cases within {asked['within']} %" if counts else ""),
            measured=f"{in_words(spread(of_k[worst]))}: {worst}, the worst of {len(off)}; {near:.0f} % within "
            f"{asked['within']} %; half of them within {median(off):.2g} %",
            peer=f"the same hosts on the same two cores; cases {drawn}, n = {len(next(iter(of_k.values())))} turns"
            + ", cores held awake" * awake,
            met=max(off) <= worst_percent and (not counts or near >= asked["share"]),
        )


def worst_cases(
    turns: Sequence[Mapping[str, Any]], between: Sequence[str], **of_run: object
) -> Iterator[WorstCase]:
    """How far dilated times were off at most, by what divides a core and how many hosts share it: for records."""
    ratios = medians(turns)
    for divided, k in product(between, sorted({turn["k"] for turn in turns})):
        percent = max(100 * abs(median(of_case[k]) - 1) for of_case in ratios.values())
        yield worst_case("hosts", k, percent, len(ratios), divided_between=divided)


@contextmanager
def grouped(wanted: bool) -> Iterator[None]:
    """Be in a CPU control group of one's own for the length of a `with`, if that is wanted."""
    if not wanted:
        yield
        return
    if (parent := own_group_here()) is None:
        raise DdlbenchError("--compare grouped: this machine has no control groups that divide the cores")
    group = parent / "benchmark"
    try:
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text("0")
    except OSError as error:
        raise DdlbenchError(
            f"--compare grouped: {error.filename}: {error.strerror} (it needs root)"
        ) from error
    try:
        yield
    finally:
        (parent / "cgroup.procs").write_text("0")
        group.rmdir()


def inside(job: Mapping[str, Any]) -> dict[str, Any]:
    """All turns of a comparison, system by system; the order of cases and factors is random."""
    asked, order = COMPARED[job["compare"]], Random(job["seed"])
    cases = [Case(**each) for each in job["of_compare"]]
    cases.sort(key=lambda case: case.system)
    turns: list[dict[str, Any]] = []
    between: dict[str, None] = {}
    with cores_awake() as awake:
        for system, group in groupby(cases, key=lambda case: case.system):
            of_system = list(group)
            with ExitStack() as stack:
                at = {
                    k: stack.enter_context(server(two_cores(), asked["hosts"], k, of_system, job))
                    for k in asked["k"]
                }
                between |= dict.fromkeys(filter(None, (each.between for each in at.values())))
                say(f"{job['compare']}: {' '.join(system)}, {len(of_system)} cases")
                for number in range(job["turns"]):
                    order.shuffle(of_system)
                    for case in of_system:
                        turns += turn(case, at, job["turn_s"], order)
                    say(f"turn {number + 1} of {job['turns']}: " + ", ".join(
                        f"{each['ratio']:.3f}" for each in turns[-len(of_system) * (len(at) - 1) :]
                    ))  # fmt: skip
    return {"turns": turns, "awake": awake, "between": list(between)}


def turn(case: Case, at: Mapping[int, Server], turn_s: float, order: Random) -> list[dict[str, Any]]:
    """Measure a case once at each factor; the ratios to the first one."""
    first, *others = at
    times_ms = {k: at[k].step_ms(case, turn_s) for k in order.sample(list(at), len(at))}
    return [
        {
            "case": str(case),
            "k": k,
            "step_ms": times_ms[k],
            "first_ms": times_ms[first],
            "ratio": times_ms[k] / times_ms[first],
        }
        for k in others
    ]


if __name__ == "__main__":
    benchmark(main, inside)
