import datetime as dt
import re
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

import lrbtl
from board_factory import CONTEXTS, LONG, NEWCOMER, SCRIPT, UNBEATEN, make_boards
from lrbtl.errors import MissingExtraError, PlotError
from lrbtl.show import plots as plotting
from lrbtl.show.matrices import relative_scores
from lrbtl.show.style import THEMES, axis_range, short_label

SIZES = [10, 40, 200]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def sized_boards():
    return {n: make_boards(n) for n in SIZES}


def draw_all(boards, theme="light"):
    yield plotting.plot_leaderboard(boards.overall, theme=theme)
    yield plotting.plot_ranks(boards.overall, theme=theme)
    yield plotting.plot_heatmap(boards, theme=theme)
    yield plotting.plot_win_matrix(
        boards.win[None],
        boards.models,
        lower=boards.win_lower[None],
        upper=boards.win_upper[None],
        theme=theme,
    )
    yield plotting.plot_scree([9.0, 4.0, 0.5, 0.2], 2, theme=theme)
    yield plotting.plot_z_histogram(np.random.default_rng(0).normal(size=500), theme=theme)
    yield plotting.plot_calibration(make_calibration(), theme=theme)


def make_calibration(observed=(0.55, 0.72, 0.85)):
    predicted, se = np.array([0.55, 0.72, 0.95]), np.full(3, 0.01)
    edges = np.array([0.0, 100.0, 300.0, np.inf])
    votes = np.array([4000, 3000, 900])
    return lrbtl.Calibration(edges[:-1], edges[1:], votes, predicted, np.array(observed), se, np.zeros(3))


def fits(ax):
    """Whether everything drawn lies on the figure."""
    figure = ax.figure
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return min(box.x0, box.y0, width - box.x1, height - box.y1) > 0


