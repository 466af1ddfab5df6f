"""README and docs/claims.md show all claims as they stand, and the same verdicts."""

from collections import Counter
from shutil import copy

import pandas as pd
import pytest

from ddlbench.claims.claim import read_claims
from ddlbench.claims.documents import BEGIN, END, write_documents
from ddlbench.claims.judge import NOT_REACHED, REPLICATED, VERDICTS
from ddlbench.claims.report import COLUMNS
from ddlbench.errors import DdlbenchError
from tests.support.repository import REPOSITORY

PAGES = ("README.md", "docs/claims.md")
AGAIN = "make it anew: python -m ddlbench.claims.documents results/claims.csv"
CLAIMS = {
    f"{file.stem}: {claim.says}": claim
    for file in (REPOSITORY / "config/claims").glob("*.yaml")
    for claim in read_claims(file, REPOSITORY)
}


def made(name):
    """The cells of what is made, by the text of the first: counts of a study, or a claim."""
    _, _, rest = (REPOSITORY / name).read_text().partition(BEGIN)
    lines = rest.partition(END)[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {first: cells for first, *cells in rows}


README, DOCS = (made(name) for name in PAGES)
OF_README, OF_DOCS = (
    {name: cells for name, cells in page.items() if ": " in name} for page in (README, DOCS)
)


def test_docs_have_every_claim_as_it_is_written():
    assert OF_DOCS.keys() == CLAIMS.keys(), AGAIN


def test_readme_has_every_claim_that_was_judged_with_our_value_and_what_the_paper_asks():
    judged = {name: cells for name, cells in OF_DOCS.items() if cells[0] != NOT_REACHED}
    assert len(judged) >= 40
    assert OF_README.keys() == judged.keys(), AGAIN
    for name, (verdict, _, ours, why) in judged.items():
        assert README[name][:2] == [verdict, ours or why.partition(": measure ")[0]], AGAIN
        paper = CLAIMS[name].paper
        assert paper is None or README[name][2].startswith(f"{paper:g} +- "), AGAIN


@pytest.mark.parametrize("page", [README, DOCS], ids=PAGES)
def test_counts_are_those_of_the_claims(page):
    found = Counter((name.partition(": ")[0], cells[0]) for name, cells in OF_DOCS.items())
    for study in {study for study, _ in found}:
        assert page[study] == [str(found[study, verdict]) for verdict in VERDICTS], AGAIN
    assert f"all {len(CLAIMS)}" in page, AGAIN


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in PAGES:
        copy(REPOSITORY / name, tmp_path / name)
    row = dict.fromkeys(COLUMNS, "a") | {"verdict": REPLICATED, "ours": 0.5, "low": 0.4, "high": 0.6}
    pd.DataFrame([row | {"paper": 0.51, "tolerance_percent": 20}]).to_csv(tmp_path / "claims.csv")
    return tmp_path


def test_only_what_is_made_is_written_anew(root):
    write_documents(root / "claims.csv", root)
    for name in PAGES:
        before, after = ((folder / name).read_text() for folder in (REPOSITORY, root))
        assert after.partition(BEGIN)[0] == before.partition(BEGIN)[0]
        assert after.partition(END)[2] == before.partition(END)[2]
    assert "| a: a | replicated | 0.5 [0.4, 0.6] | 0.51 +- 20 % |" in (root / "README.md").read_text()


def test_a_page_without_a_place_for_them_is_named(root):
    page = root / "docs/claims.md"
    page.write_text(page.read_text().replace(END, ""))
    with pytest.raises(DdlbenchError, match=r"docs/claims\.md: lacks"):
        write_documents(root / "claims.csv", root)
