"""Estimates against direct NumPy formulas."""

import gc
import json
import pickle
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit

from lrbtl.errors import (
    BoundError,
    CovarianceError,
    DifferentRunsError,
    EstimateError,
    LevelError,
    ScaleError,
    UnknownTargetError,
)
from lrbtl.inference.estimate import Estimate, Provenance
from lrbtl.inference.joint import max_t_quantile

LABELS = ("x", "y", "x beats y", "z")
WORKING = np.array([0.8, -0.3, 1.1, 0.0])
LINKS = ("identity", "identity", "logit", "identity")
ROOT = np.array([[0.3, 0.1, 0.0, 0.0], [0.1, 0.2, 0.1, 0.0], [0.2, -0.1, 0.3, 0.0], [0.1, 0.1, 0.1, 0.1]])
COV = ROOT @ ROOT.T
SE = np.sqrt(np.diag(COV))
P = expit(1.1)
SLOPE = np.array([1.0, 1.0, P * (1 - P), 1.0])
NATURAL = np.array([0.8, -0.3, P, 0.0])


@pytest.fixture
def est():
    return Estimate(LABELS, WORKING, COV, links=LINKS, bound_se=0.9 * SE, naive_se=2 * SE)


@pytest.fixture
def huge():
    return Estimate(LABELS, WORKING, None, links=LINKS, se=SE)


def test_columns(est):
    np.testing.assert_allclose(est.estimate, NATURAL, rtol=1e-15)
    np.testing.assert_allclose(est.se, SLOPE * SE, rtol=1e-14)
    np.testing.assert_allclose(est.cov, np.diag(SLOPE) @ COV @ np.diag(SLOPE), rtol=1e-13)
    np.testing.assert_allclose(est.z, WORKING / SE, rtol=1e-14)
    np.testing.assert_allclose(est.pvalue, 2 * stats.norm.sf(np.abs(WORKING / SE)), rtol=1e-12)
    np.testing.assert_allclose(est.bound, 0.9 * est.se)
    np.testing.assert_allclose(est.gain_over_naive, 2.0)


def test_intervals(est):
    z = stats.norm.ppf(0.95)
    wald = np.column_stack([WORKING - z * SE, WORKING + z * SE])
    expected = wald.copy()
    expected[2] = expit(wald[2])
    np.testing.assert_allclose(est.conf_int(0.9), expected, rtol=1e-12)
    natural = np.column_stack([NATURAL - z * SLOPE * SE, NATURAL + z * SLOPE * SE])
    np.testing.assert_allclose(est.conf_int(0.9, scale="natural"), natural, rtol=1e-12)
    scores = est[["x", "y"]]
    np.testing.assert_allclose(scores.conf_int(0.9, scale="elo"), wald[:2] * 400 / np.log(10), rtol=1e-12)


def test_joint_intervals_use_the_correlation(est):
    c = max_t_quantile(COV / np.outer(SE, SE), 0.9)
    np.testing.assert_allclose(est.conf_int(0.9, joint=True)[0], [0.8 - c * SE[0], 0.8 + c * SE[0]], rtol=1e-12)
    assert c > stats.norm.ppf(0.95)


def test_joint_intervals_ignore_targets_without_error():
    cov = np.diag([0.04, 0.0, np.inf, 0.04])
    est = Estimate(["a", "b", "c", "d"], [1.0, 2.0, 0.0, 3.0], cov, links="identity")
    c = max_t_quantile(np.eye(2))
    np.testing.assert_allclose(est.conf_int(joint=True)[:2], [[1 - 0.2 * c, 1 + 0.2 * c], [2.0, 2.0]])


@settings(max_examples=50, deadline=None)
@given(st.floats(-30, 30), st.floats(0.01, 5), st.floats(0.5, 0.999))
def test_probabilities_stay_inside_the_unit_interval(working, se, level):
    est = Estimate(["p"], [working], [[se**2]], links="logit")
    lower, upper = est.conf_int(level)[0]
    assert 0 < lower <= est.estimate[0] <= upper <= 1


def test_tests_are_made_on_the_working_scale(est):
    test = est.test(null=[0.5, 0.0, 0.6, 0.0])
    center = np.array([0.5, 0.0, logit(0.6), 0.0])
    np.testing.assert_allclose(test.z, (WORKING - center) / SE, rtol=1e-12)
    np.testing.assert_allclose(est.test().null, [0, 0, 0.5, 0])
    np.testing.assert_allclose(est.test(0.5).null, 0.5)
    with pytest.raises(EstimateError, match="between 0 and 1"):
        est.test(null=0)
    with pytest.raises(EstimateError, match="one for each of 4"):
        est.test(null=[0.1, 0.2])


