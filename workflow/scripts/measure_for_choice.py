"""Measure what helps a decision most, and write the answer."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ddlbench.code.purposes import code_for
from ddlbench.environments.materials import Materials, description_files
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.plan import load
from ddlbench.recommender.active.goal import goal_of
from ddlbench.recommender.active.measuring import measure_for_choice, write_answer
from ddlbench.recommender.active.options import options_of
from ddlbench.runs.invocation import stamped
from ddlbench.runs.mending import require_sound
from ddlbench.runs.one_point import measure_point

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    require_sound(snakemake.input.tables)
    plan = load(snakemake.config, Path.cwd(), gpus=snakemake.params.gpus)
    asked = plan.settings.recommend
    runs = options_of(plan, asked)
    datasets = {Path(path).stem: Path(path) for path in snakemake.input.datasets}

    answer, logs = Path(snakemake.output[0]), Path(snakemake.log[0]).parent
    since = stamped(answer, Path(plan.settings.own_results))

    def measure(point, again):
        materials = Materials(description_files([point]), {point.dataset_key: datasets[point.dataset_key]})
        return measure_point(plan, runs[point], point, materials, logs, since, again=again)

    tables = [Path(table) for table in snakemake.input.tables]
    goal, warnings = goal_of(asked, list(runs), started.date())
    ended = measure_for_choice(asked, goal, list(runs), tables, measure)
    write_answer(answer, asked, goal, warnings, ended)
    write_sidecar(
        answer,
        made_by=snakemake.rule,
        inputs={"table": [*tables, *ended.tables]},
        code=code_for("recommend"),
        parameters={**asked.question, "goal": asdict(goal)},
        started=started,
    )
