"""The page of all results: complete, of what was measured alone, and without a request to any network."""

import json
from html.parser import HTMLParser
from shutil import copy

import pytest

from ddlbench.claims.claim import read_claims
from ddlbench.claims.report import judge_files
from ddlbench.measurements.record import DamagedRecord
from ddlbench.plan import load
from ddlbench.report.page import write_page
from tests.support.measurement_samples import a_repository
from tests.support.repository import REPOSITORY

FIGURE = "zhao2016_fig5"
CAPTION = (
    "**Title.** Emulated: a *rate* of <script>alert(1)</script>.\n\n.. raw:: html\n\n   <b>not this</b>\n"
)


class Links(HTMLParser):
    """All that a page names elsewhere, and the identifiers it has."""

    def __init__(self):
        super().__init__()
        self.named, self.ids, self.images = [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.named += [given[key] for key in ("src", "href", "srcset", "data", "action") if given.get(key)]
        self.ids += [given["id"]] if "id" in given else []
        self.images += [given] if tag == "img" else []


@pytest.fixture
def root(tmp_path):
    a_repository(tmp_path)
    (tmp_path / f"results/figures/{FIGURE}.caption.rst").write_text(CAPTION)
    return tmp_path


@pytest.fixture
def page(root):
    return written(root)


def written(root, config="config/config.yaml", names=(FIGURE,)):
    tables = [root / f"results/tables/{name}.csv" for name in names]
    claims = sorted((REPOSITORY / "config/claims").glob("*.yaml"))
    judge_files(claims, tables, root / "results/claims.csv", root / "results/claims.md")
    write_page(
        root / "results/report.html",
        load(REPOSITORY / config, REPOSITORY),
        [root / f"results/figures/{name}.svg" for name in names],
        tables,
        root / "results/claims.csv",
        root,
    )
    return (root / "results/report.html").read_text()


def test_a_study_of_no_paper_has_a_heading_and_names_none(root):
    config = root / "both.yaml"
    config.write_text(f"studies: [zhao2016, gpu2026]\ndefault_figures: [{FIGURE}]\n")
    for file in (*(root / "results/figures").glob(f"{FIGURE}.*"), root / f"results/tables/{FIGURE}.csv"):
        copy(file, str(file).replace(FIGURE, "gpu2026_one"))
    ours = written(root, config, (FIGURE, "gpu2026_one")).split('id="study-')
    headings = [part.split("<figure")[0] for part in ours[1:]]
    assert headings[0].endswith("(2016).</p>\n")
    assert headings[1].endswith("gpu2026: a GPU beside its replay</h3>\n")


def test_it_asks_nothing_of_a_network(page):
    links = Links()
    links.feed(page)
    assert links.named
    assert all(name.startswith(("#", "data:")) for name in links.named)
    assert {name[1:] for name in links.named if name.startswith("#")} <= set(links.ids)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_each_identifier_is_there_once_and_each_picture_says_what_it_shows(page):
    links = Links()
    links.feed(page)
    assert len(links.ids) == len(set(links.ids))
    assert all(image["alt"] for image in links.images)


def test_it_has_all_claims_with_their_reasons(page):
    for file in (REPOSITORY / "config/claims").glob("*.yaml"):
        assert file.stem in page
    assert page.count("not measured; to measure it:") > 40
    count = sum(len(read_claims(file, REPOSITORY)) for file in (REPOSITORY / "config/claims").glob("*.yaml"))
    assert f"{count} claims" in page


def test_what_is_missing_has_its_reason_and_what_was_measured_its_link_and_host(page):
    assert "no GPU here" in page
    assert "6 repetitions" in page
    assert "381.5" in page
    assert "Silver 4214" in page
    assert "torch 2.5.1" in page
    assert "emulated hosts, computed by CPUs" in page
    assert "The paper trains with MXNet" in page


def test_text_from_outside_becomes_no_markup(page):
    assert "<script>" not in page
    assert "<b>not this</b>" not in page


def test_a_damaged_measurement_is_not_reported(root):
    record = next((root / "results/store").rglob("*.json"))
    record.write_text(json.dumps(json.loads(record.read_text()) | {"repetition": 7}))
    with pytest.raises(DamagedRecord, match="checksum"):
        written(root)