def test_contrasts(est):
    weights = np.array([[1.0, -1.0, 0.0, 0.0], [0.5, 0.5, 2.0, 0.0]])
    made = est.contrast(weights, label=["gap", "mix"])
    jacobian = weights * SLOPE
    assert made.labels == ("gap", "mix")
    np.testing.assert_allclose(made.estimate, weights @ NATURAL, rtol=1e-14)
    np.testing.assert_allclose(made.cov, jacobian @ COV @ jacobian.T, rtol=1e-12)
    named = est.contrast({"x": 0.5, 1: 0.5, "x beats y": 2})
    assert named.labels == ("0.5·x + 0.5·y + 2·x beats y",)
    np.testing.assert_allclose(named.se, made.se[1:], rtol=1e-12)
    again = made.contrast([1.0, 1.0], label="both")
    np.testing.assert_allclose(again.se, np.sqrt(np.ones(2) @ made.cov @ np.ones(2)), rtol=1e-12)
    assert again.contrast([0.0]).labels == ("contrast of 0 targets",)


def test_differences_keep_the_covariance_of_the_run(est):
    gap = est["x"] - est["y"]
    assert gap.labels == ("x - y",)
    np.testing.assert_allclose(gap.se, np.sqrt(COV[0, 0] + COV[1, 1] - 2 * COV[0, 1]), rtol=1e-12)
    np.testing.assert_allclose((gap + est["y"]).se, est.se[:1], rtol=1e-12)
    np.testing.assert_allclose((est[["x", "z"]] - est["y"]).cov, est.contrast([[1, -1, 0, 0], [0, -1, 0, 1]]).cov)
    assert (est["y"] + est[:2]).labels == ("y + x", "y + y")
    drop = est["x beats y"] - est["x beats y"]
    assert drop.estimate[0] == drop.se[0] == 0.0


def test_a_sum_with_a_probability_is_not_on_the_score_scale(est):
    mixed = est["x"] + est["x beats y"]
    np.testing.assert_allclose(mixed.se, np.sqrt(np.array([1, 0, SLOPE[2], 0]) @ COV @ [1, 0, SLOPE[2], 0]), rtol=1e-12)
    np.testing.assert_allclose(mixed.z, mixed.estimate / mixed.se)
    with pytest.raises(ScaleError, match="x \\+ x beats y"):
        mixed.conf_int(scale="elo")
    assert (est["x"] - est["y"]).conf_int(scale="elo").shape == (1, 2)


def test_selection(est):
    assert est[-1].labels == ("z",)
    assert est[1:3].labels == ("y", "x beats y")
    assert est[est.estimate > 0].labels == ("x", "x beats y")
    assert [part.labels[0] for part in est] == list(LABELS)
    assert est[["z", 0]].labels == ("z", "x")
    np.testing.assert_allclose(est[["z", 0]].cov, COV[np.ix_([3, 0], [3, 0])])
    np.testing.assert_allclose(est["x beats y"].bound, est.bound[2:3])
    np.testing.assert_allclose(est[1:][["z"]][0].contrast([2.0]).se, 2 * SE[3:])
    with pytest.raises(UnknownTargetError, match="did you mean 'x beats y'"):
        est["x beat y"]
    with pytest.raises(UnknownTargetError, match="0 to 3"):
        est[4]


def test_bad_questions_are_named(est):
    other = Estimate(LABELS, WORKING, COV, links=LINKS)
    with pytest.raises(DifferentRunsError, match="one infer call"):
        est["x"] - other["y"]
    with pytest.raises(EstimateError, match="use contrast"):
        est[:2] - est[:3]
    with pytest.raises(EstimateError, match="do not fit"):
        est.contrast([1.0, 2.0])
    with pytest.raises(EstimateError, match="finite weight"):
        est.contrast([1.0, np.nan, 0, 0])
    with pytest.raises(ScaleError, match="'x beats y' is not a score"):
        est.conf_int(scale="elo")
    with pytest.raises(ScaleError, match="scale='bananas' is not known"):
        est.conf_int(scale="bananas")
    with pytest.raises(LevelError):
        est.conf_int(95)
    with pytest.raises(BoundError):
        _ = other.bound
    with pytest.raises(BoundError):
        _ = other.gain_over_naive
    with pytest.raises(BoundError):
        _ = (est["x"] - est["y"]).bound
    with pytest.raises(TypeError):
        est - 1


def test_bad_arrays_are_named():
    with pytest.raises(EstimateError, match="working has shape"):
        Estimate(["a"], [1.0, 2.0], [[1.0]], links="identity")
    with pytest.raises(EstimateError, match="cov has shape"):
        Estimate(["a"], [1.0], np.eye(2), links="identity")
    with pytest.raises(EstimateError, match="exactly one"):
        Estimate(["a"], [1.0], None, links="identity")
    with pytest.raises(EstimateError, match="unknown links"):
        Estimate(["a"], [1.0], [[1.0]], links="cubic")


def test_without_covariance_everything_else_works(est, huge):
    for name in ("estimate", "se", "z", "pvalue"):
        np.testing.assert_allclose(getattr(huge, name), getattr(est, name), rtol=1e-14)
    np.testing.assert_allclose(huge.conf_int(), est.conf_int())
    np.testing.assert_allclose(huge[1:3].se, est[1:3].se)
    assert huge.summary() == est.summary()
    questions = (
        lambda: huge.cov,
        lambda: huge.conf_int(joint=True),
        lambda: huge.contrast([1, 0, 0, 0]),
        lambda: huge[0] - huge[1],
    )
    for question in questions:
        with pytest.raises(CovarianceError, match="fewer targets"):
            question()


