"""Kernels by name, model files of kernels, and ``train --learner mkl``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import accelerated
import reference
from conformance.application.test_app import data_file, refused, reported, run  # noqa: F401 (a fixture)
from diptych.commands.learners import KernelJob
from diptych.files import load_model, save_model
from reference.models.kernel_names import described, named, restored


@pytest.fixture
def learned(backend, rng):
    """A model with kernels of all kinds that have a file form, trained for a while; its data, its weights."""
    X = [rng.normal(size=(n, 3)) for n in (2, 4, 1, 3, 0)]
    Y = [[("x", "y", "z")[i] for i in rng.integers(0, 3, len(x))] for x in X]
    kernels = [
        backend.kernels.Linear(True),
        backend.kernels.Mean([backend.kernels.Polynomial(3, 0.5), backend.kernels.B1Spline(1.5)]),
        backend.kernels.Explicit(),
    ]
    model = backend.KernelSequenceModel(
        [*kernels, backend.kernels.Gaussian(2.0)],
        ["x", "y", "z"],
        transitions="each",
        cost=[[0, 2, 1], [1, 0, 1], [3, 1, 0]],
    )
    data = model.pack(X, Y)
    return model, data, backend.mkl(model, data, lam=0.05, step_size=0.3, epochs=3, rng=0).x


def test_a_model_file_is_all_that_a_prediction_needs(learned, tmp_path, rng):
    """In both panels: the same labels as before it was saved; only training positions with coefficients are in it."""
    model, _, weights = learned
    save_model(tmp_path / "m.npz", model, weights, {"C": 10})
    new = [rng.normal(size=(n, 3)) for n in (5, 0, 30, 1)]
    for panel in (reference, accelerated):
        loaded, w, info = load_model(tmp_path / "m.npz", panel)
        assert type(loaded) is panel.KernelSequenceModel and loaded.settings() == model.settings() and info == {"C": 10}
        assert loaded.groups[0] == model.groups[0] and w.rows.shape[0] == model.support(weights).rows.shape[0]
        assert np.array_equal(w.beta, weights.beta)
        for got, want in zip(loaded.predict(w, new), model.predict(weights, new), strict=True):
            assert np.array_equal(got, want)


def test_single_precision_and_pruned_groups_in_a_file(backend, tmp_path, rng):
    X, Y = [rng.normal(size=(4, 2)) for _ in range(3)], [[0, 1, 1, 0]] * 3
    model = backend.KernelSequenceModel([backend.kernels.Gaussian(1.0)], 2)
    data = model.pack(X, Y, like=np.zeros(0, np.float32))
    for tau in (0.01, 1e6):  # the second prunes everything
        weights = backend.mkl(model, data, lam=0.0, penalty=backend.L1(tau), step_size=0.3, epochs=2, rng=0).x
        save_model(tmp_path / "m.npz", model, weights)
        loaded, w, _ = load_model(tmp_path / "m.npz", backend.module)
        assert w.rows.dtype == np.float32 == w.coefficients[0].dtype and (w.rows.shape[0] == 0) == (tau > 1)
        assert all(np.array_equal(a, b) for a, b in zip(loaded.predict(w, X), model.predict(weights, X), strict=True))


def test_kernels_without_a_file_form_are_refused(backend, tmp_path):
    for kernel in (
        backend.kernels.Function(lambda X, Y: X @ Y.T),
        backend.kernels.Mean([backend.kernels.Linear(), backend.kernels.Precomputed(np.eye(2))]),
    ):
        model = backend.KernelSequenceModel([kernel], 2)
        data = model.pack([[[0.0], [1.0]]], [[0, 1]])
        name = "Function" if isinstance(kernel, backend.kernels.Function) else "Precomputed"
        with pytest.raises(TypeError, match=f"groups: {name} cannot be saved; expected kernels among B1Spline"):
            save_model(tmp_path / "m.npz", model, model.zeros(data))

    class Mine(backend.kernels.Gaussian):
        """It has the name of none of ours."""

    with pytest.raises(TypeError, match="groups: Mine cannot be saved"):
        described(Mine(1.0))
    assert not list(tmp_path.iterdir())


def test_weights_that_cannot_be_saved_are_named(learned, tmp_path):
    model, _, weights = learned
    with pytest.raises(ValueError, match="w: expected finite weights, got nan or inf in transitions"):
        save_model(tmp_path / "m.npz", model, weights._replace(transitions=weights.transitions + np.inf))
    with pytest.raises(TypeError, match="weights: expected KernelWeights"):
        save_model(tmp_path / "m.npz", model, np.zeros(3))


def test_names_of_kernels(backend, rng):
    X = [rng.normal(size=(30, 2)) for _ in range(3)]
    found = named("linear, quadratic,gaussian:2.5,polynomial:3,explicit,linear+gaussian", X)
    assert found[:5] == [
        backend.kernels.Linear(True),
        backend.kernels.Polynomial(2),
        backend.kernels.Gaussian(2.5),
        backend.kernels.Polynomial(3),
        backend.kernels.Explicit(True),
    ]
    assert list(found[5].parts) == [backend.kernels.Linear(True), backend.kernels.Gaussian(5.0)]
    (spline,) = named("spline:0.8", X)
    assert abs(np.mean(spline(np.concatenate(X)) == 0) - 0.8) < 0.02
    for kernel in [*found[:5], spline]:
        assert restored(json.loads(json.dumps(described(kernel)))) == kernel


def test_from_training_to_labels(backend, data_file, tmp_path, capsys):
    """Train, save, evaluate, predict; lam is 1/(C n); beta has a share for each kernel and the transitions."""
    saved, log = tmp_path / "m.npz", tmp_path / "run.jsonl"
    how = ["--learner", "mkl", "--kernels", "linear,gaussian,explicit", "--C", 20, "--epochs", 5, "--rng", 3]
    report = reported(backend, capsys, "train", data_file, *how, "--save", saved, "--log", log)
    assert report["lam"] == 1 / (20 * 6) and len(report["norms"]) == 5
    assert list(report["beta"]) == ["linear", "gaussian", "explicit", "transitions"]
    assert abs(sum(report["beta"].values()) - 1) < 1e-12 and report["train"]["letter"] == 1.0
    assert len(log.read_text().splitlines()) == 7
    status, out, _ = run(backend, capsys, "train", data_file, *how, "--transitions", "each", "--json")
    assert status == 0 and list(json.loads(out)["beta"]) == ["linear", "gaussian", "explicit"]
    status, out, _ = run(backend, capsys, "train", data_file, *how)
    assert status == 0 and "beta" in out and "gaussian 0." in out and "accuracy by letter 100.00 %" in out
    assert "letters has 128 features" in refused(backend, capsys, "evaluate", saved, "letters")


def test_weights_of_the_penalty():
    assert KernelJob(C=10.0).weight(5) == 1 / 50 and KernelJob(lam=0.3).weight(5) == 0.3
    assert KernelJob().weight(4) == 1 / 400
