"""What the benchmarks share: results as files, spreads in words, sandboxes with a time limit, throw-away folders."""

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Literal

from ddlbench.datasets import prepare
from ddlbench.errors import DdlbenchError, exit_on_error
from ddlbench.files import write_atomically
from ddlbench.measurements import facts, provenance
from ddlbench.sandbox.sandbox import run_sandboxed
from ddlbench.shares.systematic_error import FILE, Judged, WorstCase, read_judged
from ddlbench.system.processes import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
# Trials go elsewhere: a number of the project is not overwritten by a small one.
RESULTS = Path(os.environ.get("BENCHMARK_RESULTS", ROOT / "benchmarks" / "results"))
ENVIRONMENT = ROOT / ".environments" / "torch" / "environment.json"

Inside = Callable[[Any], Any]


def row(what: str, *, at_least: str, measured: str, peer: str, met: bool) -> dict[str, Any]:
    """A row of the table in docs/accuracy.md."""
    return {"what": what, "at_least": at_least, "measured": measured, "peer": peer, "met": met}


@cache
def code_version() -> dict[str, Any]:
    """The code before this process has written anything: results are files of the same tree."""
    return provenance.code_version()


def save(name: str, rows: Sequence[Mapping[str, Any]], details: Mapping[str, Any]) -> None:
    """Write <name>.json into the results: the table's rows, what they were made from, and where and when."""
    code = code_version()
    result = {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": code["commit"],
        "code": code,
        "machine": facts.gather(),
        "rows": rows,
        **details,
    }
    write_atomically(RESULTS / f"{name}.json", json.dumps(result, indent=1) + "\n")
    for each in rows:
        say(
            f"{'ok  ' if each['met'] else 'MISS'} {each['what']}: {each['measured']} (at least: {each['at_least']})"
        )


def worst_case(
    of: Literal["hosts", "vcpus"],
    on_a_core: int,
    percent: float,
    cases: int,
    divided_between: str | None = None,
) -> WorstCase:
    """How far emulated times were off in the worst of some cases, with code, machine and date."""
    return WorstCase(
        of=of,
        on_a_core=on_a_core,
        divided_between=divided_between,
        percent=round(percent, 1),
        cases=cases,
        commit=code_version()["commit"],
        date=datetime.now(UTC).date().isoformat(),
        machine=facts.short_label(facts.gather()),
    )


def keep_worst_cases(found: Iterable[WorstCase]) -> None:
    """Write them into the file that records have their systematic error from; what was not judged again stays there."""
    if not RESULTS.is_relative_to(ROOT):
        return
    kept = with_worst_cases(read_judged(), found)
    write_atomically(FILE, json.dumps(asdict(kept), indent=1) + "\n")


def with_worst_cases(judged: Judged, found: Iterable[WorstCase]) -> Judged:
    """`judged`, in which those of the same kind are replaced; of two that were found, the larger one counts."""
    worst_last = (*judged.worst_cases, *sorted(found, key=lambda each: each.percent))
    kept = {(each.of, each.divided_between or "", each.on_a_core): each for each in worst_last}
    return Judged(tuple(kept[key] for key in sorted(kept)))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": median(values), "lowest": min(values), "highest": max(values), "count": len(values)}


def in_words(found: Mapping[str, float], unit: str = "") -> str:
    """`5.2 s (4.9 to 5.6)`."""
    return f"{found['median']:.3g}{unit} ({found['lowest']:.3g} to {found['highest']:.3g})"


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def python_of_workers(environment: str = "torch") -> str:
    """The interpreter of a framework's environment. Raises DdlbenchError where that has not been made yet."""
    described = ENVIRONMENT.parents[1] / environment / ENVIRONMENT.name
    if not described.is_file():
        raise DdlbenchError(
            f"{described.relative_to(ROOT)} is missing: `snakemake --cores 2 {described.relative_to(ROOT)}` makes it"
        )
    return str(json.loads(described.read_text())["python"])


