"""Working copies of ddlbench that have one tiny study."""

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddlbench.plan import load
from ddlbench.system.processes import die_with_parent
from tests.support.repository import REPOSITORY, copy_of_the_repository, environment, snakemake
from tests.support.small_study import write_few_devices
from tests.support.tiny_study import TINY_SETTINGS, TINY_STUDY

ENVIRONMENT = Path(".environments/torch/environment.json")
MEASUREMENTS = "[0-9a-f][0-9a-f]/*/*.json"


@dataclass(frozen=True)
class Pipeline:
    """A working copy of ddlbench whose only study is tiny."""

    root: Path

    def copy(self, root: Path) -> "Pipeline":
        """A copy at `root`; of a large image file it has a link, as no test writes to one."""

        def linked(source: str, target: str) -> None:
            (os.link if source.endswith(".sif") else shutil.copy2)(source, target)

        shutil.copytree(self.root, root, copy_function=linked)
        return Pipeline(root)

    def configure(self, settings: Mapping[str, Any] = {}, study: Mapping[str, Any] = TINY_STUDY) -> None:
        """Write the configuration: the repository's, the tiny settings, then `settings` (its `measure` key by key)."""
        config = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text())
        config |= copy.deepcopy(dict(TINY_SETTINGS))
        measure = config["measure"] | settings.get("measure", {})
        config |= {**settings, "measure": measure}
        (self.root / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        for file in (self.root / "config/studies").glob("*.yaml"):
            file.unlink()
        (self.root / "config/studies/tiny2000.yaml").write_text(yaml.safe_dump(dict(study), sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        """Snakemake as `make run` calls it."""
        return [sys.executable, "-m", "snakemake", *arguments]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start Snakemake and do not wait for it; what it says goes to `said`."""
        with (self.root / "said.txt").open("w") as said:
            command = self.command(*arguments)
            return subprocess.Popen(
                command,
                cwd=self.root,
                env=environment(self.root),
                stdout=said,
                stderr=said,
                text=True,
                preexec_fn=die_with_parent,
            )

    def run(self, *arguments: str) -> str:
        """Run Snakemake to its end, which must be a good one; returns what it said."""
        answer = self.attempt(*arguments)
        assert answer.returncode == 0, answer.stderr
        return answer.stderr

    def attempt(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run Snakemake to its end."""
        return snakemake(self.root, *self.command(*arguments)[3:])

    def ddlbench(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """The command `ddlbench`."""
        return subprocess.run(
            [sys.executable, "-m", "ddlbench.cli", *arguments],
            cwd=self.root,
            env=environment(self.root),
            capture_output=True,
            text=True,
        )

    @property
    def said(self) -> str:
        """What Snakemake has said since `start`; on a cluster, what all its starts have said."""
        return (self.root / "said.txt").read_text()

    def manifest(self, grid: str) -> str:
        """The file that lists what was measured of a grid's only run."""
        (run,) = load(self.root / "config/config.yaml", self.root).runs_of(f"tiny2000/{grid}")
        return f"results/runs/{run.study}/{run.id}.json"

    def measurements(self) -> dict[str, bytes]:
        """The measurement files that there are now, by name."""
        store = self.root / "results/store"
        return {str(file.relative_to(store)): file.read_bytes() for file in sorted(store.glob(MEASUREMENTS))}

    def records(self) -> list[dict[str, Any]]:
        """What the measurement files hold."""
        return [json.loads(content) for content in self.measurements().values()]


def with_images(pipeline: Pipeline, engine_address: str, *images: str) -> Pipeline:
    """Give a pipeline its data set, and images (their descriptions) that an engine makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine_address)
        pipeline.run("results/datasets/digits-28x28x1.npz", *images)
    return pipeline


def new_pipeline(root: Path) -> Pipeline:
    """A copy of the repository with the tiny study; its PyTorch environment is used where it is."""
    pipeline = Pipeline(copy_of_the_repository(root))
    (root / ENVIRONMENT).parent.mkdir(parents=True)
    shutil.copy(REPOSITORY / ENVIRONMENT, root / ENVIRONMENT)
    write_few_devices(root)
    pipeline.configure()
    return pipeline
