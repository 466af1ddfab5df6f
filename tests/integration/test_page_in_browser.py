"""The recommender's page in Chromium, as people use it: by mouse, keyboard and screen reader, on a phone, at night."""

import re
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from ddlbench.cli.main import main
from tests.support.recommender_server import ANWAR, served
from tests.support.repository import REPOSITORY, copy_of_the_repository, snakemake

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
PATIENCE_MS = 250_000  # a busy machine takes its time to learn
expect.set_options(timeout=PATIENCE_MS)
PHONE, DESK = {"width": 320, "height": 640}, {"width": 1000, "height": 900}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    prices = folder / "prices.yaml"
    text = (REPOSITORY / "config/prices.yaml").read_text()
    prices.write_text(re.sub(r"date: .*", "date: 2021-06-23", text))
    with served(folder, "--prices", str(prices)) as found:
        assert found.import_table("anwar", ANWAR).status_code == 201
        yield found


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        with playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE_MS) as found:
            yield found


@pytest.fixture
def opened(browser, server):
    """opened(query, **context) is the page, which in the end has had no error."""
    contexts, errors = [], []

    def open_page(query="", address=None, **context):
        contexts.append(browser.new_context(**{"viewport": DESK, **context}))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"{address or server.url}{query}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    # The browser notes each response that refuses; what the page makes of it is what tests look at.
    assert not [error for error in errors if "Failed to load resource" not in error]


def headline(page):
    return expect(page.get_by_role("heading", level=2))


def test_the_two_inputs_of_anwar2021_show_its_printed_answers(opened):
    page = opened()
    for latency, workers in (("0", 4), ("20", 3)):
        page.get_by_label("Batch size").fill("64000")
        page.get_by_label("Latency").fill(latency)
        page.get_by_role("button", name="Recommend").click()
        headline(page).to_have_text(f"Take {workers} workers", timeout=PATIENCE_MS)
        expect(page.locator("#answer")).to_contain_text(
            "(measured by others, in the table anwar; nine of ten"
        )
        best = page.locator("#options tbody tr").first
        expect(best).to_contain_text("measured")
        expect(best.locator("th")).to_have_text(str(workers))


def test_the_keyboard_suffices(opened):
    page = opened()
    expect(page.get_by_label("Batch size")).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the answer")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Batch size")).to_be_focused()
    page.keyboard.type("64000")
    page.keyboard.press("Tab")
    page.keyboard.type("20")
    page.keyboard.press("Enter")
    headline(page).to_have_text("Take 3 workers", timeout=PATIENCE_MS)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # opens what more can be said
    expect(page.get_by_label("Bandwidth")).to_be_visible()


