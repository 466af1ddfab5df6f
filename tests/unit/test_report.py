"""The page of all results: complete, of what was measured alone, and without a request to any network."""

import html
import json
import re
from html.parser import HTMLParser
from shutil import copy

import pytest

from ddlbench.claims.claim import read_claims
from ddlbench.claims.report import judge_files
from ddlbench.measurements.record import DamagedRecord, seal
from ddlbench.plan import load
from ddlbench.report.drawn import read_drawn
from ddlbench.report.open_points import unresolved
from ddlbench.report.page import write_page
from tests.support.measurement_samples import a_repository
from tests.support.repository import REPOSITORY

FIGURE = "zhao2016_fig5"
CAPTION = (
    "**Title.** Emulated: a *rate* of <script>alert(1)</script>.\n\n.. raw:: html\n\n   <b>not this</b>\n"
)


def wire(mbit, latency_ms=0.0):
    return {"bandwidth_mbit": float(mbit), "latency_ms": latency_ms, "loss_percent": 0.0}


def one_way(mbit):
    return {"rate_mbit": mbit, "latency_ms": 7.5, "jitter_ms": 0.0, "loss_percent": 0.25}


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
    judge_files(claims, tables, root / "results/claims.csv", root / "results/claims.md", "")
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


def test_points_are_unresolved_where_a_time_of_them_is_shown_and_named_once():
    row = {"study": "pani2020", "point_id": "one", "resolved": "False"}
    resolved = row | {"point_id": "two", "resolved": "True"}
    known = {"training_time_s": [row, resolved], "images_per_second": [row], "speedup": [row]}
    assert unresolved(known.items()) == {"pani2020": ["one"]}
    assert unresolved({"test_accuracy_percent": [row], "link_rate_mbit": [row]}.items()) == {}


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
    assert "<p>2 points in 6 repetitions, " in page  # the third was not measured
    assert "381.5" in page
    assert "Silver 4214" in page
    assert "torch 2.5.1" in page
    assert "emulated hosts, computed by CPUs" in page
    assert "The paper trains with MXNet" in page


@pytest.mark.parametrize(
    ("asked", "measured", "rows"),
    [
        (
            {
                "sites": ["here", "there"],
                "lans": {"here": wire(1000), "there": wire(100)},
                "wans": {"here -> there": wire(20, 10.0), "there -> here": wire(5, 30.0)},
            },
            {name: one_way(mbit) for name, mbit in (("here", 999.0), ("there -> here", 4.9))},
            [
                "there -> here: 5 Mbit/s, 30 ms, 0 % 4.9 one way 7.5 0.25",
                "here -> there: 20 Mbit/s, 10 ms, 0 % not measured not measured not measured",
                "there: 100 Mbit/s, 0 ms, 0 % not measured not measured not measured",
                "here: 1,000 Mbit/s, 0 ms, 0 % 999 one way 7.5 0.25",
            ],
        ),
        (
            {"card": wire(1000), "inside": wire(8000)},
            {"card": one_way(990.0), "inside": one_way(7900.0)},
            [
                "card: 1,000 Mbit/s, 0 ms, 0 % 990 one way 7.5 0.25",
                "inside: 8,000 Mbit/s, 0 ms, 0 % 7,900 one way 7.5 0.25",
            ],
        ),
    ],
    ids=["sites", "shared cards"],
)
def test_each_link_of_sites_and_of_shared_cards_is_told_by_its_name(root, asked, measured, rows):
    for file in (root / "results/store").rglob("*.json"):
        record = json.loads(file.read_text())
        record["link"] |= {"asked": asked, "measured": measured}
        file.write_text(json.dumps(seal(record)))
    section = written(root).partition('id="links"')[2].partition("</section>")[0]
    _, *found = re.findall("<tr>(.*?)</tr>", section, re.DOTALL)
    words = [" ".join(html.unescape(re.sub("<[^>]*>", " ", row)).split()) for row in found]
    assert words == [f"{row} netem 6" for row in rows]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("anwar2021_table4", ["workers", "batch_size", "latency_ms", "epoch_time_s", "status"]),
        ("shi2019_faults", ["framework", "strategy", "killed", "outcome", "status"]),
        ("wang2019_fig3_network", ["runtime", "size_bytes", "network", "one_way_us", "status"]),
    ],
)
def test_the_values_of_a_table_have_all_columns_that_tell_its_rows_apart(tmp_path, name, columns):
    figure = load(REPOSITORY / "config/config.yaml", REPOSITORY).figures[name]
    (tmp_path / f"{name}.svg").write_text("<svg/>")
    (tmp_path / f"{name}.caption.rst").write_text(CAPTION)
    (tmp_path / f"{name}.csv").write_text(f"other,{','.join(columns)}\n0{',1' * len(columns)}\n")
    drawn = read_drawn(tmp_path / f"{name}.svg", figure)
    assert len(drawn.rows) == 1
    assert drawn.columns == [column.replace("_", " ") for column in columns]


def test_text_from_outside_becomes_no_markup(page):
    assert "<script>" not in page
    assert "<b>not this</b>" not in page


def test_a_damaged_measurement_is_not_reported(root):
    record = next((root / "results/store").rglob("*.json"))
    record.write_text(json.dumps(json.loads(record.read_text()) | {"repetition": 7}))
    with pytest.raises(DamagedRecord, match="checksum"):
        written(root)
