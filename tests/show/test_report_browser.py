"""The report in a real headless browser."""

import csv
import importlib
import json
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest

from board_factory import CONTEXTS, LONG, NEWCOMER, SCRIPT, UNBEATEN, make_boards
from lrbtl import Battles, analyse, leaderboard
from lrbtl import choose as choose_models
from lrbtl.boards.columns import COLUMNS, BoardColumn
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
TABS = ["Overview", "Leaderboard", "Heat map", "Win matrix", "Head to head", "History", "Effects"]
EFFECTS = {"effect": ["length", "position"], "estimate": [0.4, 0.1], "lower": [0.2, -0.1], "upper": [0.6, 0.3]}

HISTORY = {"model": ["x", "x", SCRIPT, SCRIPT], "period": [2, 10, 2, 10], "score": [1000, 1020, 990, None]}


def make_meta(boards):
    """What a user knows of the models; the last one is not in it."""
    models = list(boards.models)[:-1]
    makers = [["Acme", "Umbrella", "=Globex()"][i % 3] for i in range(len(models))]
    links = [f"https://example.org/{i}" if i else "javascript:alert(1)" for i in range(len(models))]
    return {
        "model": models,
        "organisation": makers,
        "price": [1000 * i for i in range(len(models))],
        "page": links,
        "link": ["https://example.org/x" for _ in models],
    }


