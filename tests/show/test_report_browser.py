"""The report in a real headless browser."""

import importlib
import shutil
from dataclasses import replace

import pytest

from board_factory import CONTEXTS, LONG, NEWCOMER, SCRIPT, UNBEATEN, make_boards
from lrbtl.show.report import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra `browser`)")
By = importlib.import_module("selenium.webdriver.common.by").By
Keys = importlib.import_module("selenium.webdriver.common.keys").Keys
Select = importlib.import_module("selenium.webdriver.support.ui").Select

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed (Debian: chromium, chromium-driver)"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,1000 "
    "--force-prefers-reduced-motion"  # a smooth scroll may still run when a click comes
)
DIAGNOSTICS = [("ok", "All models are connected."), ("warn", f"{SCRIPT} has few battles.")]


@pytest.fixture(scope="module")
def boards():
    return make_boards(40)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, boards, tmp_path):
    path = tmp_path / "report.html"
    write_report(path, boards, diagnostics=DIAGNOSTICS, title=f"Arena {SCRIPT}")
    browser.get(path.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def column(page, name):
    heads = page.find_elements(By.CSS_SELECTOR, "#board thead th")
    at = [head.get_attribute("data-column") for head in heads].index(name) + 1
    selector = f"#board tbody tr > :nth-child({at})" + (" .name" if name == "model" else "")
    script = "return Array.from(document.querySelectorAll(arguments[0]), (cell) => cell.textContent)"
    return page.execute_script(script, selector)


def head_button(page, name):
    return page.find_element(By.CSS_SELECTOR, f'#board th[data-column="{name}"] button')


def rows_of(page, table):
    script = """return Array.from(document.querySelectorAll(arguments[0] + " tbody tr"),
        (row) => Array.from(row.cells, (cell) => cell.textContent))"""
    return page.execute_script(script, f"#{table}")


def test_opens_on_the_overall_board(page, boards):
    assert column(page, "model") == list(boards.overall.models)
    *scores, last = column(page, "score")
    assert [float(score) for score in scores] == pytest.approx(boards.overall.score[:-1], abs=0.51)
    assert last == column(page, "interval")[-1] == "–"
    assert column(page, "rank")[-3:] == ["38", "–", "–"]
    notes = [note.text for note in page.find_elements(By.CSS_SELECTOR, "#board .note")]
    assert notes == ["preliminary: only 60 votes", "unplaced: won all 12 votes here"]
    assert "categories weighted by votes" in page.find_element(By.ID, "board-note").text
    assert "8 categories" in page.find_element(By.ID, "summary").text


def test_script_label_is_shown_and_not_run(page):
    assert SCRIPT in column(page, "model")
    assert page.find_element(By.TAG_NAME, "h1").text == f"Arena {SCRIPT}"
    assert page.title == f"Arena {SCRIPT}"
    assert page.execute_script("return document.scripts.length") == 2
    assert SCRIPT in page.find_element(By.ID, "diagnostics").text


@pytest.mark.parametrize(
    ("name", "attribute", "reverse"),
    [("battles", "battles", True), ("score", "score", True), ("tier", "tier", False), ("win_rate", "win_rate", True)],
)
def test_click_on_a_header_sorts(page, boards, name, attribute, reverse):
    board = boards["maths"]
    Select(page.find_element(By.ID, "category")).select_by_visible_text("maths")
    values = dict(zip(board.models, getattr(board, attribute).tolist(), strict=True))
    for turn in (reverse, not reverse):
        head_button(page, name).click()
        shown = [values[model] for model in column(page, "model")]
        assert shown[:-2] == sorted(shown[:-2], reverse=turn)
        assert set(column(page, "model")[-2:]) == {NEWCOMER, UNBEATEN}
        cell = page.find_element(By.CSS_SELECTOR, f'#board th[data-column="{name}"]')
        assert cell.get_attribute("aria-sort") == ("descending" if turn else "ascending")
        assert len(page.find_elements(By.CSS_SELECTOR, "#board th[aria-sort]")) == 1


def test_names_sort_by_keyboard(page, boards):
    head_button(page, "model").send_keys(Keys.ENTER)
    *ranked, first, second = boards.overall.models
    assert column(page, "model") == [*sorted(ranked, key=str.lower), *sorted([first, second])]


def test_category_switch(page, boards):
    category = Select(page.find_element(By.ID, "category"))
    assert [option.text for option in category.options] == ["Overall", *CONTEXTS]
    for context in CONTEXTS[::3]:
        category.select_by_visible_text(context)
        assert column(page, "model") == list(boards[context].models)
        assert column(page, "battles") == [f"{count:,}" for count in boards[context].battles]


def test_filter_finds_models(page):
    page.find_element(By.ID, "filter").send_keys("NEWCOMER")
    assert column(page, "model") == [NEWCOMER]
    assert page.find_element(By.ID, "count").text == "1 of 40 models"


def test_intervals_are_drawn_to_scale(page, boards):
    script = """return Array.from(document.querySelectorAll("#board tbody tr"), (row) => {
        const [track] = row.querySelectorAll(".drawn .track");
        if (!track.querySelector(".bar")) return null;
        const at = (node) => node.getBoundingClientRect();
        const [bar, dot, frame] = [at(track.querySelector(".bar")), at(track.querySelector(".dot")), at(track)];
        return [bar.left - frame.left, bar.right - frame.left, (dot.left + dot.right) / 2 - frame.left, frame.width];
    })"""
    *drawn, last = page.execute_script(script)
    board = boards.overall
    assert last is None
    scale = (drawn[0][2] - drawn[37][2]) / (board.score[0] - board.score[37])
    for i, (left, right, dot, width) in enumerate(drawn):
        assert -0.5 <= left < right <= width + 0.5
        assert dot == pytest.approx(drawn[0][2] + scale * (board.score[i] - board.score[0]), abs=1)
        assert right - left == pytest.approx(max(scale * (board.upper[i] - board.lower[i]), 2), abs=1)


def test_head_to_head(page, boards):
    pick_a, pick_b = (Select(page.find_element(By.ID, name)) for name in ("duel-a", "duel-b"))
    pick_a.select_by_visible_text(SCRIPT)
    pick_b.select_by_visible_text(LONG)
    a, b = boards.models.index(SCRIPT), boards.models.index(LONG)

    def expect(first, second):
        for row, context in zip(rows_of(page, "duel"), [None, *CONTEXTS], strict=True):
            win, lower, upper = (m[context][first, second] for m in (boards.win, boards.win_lower, boards.win_upper))
            assert row[0] == (context or "Overall")
            shown = [float(number.rstrip("%")) for number in (row[1], *row[2].split(" to "))]
            assert shown == pytest.approx([100 * win, 100 * lower, 100 * upper], abs=0.06)
            ahead = boards.models[first] if lower > 0.5 else boards.models[second] if upper < 0.5 else None
            assert row[4] == (f"{ahead} is ahead" if ahead else "too close to call")

    expect(a, b)
    assert page.find_element(By.ID, "duel-words").text.startswith(f"Overall: {SCRIPT} beats {LONG} with probability")
    page.find_element(By.ID, "swap").click()
    expect(b, a)
    pick_b.select_by_visible_text(LONG)
    pick_a.select_by_visible_text(LONG)
    assert page.find_element(By.ID, "duel-words").text == "Pick two different models."


def test_fits_a_phone_and_follows_the_colour_scheme(page):
    for scheme, color in (("dark", "rgb(15, 20, 26)"), ("light", "rgb(255, 255, 255)")):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == color
    metrics = {"width": 375, "height": 812, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 375
    places = """return Array.from(document.querySelectorAll(arguments[0]), (node) => {
        const box = node.getBoundingClientRect();
        return [box.left, box.right, node.scrollWidth];
    })"""
    for left, right, scrolled in page.execute_script(places, ".scroll"):
        assert left >= 0 and right <= 375 < scrolled
    for left, right, _ in page.execute_script(places, ".controls select, .controls input, .controls button"):
        assert left >= 0 and right <= 375
    page.execute_script("document.querySelector('.scroll').scrollLeft = 500")
    names = page.execute_script(places, "#board tbody th, #board thead th[data-column=model]")
    assert all(0 <= left < right <= 375 for left, right, _ in names)
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_one_board_without_duels(browser, tmp_path):
    boards = replace(make_boards(10, contexts=()), win={})
    write_report(tmp_path / "report.html", boards)
    browser.get((tmp_path / "report.html").as_uri())
    for name in ("category", "duel-section", "diagnostics-section"):
        assert not browser.find_element(By.ID, name).is_displayed()
    assert column(browser, "model") == list(boards.overall.models)
    assert browser.get_log("browser") == []
