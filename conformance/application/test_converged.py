"""What learners and commands say of a run's end: a duality gap, warnings, advice."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from diptych import certificates
from diptych.certificates import certified
from diptych.estimators import MulticlassClassifier, SequenceLabeler, SparseClassifier
from diptych.estimators.protocol import ConvergenceWarning
from diptych.panels import PANELS

LONG = pytest.mark.beyond("long runs")


def people(n=60):
    """Ages and salaries, and a class that depends on both."""
    rng = np.random.default_rng(0)
    age, salary = rng.uniform(18, 80, n), rng.uniform(2e4, 2e5, n)
    return np.stack([age, salary], 1), np.where(age / 80 + salary / 2e5 + rng.normal(0, 0.1, n) > 1.2, "a", "b")


def warned(learner, X, y):
    """The texts of the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.fit(X, y)
    assert all(each.category is ConvergenceWarning for each in caught)
    return [str(each.message) for each in caught]


@LONG
@pytest.mark.parametrize("loss", ["log loss", "hinge", "smoothed", "weighted"])
@pytest.mark.parametrize("kind", ["ridge", "l1", "elastic net", "squared groups", "ball"])
def test_the_gap_bounds_the_distance_to_every_point(backend, rng, loss, kind):
    """After one epoch and after many: no point is lower than the objective minus the gap, and the gap shrinks."""
    sp, model, groups = backend.module, backend.MulticlassModel(3, 3), np.arange(9) // 3
    data, smoothing = model.pack(rng.normal(size=(12, 3)), rng.integers(0, 3, 12)), sp.smoothings.SquaredL2()
    objective = sp.StructuralHinge(model, data, smoothing=smoothing if loss == "smoothed" else None)
    objective = sp.LogLoss(model, data) if loss == "log loss" else objective
    objective = sp.Weighted(objective, rng.uniform(0, 2, 12)) if loss == "weighted" else objective
    penalties = {"l1": sp.L1(0.05), "elastic net": sp.ElasticNet(sp.L1(0.02), 0.1), "ball": sp.L21Ball(1.0, groups)}
    penalties["squared groups"] = sp.SquaredL21(0.1, groups)
    optimiser, options = sp.sgd, {"lam": 0.2}
    if kind in penalties:
        optimiser = sp.online_proximal
        options = {"regularizer": penalties[kind], "step_size": sp.steps.InverseSqrt(0.3)}
    options |= {"mu": 0.5} if loss == "smoothed" else {}
    gaps, funs = [], []
    for epochs in (200, 1):
        plain = optimiser(objective, epochs=epochs, rng=0, **options)
        result = certified(sp, plain, objective, options)
        if (loss, kind) == ("smoothed", "l1"):  # F may be < 0, and s = 1 lies outside R*
            assert result is plain
            return
        assert "not certified" in plain.message and result.success == (result.certificate <= 0.01 * result.fun)
        assert result.fun == plain.fun and ("more than 1 %" in result.message) == (not result.success)
        gaps, funs = [*gaps, result.certificate], [*funs, result.fun]
        assert result.fun - result.certificate <= min(funs) + 1e-9
    assert 0 <= gaps[0] < gaps[1] and gaps[0] < 0.6 * min(funs)


def test_what_has_no_dual_stays_without_a_number(backend, rng):
    """lam = 0, a set to project on, options of another objective, a run that the callback stopped."""
    sp, model = backend.module, backend.MulticlassModel(3, 3)
    objective = sp.LogLoss(model, model.pack(rng.normal(size=(6, 3)), rng.integers(0, 3, 6)))
    free = sp.sgd(objective, lam=0.0, step_size=0.1, epochs=2)
    ridge = {"regularizer": sp.HalfSquaredL2(0.1), "step_size": 0.1, "project": sp.L2Ball(1.0)}
    inside = sp.online_proximal(objective, epochs=2, **ridge)
    stopped = sp.sgd(objective, lam=0.1, callback=lambda row, w: True)
    for result, options in ((free, {"lam": 0.0}), (inside, ridge), (free, {"lam": 0.1}), (stopped, {"lam": 0.1})):
        assert certified(sp, result, objective, options) is result and result.success


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("name", [*(pytest.param(name, marks=LONG) for name in ("svrg", "casimir", "sgd")), "lbfgs"])
def test_unscaled_features_are_named(panel, name, monkeypatch):
    """Where a run has not converged, and where it took many iterations."""
    (X, y), how = people(), {"optimizer": name, "random_state": 0, "panel": panel}
    learner = MulticlassClassifier(options={} if name == "lbfgs" else {"epochs": 20}, **how)
    if name == "lbfgs":
        assert warned(learner, X, y) == [] and learner.result_.success
        monkeypatch.setattr(certificates, "MANY", learner.result_.nit - 1)
    (text,) = warned(learner, X, y)
    result = learner.result_
    assert result.success == (name == "lbfgs") == (f"the certificate {result.certificate:.3g} is more than" not in text)
    assert text.endswith(f"range from 1 to {X.max():.3g}: scale the features")
    assert warned(learner, (X - X.mean(0)) / X.std(0), y) == []
    parts = [X[i : i + 3] for i in range(0, 60, 3)], [y[i : i + 3] for i in range(0, 60, 3)]
    few = {"iterations" if name == "lbfgs" else "epochs": 2}
    assert warned(SequenceLabeler(lam=0.01, options=few, **how), *parts)[0].endswith("scale the features")
    assert "scale the features" in warned(SparseClassifier(beta_share=0.01, iterations=1), X, y)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MulticlassClassifier(panel=panel).partial_fit(X, y, ["a", "b"])


def test_commands_print_what_is_known(data_file, tmp_path, cli):
    with np.load(data_file) as archive:
        np.savez(tmp_path / "far.npz", **{**archive, "features": archive["features"] * [1.0, 50.0, 5e4]})
    for words, said in (
        (["train", tmp_path / "far.npz", "--epochs", 2], "not converged: 2 epochs done: the certificate "),
        (["train", data_file, "--lam", 0, "--epochs", 2, "--step-size", 0.1], "2 epochs done; not certified: "),
        (["train", data_file, "--learner", "mkl", "--epochs", 2], "2 epochs done; not certified: "),
        (["compare", data_file, "--epochs", 1, "--lam", 1e-3], "reference: not converged: 1 epochs done: the cert"),
    ):
        (line,) = [line for line in cli.printed(*words).splitlines() if line.startswith(said)]
        assert ("scale the features" in line) == ("far" in str(words[1]))
        report = cli.reported(*words)
        report = report.get("reference", report)
        assert report["success"] == ("not certified" in said) == isinstance(report["certificate"], str)
        assert report["message"] in line
    kept = ["grid", "--kept", tmp_path / "kept.jsonl", "--vary", "lam=1e-3,1e3", "train", data_file, "--epochs", 2]
    said = "1 of 2 runs have not converged; lam=1e-3: 2 epochs done: the certificate "
    assert cli.panel != PANELS[0] or said in cli.printed(*kept)