@pytest.fixture(scope="module")
def boards():
    return make_boards(40)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def address(boards, files):
    path = files / "report.html"
    extra = {
        "meta": make_meta(boards),
        "tables": [("History", HISTORY), ("Effects", EFFECTS)],
        "diagnostics": DIAGNOSTICS,
    }
    write_report(path, boards, title=f"Arena {SCRIPT}", date="3 May 2026", **extra)
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory, files):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.add_experimental_option("prefs", {"download.default_directory": str(files)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, address):
    yield open_at(browser, address, "tab=board")
    assert browser.get_log("browser") == []


def open_at(browser, address, fragment):
    browser.get("about:blank")
    browser.get(f"{address}#{fragment}")
    return browser


def column(page, name, table="board-table"):
    heads = page.find_elements(By.CSS_SELECTOR, f"#{table} thead th")
    at = [head.get_attribute("data-column") for head in heads].index(name) + 1
    selector = f"#{table} tbody tr:not(.section) > :nth-child({at})" + (" .name" if name == "model" else "")
    return texts(page, selector)


def texts(page, selector):
    script = "return Array.from(document.querySelectorAll(arguments[0]), (node) => node.textContent)"
    return page.execute_script(script, selector)


def head_button(page, name, table="board-table"):
    return page.find_element(By.CSS_SELECTOR, f'#{table} th[data-column="{name}"] button')


def choose(page, name, text):
    Select(page.find_element(By.ID, name)).select_by_visible_text(text)


def shown(page, name):
    return page.find_element(By.ID, name).is_displayed()


def test_opens_on_the_overview(browser, address, boards):
    page = open_at(browser, address, "")
    assert texts(page, "#tabs button:not([hidden])") == TABS
    assert page.find_element(By.CSS_SELECTOR, "[aria-selected=true]").text == "Overview"
    facts = texts(page, "#facts li")
    assert facts[0] == "3 May 2026" and facts[3] == "8 categories weighted by votes"
    assert column(page, "model", "overview-table") == list(boards.models)
    for context in CONTEXTS[::3]:
        board = boards[context]
        place = {model: i for i, model in enumerate(board.models)}
        cells = column(page, f"in {context}", "overview-table")
        for model, cell in zip(boards.models, cells, strict=True):
            i = place[model]
            spread = f"{board.best[i]}" if board.best[i] == board.worst[i] else f"{board.best[i]}–{board.worst[i]}"
            assert cell == (f"{board.rank[i]}{spread}" if board.rank[i] else "–")
    head_button(page, "in maths", "overview-table").click()
    ranked = [model for model in boards["maths"].models if model not in (NEWCOMER, UNBEATEN)]
    assert column(page, "model", "overview-table")[:38] == ranked
    assert page.switch_to.active_element.text.startswith("maths")  # the focus stays where the reader was
    assert texts(page, "#overview-table .section") == [
        "Preliminary: too few votes for a rank",
        "No score by this method",
    ]
    assert browser.get_log("browser") == []


def test_board_of_all_votes(page, boards):
    assert column(page, "model") == list(boards.overall.models)
    *scores, last = column(page, "score")
    assert [float(score.replace(",", "")) for score in scores] == pytest.approx(boards.overall.score[:-1], abs=0.51)
    assert last == column(page, "interval")[-1] == "–"
    assert column(page, "rank")[-3:] == ["38", "–", "–"]
    marks = page.find_elements(By.CSS_SELECTOR, "#board .mark")
    labels = [mark.get_attribute("aria-label") for mark in marks]
    assert labels == ["Note: only 60 votes", "Note: won all 12 votes here"]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", marks[0])
    assert page.find_element(By.ID, "tip").text == f"{NEWCOMER}: only 60 votes"
    marks[0].send_keys(Keys.ESCAPE)
    assert not shown(page, "tip")
    assert "1 model is preliminary" in page.find_element(By.ID, "board-about").text


def test_script_label_is_shown_and_not_run(page):
    assert SCRIPT in column(page, "model")
    assert page.find_element(By.TAG_NAME, "h1").text == f"Arena {SCRIPT}"
    assert page.title == f"Arena {SCRIPT}"
    assert page.execute_script("return document.scripts.length") == 2
    fold = page.find_element(By.ID, "diagnostics-fold")
    assert not shown(page, "diagnostics") and "1 to look at" in fold.text
    fold.find_element(By.TAG_NAME, "summary").click()
    assert SCRIPT in page.find_element(By.ID, "diagnostics").text


@pytest.mark.parametrize(
    ("name", "attribute", "reverse"),
    [("battles", "battles", True), ("score", "score", True), ("tier", "tier", False), ("win_rate", "win_rate", True)],
)
def test_click_on_a_header_sorts(page, boards, name, attribute, reverse):
    board = boards["maths"]
    choose(page, "category", "maths")
    values = dict(zip(board.models, getattr(board, attribute).tolist(), strict=True))
    for turn in (reverse, not reverse):
        head_button(page, name).click()
        found = [values[model] for model in column(page, "model")]
        assert found[:-2] == sorted(found[:-2], reverse=turn)
        assert set(column(page, "model")[-2:]) == {NEWCOMER, UNBEATEN}
        cell = page.find_element(By.CSS_SELECTOR, f'#board-table th[data-column="{name}"]')
        assert cell.get_attribute("aria-sort") == ("descending" if turn else "ascending")
        assert len(page.find_elements(By.CSS_SELECTOR, "#board-table th[aria-sort]")) == 1


def test_keyboard_sorts_and_changes_tabs(page, boards):
    head_button(page, "model").send_keys(Keys.ENTER)
    *ranked, first, second = boards.overall.models
    assert column(page, "model") == [*sorted(ranked, key=str.lower), first, second]
    page.find_element(By.ID, "tab-board").send_keys(Keys.ARROW_RIGHT)
    assert page.switch_to.active_element.text == "Heat map"
    assert shown(page, "heat-table") and not shown(page, "board-table")
    page.switch_to.active_element.send_keys(Keys.HOME)
    assert shown(page, "overview-table")
    page.switch_to.active_element.send_keys(Keys.END)
    assert column(page, "column effect", "more-table") == EFFECTS["effect"]
    assert len(page.find_elements(By.CSS_SELECTOR, "#more-table .bar")) == 2
    page.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert len(page.find_elements(By.CSS_SELECTOR, ".chart polyline")) == 2
    assert {"2", "10", "x", SCRIPT} <= set(texts(page, ".chart text"))


def test_category_switch(page, boards):
    assert texts(page, "#category option") == ["Overall", *CONTEXTS]
    for context in CONTEXTS[::3]:
        choose(page, "category", context)
        assert column(page, "model") == list(boards[context].models)
        assert column(page, "battles") == [f"{count:,}" for count in boards[context].battles]


def test_filters_find_models(page, boards):
    assert column(page, "meta price")[:2] == ["0", "1,000"]
    choose_filter = Select(page.find_element(By.CSS_SELECTOR, "#filters select"))
    choose_filter.select_by_visible_text("Acme")
    assert column(page, "model") == list(boards.models)[:-1:3]
    assert page.find_element(By.ID, "count").text == "13 of 40 models"
    choose_filter.select_by_visible_text("all")
    page.find_element(By.ID, "find").send_keys("NEWCOMER")
    assert column(page, "model") == [NEWCOMER]
    page.find_element(By.ID, "tab-overview").click()
    assert column(page, "model", "overview-table") == [NEWCOMER]


def test_only_web_addresses_become_links(page):
    links = [link.get_attribute("href") for link in page.find_elements(By.CSS_SELECTOR, "#board-table a")]
    assert links == ["https://example.org/x"] * 39
    assert "javascript:alert(1)" in column(page, "meta page")  # a text


def test_address_holds_the_view(browser, address, page, boards):
    choose(page, "category", "maths")
    head_button(page, "battles").click()
    page.find_element(By.ID, "find").send_keys("family1")
    Select(page.find_element(By.CSS_SELECTOR, "#filters select")).select_by_visible_text("Acme")
    shown_models, link = column(page, "model"), page.current_url
    assert len(shown_models) > 1
    browser.get("about:blank")
    browser.get(link)
    assert column(page, "model") == shown_models
    assert page.find_element(By.CSS_SELECTOR, '[data-column="battles"][aria-sort="descending"]')
    page.find_element(By.ID, "tab-heat").click()
    browser.back()
    assert shown(page, "board-table") and column(page, "model") == shown_models
    a, b = boards.models[3], boards.models[7]
    open_at(browser, address, f"tab=duel&a={a}&b={b}&category=nowhere")
    assert page.find_element(By.ID, "duel-words").text.startswith(f"Overall: {a} beats {b}")
    open_at(browser, address, "tab=nothing&group=9&top=x&sort=none")
    assert shown(page, "overview-table")


def wait_for(path):
    for _ in range(100):
        if path.exists() and path.stat().st_size:
            return path.read_text(encoding="utf-8")
        time.sleep(0.05)
    raise AssertionError(f"{path} did not come")


def test_downloads(page, boards, files):
    page.find_element(By.ID, "csv").click()
    page.find_element(By.ID, "json").click()
    rows = list(csv.DictReader(wait_for(files / "leaderboard.csv").splitlines()))
    found = json.loads(wait_for(files / "leaderboard.json"))["rows"]
    table = boards.to_dict()
    assert [row["model"] for row in rows] == [row["model"] for row in found] == table["model"]
    for name in ("rank", "score", "lower", "rank_upper", "battles", "status", "note"):
        for row, value in zip(found, table[name], strict=True):
            assert row[name] == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value)
    assert {row["organisation"] for row in rows} == {"Acme", "Umbrella", "'=Globex()", ""}  # no formulas
    assert rows[0]["category"] == "Overall" and rows[-1]["category"] == CONTEXTS[-1]


