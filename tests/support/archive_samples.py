"""An archive of results, made of a small repository."""

from pathlib import Path

from ddlbench.report.crate import Run, write_archive
from tests.support.measurement_samples import a_repository

TABLE = "results/tables/zhao2016_fig5.csv"


def an_archive(folder: Path) -> Path:
    """Write `report.zip` of a table and what it was made of, in a folder."""
    root = folder / "repository"
    root.mkdir()
    a_repository(root)
    (root / "config").mkdir()
    (root / "config/config.yaml").write_text("results: results\n")
    write_archive(folder / "report.zip", Run(TABLE, [TABLE], [root / "config/config.yaml"]), root)
    return folder / "report.zip"