def test_tables_have_the_fixed_columns(est):
    names = ["label", "estimate", "se", "z", "pvalue", "lower", "upper"]
    frame = est.to_frame(level=0.9)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == names
    np.testing.assert_array_equal(frame[["lower", "upper"]].to_numpy(), est.conf_int(0.9))
    assert est.to_frame("polars", joint=True).columns == names
    columns = json.loads(json.dumps(est.to_dict()))
    assert list(columns) == names
    assert columns["estimate"] == est.estimate.tolist()


def test_print_repr_and_html_agree():
    info = Provenance(
        method="efficient", rank=(3, 3), n_battles=60_000, n_folds=10, ridge=1.5, notes=("thin",), level=0.9
    )
    labels = [f"model <{k}>" for k in range(50)]
    est = Estimate(labels, np.arange(50.0), np.eye(50), links="identity", info=info)
    text, html = est.summary(), est._repr_html_()
    assert repr(est) == str(est) == text
    for line in (
        "  method    efficient",
        "  rank      3 × 3",
        "  battles   60,000",
        "  ridge     1.5",
        "  note      thin",
    ):
        assert line in text.split("\n")
    assert "..." in text and "model <0>" in text and "model <49>" in text and "model <25>" not in text
    assert "90% pointwise" in text and "90% pointwise" in html
    assert "model &lt;49&gt;" in html and "<0>" not in html
    assert "against 0 or 1/2" in Estimate(LABELS, WORKING, COV, links=LINKS).summary()


def test_infinite_estimates_do_not_disturb_the_others():
    cov = np.array([[0.04, 0.0, np.nan], [0.0, 0.09, np.nan], [np.nan, np.nan, np.inf]])
    est = Estimate(["a", "b", "c"], [1.0, 0.5, np.inf], cov, links="identity")
    assert (est["a"] - est["b"]).se[0] == pytest.approx(np.sqrt(0.13))
    assert est.contrast([1.0, -1.0, 0.0]).estimate[0] == 0.5
    assert np.isnan((est["c"] - est["a"]).se[0])
    assert "inf" in est.summary()


def test_arrays_are_read_only_and_pickling_keeps_the_run(est):
    with pytest.raises(ValueError, match="read-only"):
        est._cov[0, 0] = 1.0
    left, right = pickle.loads(pickle.dumps((est["x"], est["y"])))
    np.testing.assert_allclose((left - right).se, (est["x"] - est["y"]).se)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_relabelling_and_units(seed, m):
    rng = np.random.default_rng(seed)
    root, working, order = rng.standard_normal((m, m)), rng.standard_normal(m), rng.permutation(m)
    names = [f"t{k}" for k in range(m)]
    est = Estimate(names, working, root @ root.T, links="identity")
    shuffled = est[order.tolist()]
    np.testing.assert_allclose(shuffled.conf_int(), est.conf_int()[order])
    weights = rng.standard_normal(m)
    np.testing.assert_allclose(shuffled.contrast(weights[order]).se, est.contrast(weights).se)
    scaled = Estimate(names, 3 * working, 9 * root @ root.T, links="identity")
    np.testing.assert_allclose(scaled.conf_int(), 3 * est.conf_int())
    np.testing.assert_allclose(scaled.z, est.z)


def test_naive_errors_are_computed_once_and_only_when_read():
    calls = []

    def compute():
        calls.append(1)
        return 3 * SE

    est = Estimate(LABELS, WORKING, COV, links=LINKS, naive_se=compute)
    part, copy = est[[1]], pickle.loads(pickle.dumps(est))
    assert not calls
    with pytest.raises(BoundError):
        _ = copy.gain_over_naive
    np.testing.assert_allclose(part.gain_over_naive, 3.0)
    np.testing.assert_allclose(est.gain_over_naive, 3.0)
    assert calls == [1]
    np.testing.assert_allclose(pickle.loads(pickle.dumps(est)).gain_over_naive, 3.0)
    with pytest.raises(BoundError):
        _ = est.bound


def test_only_known_facts_are_told():
    assert Provenance().describe() == []
    info = Provenance(
        method="mle", rank=(3, 2), n_battles=12_345, ridge=(0.5, 0.123456), notes=("two contexts are thin",)
    )
    assert info.describe() == [
        "  method    mle",
        "  rank      3 × 2",
        "  battles   12,345",
        "  ridge     0.5 × 0.1235",
        "  note      two contexts are thin",
    ]


def test_estimates_go_when_nobody_reads_them():
    found = Estimate(["a", "b"], [0.0, 1.0], np.eye(2), links="identity")
    gone = weakref.ref(found)
    assert found[["a", "b"]] is found
    gc.disable()
    try:
        del found
        assert gone() is None  # covariances of boards fill gigabytes
    finally:
        gc.enable()