def row_labels(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("n", [10, 40])
def test_nothing_is_cut_off(sized_boards, theme, n):
    for ax in draw_all(sized_boards[n], theme):
        assert fits(ax)
        assert mpl.colors.to_hex(ax.figure.get_facecolor()) == THEMES[theme].background


@pytest.mark.parametrize("draw", [plotting.plot_leaderboard, plotting.plot_ranks])
def test_two_hundred_rows_do_not_overlap(sized_boards, draw):
    ax = draw(sized_boards[200].overall)
    assert fits(ax)
    boxes = [tick.get_window_extent() for tick in ax.get_yticklabels()]
    centres = np.array([(box.y0 + box.y1) / 2 for box in boxes])
    size = ax.get_yticklabels()[0].get_fontsize() * ax.figure.dpi / 72
    assert (-np.diff(centres)).min() > 1.2 * size


def test_height_follows_the_number_of_models(sized_boards):
    heights = [plotting.plot_leaderboard(sized_boards[n].overall).figure.get_figheight() for n in SIZES]
    assert heights == sorted(heights)
    assert heights[0] > 2.5
    assert heights[-1] < 40


def test_forest_plot_shows_the_board(sized_boards):
    board = sized_boards[10].overall
    ax = plotting.plot_leaderboard(board)
    assert row_labels(ax) == [short_label(model) for model in board.models]
    segments = ax.collections[0].get_segments()
    left, right = ax.get_xlim()
    for row, segment in enumerate(segments[:-1]):
        np.testing.assert_allclose(segment[:, 0], [max(board.lower[row], left), min(board.upper[row], right)])
    written = {text.get_text() for text in ax.texts}
    assert {f"{count:,}" for count in board.battles} <= written
    colors = {mpl.colors.to_hex(color) for color in ax.collections[3].get_facecolor()}
    assert colors == {THEMES["light"].main, THEMES["light"].muted}
    assert ax.lines[-1].get_ydata()[0] == 7.5 and "grey: no rank" in ax.texts[-1].get_text()


def test_boards_tell_ranks_tiers_votes_and_date(sized_boards):
    board = sized_boards[40].overall
    votes = f"{int(board.battles.sum()) // 2:,} votes"
    for draw in (plotting.plot_leaderboard, plotting.plot_ranks):
        ax = draw(board, date=dt.date(2026, 5, 3), top=30)
        *cells, title, _ = [text.get_text() for text in ax.texts]
        assert title == f"Overall: top 30 of 40 · {votes} · 3 May 2026"
        assert cells[:30] == [str(rank) for rank in board.rank[:30]]
        assert cells[cells.index("tier") - 30 : cells.index("tier")] == [str(tier) for tier in board.tier[:30]]
        assert draw(board, date="").texts[-2].get_text().endswith(f" · {votes}")
    words = plotting.plot_heatmap(sized_boards[40], date="week 7").figure.axes[-1].get_xlabel()
    assert words.endswith(f"{votes} · week 7")
    matrix = plotting.plot_win_matrix(sized_boards[40])
    assert f"{votes} · " in matrix.figure.axes[-1].get_xlabel()
    assert str(dt.datetime.now(dt.UTC).year) in matrix.figure.axes[-1].get_xlabel()


def test_thousands_are_written_alike(sized_boards):
    ax = plotting.plot_leaderboard(sized_boards[40].overall)
    ax.figure.draw_without_rendering()
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert "1,000" in ticks and not [text for text in ticks if re.fullmatch(r"\d{4,}", text)]
    written = [text.get_text() for text in ax.texts]
    assert not [text for text in written if re.fullmatch(r"\d{4,}", text)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_quarters_of_the_colour_scale_are_told_apart(theme):
    colors = np.array(THEMES[theme].diverging()([0.25, 0.5, 0.75]))[:, :3]
    low, middle, high = colors
    for one, other in ((low, high), (low, middle), (middle, high)):
        assert np.linalg.norm(one - other) > 0.3
    assert low[0] > high[0] + 0.25 and high[2] > low[2] + 0.25  # orange against blue


def test_axes_follow_the_bulk():
    bulk = np.linspace(900, 1100, 100)
    score = np.concatenate([[3400.0], bulk[::-1], [-400.0]])
    low, high = axis_range(score, score - 10, score + 10)
    assert 870 < low < 900 and 1100 < high < 1130
    mild = np.append(score[1:-1], 880.0)
    assert axis_range(mild, mild - 10, mild + 10)[0] < 880  # a score that is only a little farther out
    half = np.where(score == 3400, 2000.0, 10.0)
    vague = np.where(score == 3400, 1400.0, score)  # not far, but nobody knows: its interval does not fit either
    assert axis_range(vague, vague - half, vague + half)[1] < 1130
    assert axis_range(np.array([]), np.array([]), np.array([])) is None
    equal = np.full(3, 1000.1)  # quantiles of equal scores by interpolation may differ from them
    assert axis_range(equal, equal - 0.3, equal + 0.3)[0] < 1000.1 < axis_range(equal, equal - 0.3, equal + 0.3)[1]
    unknown = np.array([np.nan, np.nan])
    assert axis_range(unknown, np.array([1.0, -np.inf]), np.array([np.inf, 5.0])) == pytest.approx((0.84, 5.16))


def test_forest_plot_of_the_top(sized_boards):
    ax = plotting.plot_leaderboard(sized_boards[40].overall, top=5)
    assert len(row_labels(ax)) == 5
    assert "top 5 of 40" in ax.texts[-2].get_text()
    with pytest.raises(PlotError, match="at least 1"):
        plotting.plot_leaderboard(sized_boards[40].overall, top=0)


def test_a_board_without_scores_is_not_drawn():
    board, none = make_boards(10).overall, np.full(10, np.nan)
    with pytest.raises(PlotError, match="no finite"):
        plotting.plot_leaderboard(replace(board, score=none, lower=none, upper=none))


def test_one_very_wide_interval_does_not_stretch_the_axis():
    board = make_boards(40).overall
    plain = plotting.plot_leaderboard(board).get_xlim()
    k = board.models.index(NEWCOMER)
    board.lower[k], board.upper[k] = board.score[k] - 5000, board.score[k] + 5000
    ax = plotting.plot_leaderboard(board)
    left, right = ax.get_xlim()
    assert plain[0] - 100 < left and right < plain[1] + 100
    segments = np.array(ax.collections[0].get_segments()[:-1])
    np.testing.assert_allclose(segments[k, :, 0], (left, right))
    assert "goes on beyond the axis" in ax.texts[-1].get_text()
    arrows = [c.get_offsets() for c in ax.collections[1:3]]
    assert [k in offsets[:, 1] for offsets in arrows] == [True, True]


def test_scores_without_intervals_have_no_arrows():
    board = make_boards(10).overall
    board = replace(board, lower=np.full(10, np.nan), upper=np.full(10, np.nan))
    ax = plotting.plot_leaderboard(board)
    assert [len(c.get_offsets()) for c in ax.collections[1:4]] == [0, 0, 9]
    assert ax.texts[-1].get_text() == "scores without intervals"


def test_pictures_take_the_natural_objects():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 2, scale=2, rng=0), 9000, rng=1)
    boards, wins = lrbtl.leaderboard(battles, context="all", rank=2), lrbtl.win_matrix(battles, 1, rank=2)
    assert row_labels(plotting.plot_leaderboard(boards)) == list(boards.models)
    assert [tick.get_text() for tick in plotting.plot_heatmap(boards).get_xticklabels()] == ["0", "1", "2"]
    assert row_labels(plotting.plot_ranks(boards)) == list(boards.models)
    assert row_labels(plotting.plot_win_matrix(boards)) == list(boards.models)
    assert row_labels(plotting.plot_win_matrix(wins)) == list(wins.models)
    boards = lrbtl.leaderboard(battles, context="all", rank=2, method="efficient")
    for source in (boards, boards.fit):
        dots = plotting.plot_scree(source).collections[0].get_offsets()
        np.testing.assert_allclose(dots[:, 1], boards.fit.singular_values[0])