ASKED = "?batch_size=64000&latency_ms=20&machine=t2.large&steps=100"


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(opened, colours, viewport):
    page = opened(ASKED, color_scheme=colours, viewport=viewport)
    headline(page).to_have_text("Take 3 workers", timeout=PATIENCE_MS)
    page.locator("#import summary").click()
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["impact"], [node["html"] for node in each["nodes"]]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_axe_finds_nothing_where_something_is_wrong(opened):
    page = opened()
    page.get_by_label("Batch size").fill("-1")
    page.get_by_role("button", name="Recommend").click()
    expect(page.get_by_label("Batch size")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Batch size")).to_be_focused()
    expect(page.locator("#wrong-batch_size")).to_contain_text("greater than or equal to 1")
    assert Axe().run(page).response["violations"] == []


def test_the_charts_follow_the_colours_and_the_old_price_is_said(opened):
    page = opened(ASKED, color_scheme="light")
    headline(page).to_have_text("Take 3 workers", timeout=PATIENCE_MS)
    expect(page.locator(".note").first).to_contain_text("the price of t2.large is from 2021-06-23")
    for name in ("time", "cost", "front"):
        expect(page.locator(f"#{name}")).to_be_visible()
    for name in ("time", "cost"):  # a curve, and the two edges of its band
        assert page.evaluate(f"Chart.getChart('{name}').data.datasets.length") == 3
    light = page.locator("#time").evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    # It is drawn again when the browser gets to it.
    page.wait_for_function("light => document.querySelector('#time').toDataURL() != light", arg=light)


def test_names_from_a_table_are_never_markup(opened, server):
    name = "<img src=x onerror=alert(1)>"
    rows = "".join(
        f"{workers},64,{9 / workers},{model}\n" for model in (name, "b") for workers in (1, 2, 3, 4)
    )
    page = opened()
    page.locator("#import summary").click()
    text = f"workers,batch_size,step_time,model\n{rows}"
    page.get_by_label("File").set_input_files(
        {"name": "marked up.csv", "mimeType": "text/csv", "buffer": text.encode()}
    )
    expect(page.get_by_label("Name")).to_have_value("marked-up")
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#imported")).to_contain_text("8 rows are in the table marked-up")
    page.get_by_label("Model").select_option(name)
    page.get_by_label("Batch size").fill("64")
    page.get_by_role("button", name="Recommend").click()
    headline(page).to_have_text(re.compile("Take 4 workers"), timeout=PATIENCE_MS)
    assert page.locator("main img").count() == 0


def test_a_model_can_be_chosen_that_was_not_measured_on_the_first_of_the_devices(opened, tmp_path):
    tables = tmp_path / "results/tables"
    tables.mkdir(parents=True)
    header = (
        "point_id,status,framework,strategy,runtime,devices,model,image_shape,batch_size,workers,step_time_ms"
    )
    rows = [
        f"{model}{workers},measured,torch,ring_allreduce,{where},{model},28x28x1,64,{workers},{9 / workers}\n"
        for model, where in (("conv1", "bare,cpu"), ("alexnet", "apptainer,K80"))
        for workers in (1, 2, 3, 4)
    ]
    (tables / "fig.csv").write_text(f"{header}\n{''.join(rows)}")
    with served(tmp_path) as own:
        page = opened("?batch_size=64&model=conv1", address=own.url)
        headline(page).to_have_text("Take 4 workers")
        page.get_by_label("Model").select_option("as measured most often")
        page.get_by_role("button", name="Recommend").click()
        expect(page.locator("#answer")).to_contain_text("so as measured most often: model")


def test_without_measurements_the_page_says_what_to_measure(opened, tmp_path):
    with served(tmp_path) as empty:
        page = opened("?batch_size=64", address=empty.url)
        expect(page.get_by_role("alert")).to_contain_text("make run", timeout=PATIENCE_MS)


def test_the_page_asks_for_the_token_that_the_server_wants(opened, tmp_path):
    token = "0123456789abcdef"
    with served(tmp_path, variables={"DDLBENCH_TOKEN": token}) as locked:
        page = opened(address=locked.url)
        page.get_by_label("Token").fill(token)
        page.get_by_label("Batch size").fill("64")
        page.get_by_role("button", name="Recommend").click()
        expect(page.get_by_role("alert")).to_contain_text("make run")
        assert token not in page.url


def test_a_token_that_was_typed_is_used_for_an_import_too(opened, tmp_path):
    token = "0123456789abcdef"
    with served(tmp_path, variables={"DDLBENCH_TOKEN": token}) as locked:
        page = opened(address=locked.url)
        page.get_by_label("Token").fill(token)
        page.locator("#import summary").click()
        file = {"name": "theirs.csv", "mimeType": "text/csv", "buffer": ANWAR.encode()}
        page.get_by_label("File").set_input_files(file)
        page.route("**/choices", lambda route: route.fulfill(status=503, body="{}"))
        page.get_by_role("button", name="Import").click()
        expect(page.locator("#imported")).to_contain_text("12 rows are in the table theirs, 0 left out")
        expect(page.locator("#imported")).to_contain_text("It can be chosen in a moment")


def test_a_link_to_an_answer_waits_for_the_token_and_asks_for_all_that_it_says(opened, tmp_path):
    token = "0123456789abcdef"
    rows = "\n".join(f"{row},{name}" for row in ANWAR.splitlines()[1:] for name in ("alexnet", "vgg16"))
    table = f"{ANWAR.splitlines()[0]},model\n{rows}\n"
    with served(tmp_path, variables={"DDLBENCH_TOKEN": token}) as locked:
        locked.headers = {"Authorization": f"Bearer {token}"}
        for name, content in (("first", ANWAR), ("second", table)):
            assert locked.import_table(name, content).status_code == 201
        page = opened("?batch_size=64000&latency_ms=20&model=vgg16&table=second", address=locked.url)
        expect(page.get_by_label("Batch size")).to_have_value("64000")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Recommend").click()
        headline(page).to_have_text("Take 3 workers")
        expect(page.locator("#table")).to_have_value("second")
        expect(page.locator("#model")).to_have_value("vgg16")
        assert "latency_ms=20" in page.url


def test_a_link_that_says_what_cannot_be_chosen_here_asks_nothing_until_somebody_has_seen_that(opened):
    page = opened("?batch_size=64000&latency_ms=20&machine=abacus&table=theirs")
    expect(page.locator("#wrong-machine")).to_contain_text("“abacus”, which cannot be chosen here")
    expect(page.get_by_text("“theirs”, which cannot be chosen here")).to_be_visible()
    headline(page).to_have_count(0)
    assert page.locator("#table").input_value() == "anwar"
    page.get_by_role("button", name="Recommend").click()
    headline(page).to_have_text("Take 3 workers")


def test_a_number_that_the_browser_cannot_read_is_said_to_be_none_and_nothing_is_asked(opened):
    page = opened("?batch_size=64000&latency_ms=5,5")
    expect(page.locator("#wrong-latency_ms")).to_contain_text("“5,5”, which is no number")
    page.get_by_label("Latency").press_sequentially("2e")
    page.get_by_role("button", name="Recommend").click()
    expect(page.locator("#wrong-latency_ms")).to_have_text("this is no number")
    headline(page).to_have_count(0)


def test_the_answer_to_an_earlier_question_does_not_replace_that_to_a_later_one(opened):
    page, held = opened(), []

    def hold_the_first(route):
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/recommend", hold_the_first)
    page.get_by_label("Batch size").fill("64000")
    with page.expect_request("**/recommend"):
        page.get_by_role("button", name="Recommend").click()
    page.get_by_label("Latency").fill("20")
    page.get_by_role("button", name="Recommend").click()
    headline(page).to_have_text("Take 3 workers")
    with page.expect_response("**/recommend"):
        held[0].continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    headline(page).to_have_text("Take 3 workers")
    assert "latency_ms=20" in page.url


def test_other_colours_do_not_bring_back_the_answer_before_a_refused_question(opened):
    page = opened(ASKED, color_scheme="light")
    headline(page).to_have_text("Take 3 workers")
    page.get_by_label("Batch size").fill("-1")
    page.get_by_role("button", name="Recommend").click()
    expect(page.locator("#wrong-batch_size")).to_be_visible()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("matchMedia('(prefers-color-scheme: dark)').matches")
    page.evaluate("new Promise(requestAnimationFrame)")
    headline(page).to_have_count(0)


def test_a_picture_of_the_page_is_taken_again_once_it_is_changed(browser, tmp_path):
    checkout = copy_of_the_repository(tmp_path / "ddlbench")
    assert snakemake(checkout, "--cores", "1", "anwar2021_fig16").returncode == 0
    picture = checkout / "results/figures/anwar2021_fig16.png"
    assert main(["verify", str(picture)]) == 0
    picture.write_bytes(picture.read_bytes() + b"\0")
    assert main(["verify", str(picture)]) == 1
    assert snakemake(checkout, "--cores", "1", "anwar2021_fig16").returncode == 0
    assert main(["verify", str(picture)]) == 0
