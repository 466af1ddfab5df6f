"""The table of numbers: from benchmarks/results/*.json into docs/accuracy.md, and a handful into README.md.

Each page has it between two markers.

python benchmarks/report.py
"""

import ast
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ORDER = (
    *(
        "coverage",
        "sweep",
        "share",
        "framework_share",
        "worker",
        "link",
        "probe",
        "dilation",
        "core_share",
        "vcpus",
        "dry_run",
    ),
    *(
        "replay",
        "death",
        "wire_bytes",
        "telemetry",
        "environments",
        "images",
        "containers",
        "memory",
        "slurm",
        "emulate",
        "prediction",
        "active",
        "api",
    ),
)
HANDFUL = {  # benchmark -> words of its row that README has; chosen by what they are about, met or missed
    "coverage": "time-outs that are followed by others",
    "dilation_two": "k = 1 against 4",
    "emulate": "1000 Mbit/s",
    "prediction": "predicted from a quarter",
    "api": "p99 of the latency",
}
COUNTS = {  # benchmark whose rows do not say it -> how often it measured, by its file, in which lists count
    "sweep": "{rounds} sweeps, each with {asked[points]} points launched one by one",
    "share": "1 run",
    "framework_share": "1 run",
    "worker": "{asked[rounds]} launches of {asked[pairs]} pairs",
    "link": "{asked[rounds]} rounds; once each loss, and each latency with {asked[pings]} packets",
    "probe": "{asked[turns]} turns, {asked[shaped_turns]} over the shaped link, {asked[curves]} curves",
    "dry_run": "{ours_s}",
    "wire_bytes": "{asked[steps]} steps",
    "telemetry": "{asked[rounds]} launches of {asked[pairs]} pairs",
    "environments": "1",
    "images": "1; {unchanged_s} with nothing changed",
    "containers": "{took_s[docker][ours]} starts",
    "memory": "1 launch",
    "slurm": "{first_steps_s} jobs",
    "emulate": "{asked[turns]} turns, {asked[starts]} starts",
    "api": "{asked[turns]} turns",
}
_CHANGES = re.compile(r"\bdefault (configuration|grid|figures)\b")  # from day to day
BEGIN, END = "<!-- numbers -->", "<!-- /numbers -->"


def main() -> None:
    trial = os.environ.get("BENCHMARK_RESULTS")
    measured = results(Path(trial or ROOT / "benchmarks" / "results"))
    print(table(measured))
    for name, text in pages(measured).items():
        page = ROOT / name
        if trial or not measured:
            print(f"{name} stays as it is")
        elif BEGIN not in (old := page.read_text()):
            print(f"{name} stays as it is: it has no {BEGIN} ... {END}")
        else:
            page.write_text(with_table(old, text))


def results(folder: Path) -> list[Mapping[str, Any]]:
    """What was measured, in the order of the table."""
    files = [
        file for name in ORDER for file in (folder / f"{name}.json", *sorted(folder.glob(f"{name}_*.json")))
    ]
    return [json.loads(file.read_text()) for file in files if file.is_file()]


def pages(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The table of each page, by its path below the repository's root."""
    return {"docs/accuracy.md": table(results, without(results)), "README.md": table(handful(results))}


def without(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The benchmarks that have no results."""
    measured = tuple(f"{result['benchmark']}_" for result in results)
    return [name for name in ORDER if not any(each.startswith(f"{name}_") for each in measured)]


def handful(results: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The results with the rows of HANDFUL alone."""
    for result in results:
        if words := HANDFUL.get(result["benchmark"]):
            yield {**result, "rows": [row for row in result["rows"] if words in row["what"]]}


def table(results: Iterable[Mapping[str, Any]], without: Iterable[str] = ()) -> str:
    """Markdown: a row for each number, one for each benchmark without results, and below the machines and dates."""
    lines = ["| what | at least | measured: median (range) | against |", "|---|---|---|---|"]
    where: dict[str, list[str]] = {}
    for result in results:
        machine = result["machine"]
        commit = (result["commit"] or "")[:7] or "no commit"
        there = f"{machine['cpu_model']}, {machine['cores']} cores, {result['date'][:10]}, {commit}"
        where.setdefault(there, []).append(result["benchmark"])
        count = count_of(result)
        for row in result["rows"]:
            measured = row["measured"] if row["met"] else f"**missed:** {row['measured']}"
            against = "; ".join(filter(None, (row["peer"], count)))
            line = f"| {row['what']} | {row['at_least']} | {measured} | {against} |"
            lines.append(_CHANGES.sub(rf"\g<0> of {result['date'][:10]}", line))
    lines += [f"| {title(name)} |  | not measured | `python -m benchmarks {name}` |" for name in without]
    measured = "; ".join(f"{', '.join(names)} ({there})" for there, names in where.items())
    return "\n".join([*lines, "", f"Measured by `python -m benchmarks`: {measured or 'nothing yet'}."])


def count_of(result: Mapping[str, Any]) -> str:
    """`n = 5 turns`; nothing where the rows say it themselves."""
    words = COUNTS.get(result["benchmark"])
    return f"n = {words.format_map(_counted(result))}" if words else ""


def _counted(value: Any) -> Any:
    """`value` with the length of each list in its place."""
    if isinstance(value, Mapping):
        return {key: _counted(each) for key, each in value.items()}
    return len(value) if isinstance(value, list) else value


def title(name: str) -> str:
    """What a benchmark says of itself in its first sentence."""
    text = ast.get_docstring(ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text())) or name
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def with_table(text: str, table: str) -> str:
    """`text` with what is between the markers replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


if __name__ == "__main__":
    main()