@pytest.mark.parametrize(
    ("draw", "thing", "call"),
    [
        (plotting.plot_leaderboard, [1, 2], "lrbtl.leaderboard(battles)"),
        (plotting.plot_heatmap, "board", "lrbtl.leaderboard(battles, context='all')"),
        (plotting.plot_win_matrix, "board", "lrbtl.win_matrix(battles)"),
        (plotting.plot_win_matrix, [[0.5]], "lrbtl.win_matrix(battles)"),
        (plotting.plot_scree, "board", "lrbtl.fit(battles)"),
        (plotting.plot_scree, "naive", "lrbtl.fit(battles)"),
    ],
)
def test_other_objects_are_told_the_right_call(draw, thing, call):
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    things = {
        "board": lambda: lrbtl.leaderboard(battles, rank=1),
        "naive": lambda: lrbtl.leaderboard(battles, context="all", method="naive"),
    }
    with pytest.raises(PlotError, match=re.escape(call)):
        draw(things[thing]() if isinstance(thing, str) else thing)


def test_rank_plot_spans_both_spreads(sized_boards):
    board = sized_boards[10]["maths"]
    ax = plotting.plot_ranks(board)
    thin, thick = (np.array(c.get_segments())[:, :, 0] for c in ax.collections[:2])
    np.testing.assert_allclose(thin, np.c_[board.rank_lower - 0.3, board.rank_upper + 0.3][:8])
    np.testing.assert_allclose(thick, np.c_[board.best - 0.3, board.worst + 0.3][:8])
    np.testing.assert_allclose(ax.collections[2].get_offsets()[:, 0], board.rank[:8])


def test_heatmap_against_loops(sized_boards):
    boards = sized_boards[10]
    overall = boards.overall
    difference, half_width, excluded = relative_scores(overall, list(boards.values()))
    for i, model in enumerate(overall.models):
        for j, context in enumerate(CONTEXTS):
            board = boards[context]
            row = board.models.index(model)
            if model == UNBEATEN:
                assert np.isnan(difference[i, j])
                continue
            assert difference[i, j] == board.score[row] - overall.score[i]
            assert half_width[i, j] == (board.upper[row] - board.lower[row]) / 2
            assert excluded[i, j] == (not board.lower[row] <= overall.score[i] <= board.upper[row])
    ax = plotting.plot_heatmap(boards)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(CONTEXTS)
    drawn = [path.get_extents().width for path in ax.collections[0].get_paths()]
    sides = np.full(difference.shape, np.nan)
    sides[np.isfinite(difference)] = drawn
    newcomer = overall.models.index(NEWCOMER)
    assert (sides[newcomer] <= np.nanmin(sides[:newcomer], axis=0)).all()


def test_heatmap_leaves_out_a_model_without_votes_in_a_context():
    boards = make_boards(10, contexts=("maths", "coding"))
    board = boards["maths"]
    absent = replace(board, battles=np.where(np.arange(10) == 3, 0, board.battles))
    boards = replace(boards, boards={**boards.boards, "maths": absent})
    assert len(plotting.plot_heatmap(boards).collections[0].get_paths()) == 17  # nor the unbeaten model


def test_heatmap_needs_contexts():
    with pytest.raises(PlotError, match="no context"):
        plotting.plot_heatmap(make_boards(10, contexts=()))