def digits(folder: Path) -> str:
    """Make the data set `digits` in `folder`; returns its file."""
    prepare("digits", None, folder / "digits.npz")
    return str(folder / "digits.npz")


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise DdlbenchError in the main thread when `seconds` have passed."""

    def give_up(signal_number: int, frame: object) -> None:
        raise DdlbenchError(f"{what} took longer than {seconds:g} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def in_sandbox(module: str, job: Any, *, timeout_s: float) -> Any:
    """What the function that `module` gives to `benchmark` as `inside` makes of `job`, in a sandbox of its own."""
    with TemporaryDirectory(prefix="ddlbench-") as folder, time_limit(timeout_s, module):
        (Path(folder) / "job.json").write_text(json.dumps(job))
        if status := run_sandboxed(module, ["--inside", folder]):
            raise DdlbenchError(f"{module} failed in its sandbox (status {status})")
        return json.loads((Path(folder) / "answer.json").read_text())


def benchmark(outside: Callable[[Sequence[str]], None], inside: Inside = lambda job: None) -> None:
    """Run a benchmark's script: its part in a sandbox where that is asked for, otherwise the part outside."""
    os.chdir(ROOT)
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    with exit_on_error():
        if sys.argv[1:2] == ["--inside"]:
            folder = Path(sys.argv[2])
            tempfile.tempdir = os.environ["TMPDIR"] = str(folder)  # what is left behind goes with it
            answer = inside(json.loads((folder / "job.json").read_text()))
            (folder / "answer.json").write_text(json.dumps(answer))
        else:
            outside(sys.argv[1:])


@contextmanager
def cores_awake() -> Iterator[bool]:
    """Ask the kernel to let no core sleep (/dev/cpu_dma_latency, root only); whether it does."""
    try:
        held = os.open("/dev/cpu_dma_latency", os.O_WRONLY)
    except OSError:
        yield False
        return
    try:
        os.write(held, struct.pack("i", 0))  # as long as it is open
        yield True
    finally:
        os.close(held)


def options(
    description: str | None, arguments: Sequence[str], **defaults: int | float | str
) -> argparse.Namespace:
    """Options with these names, types and defaults."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    for name, value in defaults.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(value), default=value, help="default: %(default)s"
        )
    return parser.parse_args(arguments)


@contextmanager
def repository(*, config: Mapping[str, Any], study: Mapping[str, Any] | None = None) -> Iterator[Path]:
    """A folder that works like this repository, with nothing measured and drawn in it yet.

    It has another configuration, and another study too if one is given. Gone, with all results, in the end.
    """
    with TemporaryDirectory(prefix="ddlbench-") as name:
        folder = Path(name)
        for part in ("Snakefile", "workflow", "containers", "src"):
            (folder / part).symlink_to(ROOT / part)
        shutil.copytree(ROOT / "config", folder / "config")
        # JSON is YAML
        (folder / "config" / "config.yaml").write_text(json.dumps(config))
        if study:
            (folder / "config" / "studies" / f"{study['key']}.yaml").write_text(json.dumps(study))
        for described in ENVIRONMENT.parents[1].glob(f"*/{ENVIRONMENT.name}"):
            here = folder / ".environments" / described.parent.name
            here.mkdir(parents=True)
            # newer than its requirements here, so that it is not made again
            shutil.copyfile(described, here / described.name)
        yield folder


def snakemake_s(folder: Path, *arguments: str, timeout_s: float, quiet: bool = True) -> float:
    """Run Snakemake in `folder`; returns the seconds that it took. Raises DdlbenchError where it fails."""
    log = folder / "snakemake.out"
    began = monotonic()
    with log.open("w") as output:
        status = subprocess.run(
            [sys.executable, "-m", "snakemake", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output if quiet else None,
            timeout=timeout_s,
            preexec_fn=die_with_parent,
        ).returncode
    took_s = monotonic() - began
    if status:
        tail = "\n  ".join(log.read_text().splitlines()[-12:])
        raise DdlbenchError(f"snakemake {' '.join(arguments)} failed (status {status}):\n  {tail}")
    return took_s
