"""Options and data at the ends of their ranges: the same clear answer in both panels."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.tolerances import close

HINGE = ("bcfw", "cutting_planes", "multisample")
LIMITS = {name: "epochs" for name in (*HINGE, "sgd", "svrg", "casimir", "exponentiated_gradient")}
LIMITS |= {"lbfgs": "iterations", "prox_linear": "iterations"}


def called(backend, name, scale=1.0, **options):
    rng = np.random.default_rng(0)
    model = backend.SequenceModel(3, 3)
    data = model.pack([scale * rng.normal(size=(3, 3)) for _ in range(5)], [rng.integers(3, size=3) for _ in range(5)])
    objective = backend.StructuralHinge(model, data) if name in HINGE else backend.LogLoss(model, data)
    return getattr(backend, name)(objective, **{"lam": 0.1, LIMITS[name]: 3, **options})


def test_lbfgs_without_a_tolerance_does_its_iterations(backend):
    result = called(backend, "lbfgs", tol=None, iterations=200)
    assert result.success and result.certificate <= 1e-10 * result.fun
    close(result.fun, called(backend, "lbfgs", iterations=200).fun, scale=1e3)


@pytest.mark.parametrize("name", list(LIMITS))
def test_a_lam_without_an_inverse_is_rejected(backend, name):
    with pytest.raises(
        ValueError, match="^lam: expected 0, or a number >= 5.56e-309 whose inverse is finite, got 5e-324"
    ):
        called(backend, name, lam=5e-324)


@pytest.mark.parametrize("name", ["svrg", "casimir"])
def test_features_whose_gradients_overflow_are_said(backend, name):
    with pytest.raises(ValueError, match="^objective: .* is smooth for no constant"):
        called(backend, name, scale=1e300)
    if name == "svrg":
        result = called(backend, name, scale=1e300, step_size=1e-300)
        assert not result.success and result.nit == 1
        assert result.message.startswith("stopped after 1 of 3 epochs: the gap overflows")


@pytest.mark.parametrize("name", ["SequenceModel", "MulticlassModel", "TreeModel"])
def test_models_say_what_they_need(backend, name):
    """7 TiB of costs for a million labels; the weights of a model of 10^13 features are asked for by the objective."""
    with pytest.raises(
        ValueError, match=r"^labels: expected at most 46340, the costs of 1000000 labels take 7.45e\+03 GiB"
    ):
        getattr(backend, name)(1, 10**6)
    model = getattr(backend, name)(10**15, 2)
    data = {"SequenceModel": ([[[0]]], [[0]]), "MulticlassModel": ([[0]], [0])}
    if name in data:
        with pytest.raises(MemoryError, match=f"^model: no room for the weights of {name}"):
            backend.LogLoss(model, model.pack(*data[name]))