def test_win_matrix_marks_undecided_pairs():
    chance = np.array([[0.5, 0.8, 0.55], [0.2, 0.5, 0.4], [0.45, 0.6, 0.5]])
    ax = plotting.plot_win_matrix(chance, "abc", lower=chance - 0.15, upper=chance + 0.15)
    sides = [path.get_extents().width for path in ax.collections[0].get_paths()]
    np.testing.assert_allclose(sides, [0.96, 0.5, 0.96, 0.5, 0.5, 0.5])
    assert [text.get_text() for text in ax.texts] == ["80", "55", "20", "40", "45", "60"]


def test_win_matrix_says_what_does_not_fit():
    half = np.full((2, 2), 0.5)
    with pytest.raises(PlotError, match=r"matrix has shape \(2, 2\), but there are 3 labels"):
        plotting.plot_win_matrix(half, "abc")
    with pytest.raises(PlotError, match="both or neither"):
        plotting.plot_win_matrix(half, "ab", lower=half)


def test_scree_and_z_histogram_say_what_is_wrong():
    with pytest.raises(PlotError, match="rank is 3"):
        plotting.plot_scree([1.0, 0.5], 3)
    with pytest.raises(PlotError, match="singular_values"):
        plotting.plot_scree([], 1)
    with pytest.raises(PlotError, match="no finite"):
        plotting.plot_z_histogram([np.nan])


def test_z_histogram_has_unit_area_and_counts_the_lost():
    z = np.r_[np.random.default_rng(1).normal(size=999), np.nan]
    ax = plotting.plot_z_histogram(z)
    assert sum(bar.get_width() * bar.get_height() for bar in ax.patches) == pytest.approx(1)
    words = ax.texts[-1].get_text()
    assert "n = 1,000" in words
    assert "1 not finite" in words
    assert f"{np.mean(np.abs(z) <= 1.96):.1%}" in words


def test_calibration_marks_what_is_off():
    ax = plotting.plot_calibration(make_calibration())
    assert "1 of 3 off; 7,900 votes" in ax.texts[-1].get_text()
    assert len({tuple(color) for color in ax.collections[0].get_facecolors()}) == 2
    diagnosis = lrbtl.diagnose(lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[300, 200]))
    assert "votes agree" in plotting.plot_calibration(diagnosis).texts[-1].get_text()
    with pytest.raises(PlotError, match="no calibration"):
        plotting.plot_calibration(lrbtl.diagnose(lrbtl.Battles.from_arrays(["x"], ["y"], [1])))


def test_draws_into_given_axes():
    figure, axes = plt.subplots(1, 2)
    boards = make_boards(10)
    assert plotting.plot_leaderboard(boards.overall, ax=axes[0]) is axes[0]
    assert plotting.plot_scree([2.0, 1.0], 1, ax=axes[1]).figure is figure
    assert figure.number in plt.get_fignums()


def test_labels_are_shown_as_they_are():
    labels = row_labels(plotting.plot_leaderboard(make_boards(10).overall))
    assert SCRIPT in labels
    assert "costs-$5-or-$6_each" in labels
    assert short_label(LONG) in labels
    assert len(short_label(LONG)) == 36
    assert short_label("two\nlines") == "two lines"


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_board_gives_the_same_file(tmp_path, kind):
    paths, others = [tmp_path / f"{name}.{kind}" for name in "ab"], plt.get_fignums()
    for path in paths:
        plotting.save_picture(plotting.plot_leaderboard(make_boards(10).overall), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths
    assert plt.get_fignums() == others


def test_unknown_picture_format_is_named(tmp_path):
    with pytest.raises(PlotError, match=r"board\.docx; let it end in \.png"):
        plotting.save_picture(plotting.plot_scree([1.0], 1), tmp_path / "board.docx")


def test_unknown_theme_is_named():
    with pytest.raises(PlotError, match="'sepia'; use one of 'light', 'dark'"):
        plotting.plot_scree([1.0], 1, theme="sepia")


@pytest.mark.parametrize("name", THEMES)
def test_text_has_contrast(name):
    theme = THEMES[name]

    def luminance(color):
        rgb = np.array(mpl.colors.to_rgb(color))
        return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    for color in (theme.text, theme.muted, theme.main):
        for ground in (theme.background, theme.band):
            low, high = sorted([luminance(color), luminance(ground)])
            assert (high + 0.05) / (low + 0.05) > 4.5


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lrbtl\[plot\]'"):
        plotting.plot_scree([1.0], 1)