def test_a_column_that_boards_print_is_shown_and_saved(browser, tmp_path, files):
    added = BoardColumn("letters", lambda board: [len(str(model)) for model in board.models], "name length", str)
    COLUMNS.append(added)
    try:
        few = make_boards(12)
        write_report(tmp_path / "report.html", few)
    finally:
        COLUMNS.remove(added)
    page = open_at(browser, (tmp_path / "report.html").as_uri(), "tab=board")
    assert "Name length" in texts(page, "#board-table thead th")
    lengths = [str(len(model)) for model in few.overall.models]
    assert column(page, "letters") == lengths
    (files / "leaderboard.csv").unlink(missing_ok=True)
    page.find_element(By.ID, "csv").click()
    rows = csv.DictReader(wait_for(files / "leaderboard.csv").splitlines())
    assert [row["letters"] for row in rows if row["category"] == "Overall"] == lengths
    (files / "leaderboard.csv").unlink()


def test_intervals_are_drawn_to_scale(page, boards):
    script = """return Array.from(document.querySelectorAll("#board-table .ranked tr"), (row) => {
        const [track] = row.querySelectorAll(".drawn .track");
        const at = (node) => node.getBoundingClientRect();
        const [bar, point, frame] = [at(track.querySelector(".bar")), at(track.querySelector(".point")), at(track)];
        const open = Boolean(track.querySelector(".open-left, .open-right"));
        const middle = (point.left + point.right) / 2 - frame.left;
        return [bar.left - frame.left, bar.right - frame.left, middle, frame.width, open];
    })"""
    drawn = page.execute_script(script)
    board = boards.overall
    scale = (drawn[0][2] - drawn[37][2]) / (board.score[0] - board.score[37])
    for i, (left, right, point, width, is_open) in enumerate(drawn):
        assert -0.5 <= left < right <= width + 0.5 and right - left >= 3
        assert point == pytest.approx(drawn[0][2] + scale * (board.score[i] - board.score[0]), abs=1)
        if not is_open:
            assert right - left == pytest.approx(max(scale * (board.upper[i] - board.lower[i]), 3), abs=1)


def test_heat_map_and_win_matrix(page, boards):
    page.find_element(By.ID, "tab-heat").click()
    overall = dict(zip(boards.models, boards.overall.score, strict=True))
    board = boards["maths"]
    for model, cell in zip(column(page, "model", "heat-table"), column(page, "in maths", "heat-table"), strict=True):
        difference = board.score[board.models.index(model)] - overall[model]
        if np.isnan(difference):
            assert cell == "–"
        else:
            assert float(cell.replace("−", "-")) == pytest.approx(difference, abs=0.51)
    page.find_element(By.ID, "tab-wins").click()
    choose(page, "top", "10 models")
    a, b = boards.models[0], boards.models[1]
    assert column(page, f"against {b}", "wins-table")[0] == f"{100 * boards.win[None][0, 1]:.0f}"
    assert len(page.find_elements(By.CSS_SELECTOR, "#wins-table tbody tr")) == 10
    page.find_element(By.CSS_SELECTOR, "#wins-table tbody td[data-pair]").click()
    assert page.find_element(By.ID, "duel-words").text.startswith(f"Overall: {a} beats {b}")


def test_head_to_head(page, boards):
    page.find_element(By.ID, "tab-duel").click()
    choose(page, "duel-a", SCRIPT)
    choose(page, "duel-b", LONG)
    a, b = boards.models.index(SCRIPT), boards.models.index(LONG)
    script = """return Array.from(document.querySelectorAll("#duel-table tbody tr"),
        (row) => Array.from(row.cells, (cell) => cell.textContent))"""

    def expect(first, second):
        for row, context in zip(page.execute_script(script), [None, *CONTEXTS], strict=True):
            win, lower, upper = (m[context][first, second] for m in (boards.win, boards.win_lower, boards.win_upper))
            assert row[0] == (context or "Overall")
            numbers = [float(number.rstrip("%")) for number in (row[1], *row[2].split(" to "))]
            assert numbers == pytest.approx([100 * win, 100 * lower, 100 * upper], abs=0.11)
            ahead = boards.models[first] if lower > 0.5 else boards.models[second] if upper < 0.5 else None
            assert row[4] == (f"{ahead} is ahead" if ahead else "the votes cannot tell")

    expect(a, b)
    assert page.find_element(By.ID, "duel-words").text.startswith(f"Overall: {SCRIPT} beats {LONG} with probability")
    page.find_element(By.ID, "swap").click()
    expect(b, a)
    choose(page, "duel-b", UNBEATEN)
    assert "not comparable" in page.find_element(By.ID, "duel-words").text
    choose(page, "duel-a", UNBEATEN)
    assert page.find_element(By.ID, "duel-words").text == "Pick two different models."


PLACES = """return Array.from(document.querySelectorAll(arguments[0]), (node) => {
    const box = node.getBoundingClientRect();
    return [box.left, box.right, node.scrollWidth, node.clientWidth];
}).filter(([left, right]) => right > left)"""


@pytest.mark.parametrize("width", [400, 900, 1400])
def test_fits_every_width(page, width):
    metrics = {"width": width, "height": 812, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    part = "section:not([hidden])"
    for button in page.find_elements(By.CSS_SELECTOR, "#tabs button:not([hidden])"):
        button.click()
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        ((left, right, scrolled, inside),) = page.execute_script(PLACES, ".scroll")
        assert left >= 0 and right <= width
        script = f"return getComputedStyle(document.querySelector('{part} .frame'), '::before').display"
        assert (page.execute_script(script) == "block") == (scrolled > inside + 2)  # the hint
        for start, end, *_ in page.execute_script(PLACES, ".controls select, .controls input, .controls button"):
            assert start >= 0 and end <= width
        page.execute_script(f"document.querySelector('{part} .scroll').scrollLeft = 300")
        for start, end, *_ in page.execute_script(PLACES, f"{part} th.model"):
            assert 0 <= start < end <= width  # the model column stays
    page.find_element(By.ID, "tab-board").click()
    script = "return Array.from(document.querySelectorAll('.ranked .name'), (x) => x.getBoundingClientRect().height)"
    heights = [height for height in page.execute_script(script) if height]
    assert (max(heights) == min(heights)) == (width > 500)  # long names wrap only where there is no room
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_follows_the_colour_scheme(page):
    for scheme, color in (("dark", "rgb(15, 20, 26)"), ("light", "rgb(255, 255, 255)")):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == color
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const luminance = (color) => {
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = Array.from(canvas.getImageData(0, 0, 1, 1).data, (x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
return Array.from(document.querySelectorAll(arguments[0]), (cell) => {
  const style = getComputedStyle(cell);
  const pair = [luminance(style.color), luminance(style.backgroundColor)];
  return Math.max(...pair) / Math.min(...pair);
});
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_on_colours_can_be_read(browser, address, scheme):
    """WCAG asks for a contrast of 4.5, on fills of every strength."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    for tab, cells in (("overview", "td.cell"), ("heat", "td.heat:not(.none)"), ("wins", "td.heat:not(.none)")):
        found = open_at(browser, address, f"tab={tab}").execute_script(CONTRASTS, f"#{tab}-table {cells}")
        assert len(found) > 40 and min(found) > 4.45
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_prints_the_whole_table(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not shown(page, "tabs") and not shown(page, "csv")
    assert (
        page.execute_script("return getComputedStyle(document.querySelector('#board .scroll')).overflow") == "visible"
    )
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_one_board_without_duels(browser, tmp_path):
    board = make_boards(10, contexts=()).overall
    write_report(tmp_path / "report.html", board)
    open_at(browser, (tmp_path / "report.html").as_uri(), "tab=duel")
    assert [button.text for button in browser.find_elements(By.CSS_SELECTOR, "#tabs button")][:2] == ["", "Leaderboard"]
    for name in ("category", "group", "tab-overview", "tab-duel"):
        assert not shown(browser, name)
    assert column(browser, "model") == list(board.models)
    assert browser.get_log("browser") == []


def test_groups_that_never_meet_are_chosen(browser, tmp_path):
    ours, theirs = make_boards(12, contexts=("x", "y")), make_boards(8, contexts=("x",), seed=5)
    write_report(tmp_path / "report.html", replace(ours, islands=(theirs,)))
    open_at(browser, (tmp_path / "report.html").as_uri(), "tab=board&category=y")
    choose(browser, "group", "group 2 (8 models)")
    assert column(browser, "model") == list(theirs.models)
    assert texts(browser, "#category option") == ["Overall", "x"]
    browser.find_element(By.ID, "tab-duel").click()
    assert len(texts(browser, "#duel-a option")) == 8
    browser.back()
    browser.back()
    assert column(browser, "model") == list(ours["y"].models)
    assert browser.get_log("browser") == []


# ---- Your own mix of categories.

TOPICS = ("coding", "maths", "creative writing, long")
OWN = {"coding": 4.0, "maths": 1.0, "creative writing, long": 0.0}
SLIDE = """
const input = document.querySelectorAll("#mix-sliders input")[arguments[0]];
input.value = arguments[1];
input.dispatchEvent(new Event("input"));
"""


@pytest.fixture(scope="module")
def analysis():
    rng = np.random.default_rng(5)
    truth = rng.normal(size=(14, 1)) * 0.5 + 0.4 * rng.normal(size=(14, 3))
    a, u = rng.integers(0, 14, 9_000), rng.integers(0, 3, 9_000)
    b = (a + rng.integers(1, 14, 9_000)) % 14
    kept = ~((np.minimum(a, b) == 0) & (u < 2)) & ~((np.minimum(a, b) == 1) & (rng.random(9_000) < 0.99))
    y = (rng.random(9_000) < 1 / (1 + np.exp(truth[b, u] - truth[a, u]))).astype(float)
    names = np.array([f"model {k}" for k in range(14)])
    frame = {"model_a": names[a], "model_b": names[b], "winner": y, "category": np.array(TOPICS)[u]}
    return analyse(Battles.from_frame({name: x[kept] for name, x in frame.items()}, contexts="category"))


@pytest.fixture(scope="module")
def mixed(analysis, files):
    boards = leaderboard(analysis, context="all")
    cost = {model: float(k % 5) for k, model in enumerate(boards.models)}
    write_report(files / "mix.html", boards, tables=choose_models(boards, cost).tables(), date="3 May 2026")
    return (files / "mix.html").as_uri(), cost


def spread_of(text):
    low, _, high = text.partition("–")
    return int(low), int(high or low)


def mix_rows(page):
    script = """return Array.from(document.querySelectorAll("#mix-table tbody tr:not(.section)"),
        (row) => Array.from(row.cells, (cell) => cell.textContent))"""
    heads = [head.get_attribute("data-column") for head in page.find_elements(By.CSS_SELECTOR, "#mix-table thead th")]
    rows = [dict(zip(heads, row, strict=True)) for row in page.execute_script(script)]
    return {row["model"].removesuffix("i"): row for row in rows}


def check_mix(page, analysis, weights, cost):
    """What the page shows is `leaderboard(weights=...)`, up to rounding; joint statements away from presets too."""
    board, rows = leaderboard(analysis, weights=weights), mix_rows(page)
    assert set(rows) == set(board.models)
    for k, model in enumerate(board.models):
        row = rows[model]
        assert float(row["score"].replace(",", "")) == pytest.approx(board.score[k], abs=0.51)
        ends = [float(x.replace(",", "")) for x in row["interval"].split(" to ")]
        assert ends == pytest.approx([board.lower[k], board.upper[k]], abs=0.52)
        assert row["battles"] == f"{board.battles[k]:,}"
        if board.status[k] != "ranked":
            assert row["rank"] == row["joint"] == row["tier"] == "–"
            continue
        assert int(row["rank"]) == board.rank[k] and int(row["tier"]) == board.tier[k]
        assert spread_of(row["spread"]) == (board.best[k], board.worst[k])
        assert spread_of(row["joint"]) == pytest.approx((board.rank_lower[k], board.rank_upper[k]), abs=1)
    choice = choose_models(analysis, cost, weights=weights)
    shown_there = {model: word.partition(" by ")[0] for model in choice.models for word in [rows[model]["frontier"]]}
    differ = [model for model, word in zip(choice.models, choice.verdict, strict=True) if shown_there[model] != word]
    assert len(differ) <= 1  # a gap at the end of its joint interval


@pytest.mark.parametrize("fragment, weights", [
    ("", "traffic"),
    ("&mix=equal", "equal"),
    ("&weight+coding=4&weight+maths=1", OWN),
    ("&weight+creative+writing%2C+long=1", {"creative writing, long": 1.0}),
    ("&mix=nothing&weight+nowhere=3&weight+maths=-2", "traffic"),
])  # fmt: skip
def test_a_mix_is_the_board_with_these_weights(browser, mixed, analysis, fragment, weights):
    address, cost = mixed
    page = open_at(browser, address, f"tab=mix{fragment}")
    check_mix(page, analysis, weights, cost)
    assert len(page.find_elements(By.CSS_SELECTOR, "#mix-chart circle")) >= 12
    assert browser.get_log("browser") == []


def test_sliders_move_the_board_and_the_address(browser, mixed, analysis):
    address, cost = mixed
    page = open_at(browser, address, "tab=mix")
    assert texts(page, "#mix-presets button") == ["this report", "traffic", "equal"]
    page.find_elements(By.CSS_SELECTOR, "#mix-presets button")[2].click()
    assert texts(page, "#mix-sliders output") == ["33%", "33%", "33%"] and "mix=equal" in page.current_url
    page.execute_script(SLIDE, 0, 0)
    page.execute_script(SLIDE, 1, 25)
    page.execute_script("return new Promise((done) => setTimeout(done, 400))")
    assert texts(page, "#mix-sliders output") == ["0%", "20%", "80%"]
    weights = {"coding": 0.0, "creative writing, long": 25.0, "maths": 100.0}
    check_mix(page, analysis, weights, cost)
    before, link = mix_rows(page), page.current_url
    open_at(browser, link.partition("#")[0], link.partition("#")[2])
    assert mix_rows(page) == before
    for at in range(3):
        page.execute_script(SLIDE, at, 0)
    page.execute_script("return new Promise((done) => setTimeout(done, 400))")
    assert "give more categories some weight" in page.find_element(By.ID, "mix-words").text
    assert browser.get_log("browser") == []


def test_a_slider_moves_by_keys(browser, mixed):
    page = open_at(browser, mixed[0], "tab=mix&mix=equal")
    before = column(page, "score", "mix-table")
    first = page.find_element(By.CSS_SELECTOR, "#mix-sliders input")
    for _ in range(30):
        first.send_keys(Keys.ARROW_LEFT)
    page.execute_script("return new Promise((done) => setTimeout(done, 400))")
    assert column(page, "score", "mix-table") != before
    assert first.get_attribute("aria-valuetext").startswith("coding: ") and "weight+coding" in page.current_url


@pytest.mark.parametrize("width", [400, 1400])
def test_a_mix_fits_every_width(browser, mixed, width):
    metrics = {"width": width, "height": 812, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page = open_at(browser, mixed[0], "tab=mix")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    for start, end, *_ in page.execute_script(PLACES, "#mix-sliders label, #mix-presets button, #mix-chart text"):
        assert start >= 0 and end <= width
    sizes = page.execute_script(
        "return Array.from(document.querySelectorAll('#mix-chart text'), (x) => x.getBoundingClientRect().height)"
    )
    assert min(sizes) > 9  # names on charts can be read
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
