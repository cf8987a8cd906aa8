"""Every optimiser does the same everywhere: in both panels, in every namespace and dtype, on features of any scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import strategies
from conformance.listed_svm import hinge, labelling, listed_problem
from conformance.models.test_models import sequence_model
from conformance.optimizers.table import OPTIMISERS, loss_of, objective_of, parts, run, short, takes, value
from conformance.optimizers.test_multisample import OPTIONS
from conformance.tolerances import close

# optimiser, the loss, options of so many passes, how far weights may part
SAME = [
    *(
        ("bcfw", "hinge", 6, {"lam": 0.01, **options}, 1.0)
        for options in (
            {"average": "weighted"},
            {"capacity": 2},
            {"capacity": 3, "cached_passes": 1, "average": "weighted"},
        )
    ),  # and more outputs than first had room
    ("bcfw", "hinge", 30, {"lam": 0.01, "cached_passes": 0, "average": "weighted", "line_search": False}, 1.0),
    ("exponentiated_gradient", "log loss", 6, {"lam": 0.05}, 1.0),
    ("exponentiated_gradient", "entropy", 6, {"lam": 0.05, "mu": 0.4}, 1.0),
    ("exponentiated_gradient", "hinge", 6, {"lam": 0.05}, 1.0),
    *(("multisample", "hinge", 3, {"lam": 0.05, **options}, 100.0) for options in OPTIONS),
    ("cutting_planes", "hinge", 12, {"lam": 0.05}, 100.0),
    ("casimir", "entropy", 6, {}, 1.0),
    ("casimir", "top-k", 6, {}, 100.0),
    ("online_proximal", "log loss", 5, {"average": "last", "mu": None}, 1.0),
    ("online_proximal", "log loss", 5, {"average": "uniform", "mu": None}, 1.0),
]


def words(backend, kind, X, Y, L):
    model = backend.SequenceModel(X[0].shape[1], L)
    if kind == "top-k":
        return backend.StructuralHinge(model, model.pack(X, Y), smoothing=backend.smoothings.TopK(3))
    return loss_of(backend, kind, model, model.pack(X, Y))


@pytest.mark.parametrize("case", SAME, ids=lambda case: f"{case[0]}-{case[1]}-{'-'.join(map(str, case[3].values()))}")
def test_panels_take_the_same_steps(other, rng, case):
    """Real features: from the same start and orders, the same weights, rows and calls to rounding."""
    name, kind, passes, options, scale = case
    (X, Y), runs = labelling(rng, (5, 1, 6, 0, 4, 6, 2), L=4), []
    for b in (reference, other):
        objective, more = words(b, kind, X, Y, 4), dict(options)
        start = [np.random.default_rng(4).normal(size=objective.model.size)] if "w0" in takes(name) else []
        if name == "online_proximal":
            groups = np.split(np.arange(objective.model.size), 2)
            more |= {"regularizer": b.SquaredL21(0.1, groups), "step_size": b.steps.InverseSqrt(0.3)}
        runs.append(short(b, name, objective, passes, *start, **more))
    ours, theirs = runs
    close(theirs.x, ours.x, scale=scale)
    for field in ("objective", "dual", "gap", "oracle_calls"):
        close(*([getattr(row, field) or 0.0 for row in each.history] for each in (theirs, ours)), scale=scale)


@pytest.mark.parametrize(
    ("name", "kind", "every", "passes"),
    [("bcfw", "hinge", 100, 3), ("exponentiated_gradient", "log loss", 300, 5)],
)
def test_panels_agree_on_letters(other, name, kind, every, passes):
    letters, runs = reference.load_letters().take(np.arange(0, 6000, every)), []
    for b in (reference, other):
        runs.append(short(b, name, words(b, kind, letters.X, letters.Y, letters.labels), passes, lam=0.01))
    close(runs[1].x, runs[0].x)
    close(runs[1].history[-1].dual, runs[0].history[-1].dual)


# optimiser, the loss (None: of the table), more options
EVERYWHERE = [
    *((name, None, {}) for name in OPTIMISERS),
    ("sgd", "log loss", {"mu": None}),
    ("lbfgs", "log loss", {"mu": None}),
    ("svrg", "log loss", {"mu": None, "step_size": None, "average": "uniform", "tol": 1e-3}),
    ("casimir", None, {"inner": "saga"}),
    ("casimir", None, {"inner": "gradient"}),
    ("bcfw", None, {"cached_passes": 0, "average": "weighted"}),
    ("exponentiated_gradient", "log loss", {"sampling": "permutation", "step_size": 0.3}),
    ("exponentiated_gradient", "entropy", {"sampling": "permutation", "step_size": 0.3, "mu": 0.4}),
    ("exponentiated_gradient", "hinge", {"sampling": "permutation", "step_size": 0.3}),
    ("multisample", None, {"sampler": "gibbs", "k": 3}),
    ("solve_sparse", None, {"alpha": 0.0}),
]


@pytest.mark.parametrize("case", EVERYWHERE, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[2].values()))}")
def test_runs_in_every_namespace(backend, space, case):
    """Weights are where the data are, and as good as those that NumPy finds in float64."""
    name, kind, options = case
    runs = []
    for like in (None, space.put(0.0)):
        runs.append(short(backend, name, objective_of(backend, name, like, kind), 3, **options))
    plain, there = runs
    rounded = name == "bcfw" and space.dtype == "float32" and "cached_passes" not in options  # then pairs tie
    for got, want in zip(parts(there.x), parts(plain.x), strict=True):
        found = space.get(got)
        assert found.dtype == space.dtype and found.shape == want.shape
        if not rounded:
            close(found, want, space.dtype, 50.0 if space.dtype == "float32" else None)
    if rounded:
        x = space.get(there.x).astype(np.float64)
        close(there.fun, value(name, objective_of(backend, name), x), space.dtype)
    else:
        close(there.fun, plain.fun, space.dtype)
    assert isinstance(there.certificate, str) or there.certificate >= -1e-5


# of methods that keep a dual: passes, and options of which each holds
DUAL = {"bcfw": (3, [{}, {"cached_passes": 0}]), "multisample": (2, OPTIONS), "cutting_planes": (60, [{"tol": 1e-6}])}


@pytest.mark.parametrize("name", DUAL)
@given(problem=strategies.sequence_problems(integer=True), data=st.data())
def test_ties_zeros_and_empty_sequences(backend, name, problem, data):
    """Integer features tie all over: trajectories may differ, bounds may not."""
    passes, options = DUAL[name]
    model, packed = sequence_model(backend, problem)
    objective, options = backend.StructuralHinge(model, packed), data.draw(st.sampled_from(options))
    result = short(backend, name, objective, passes, lam=0.5, **{"tol": 0.0, **options})
    close(result.fun, listed_problem(problem, 0.5).primal(result.x))
    assert result.certificate >= -1e-9 and np.all(np.diff([row.dual for row in result.history]) >= -1e-9)
    assert result.success or name != "cutting_planes"


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300, 1e308])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bcfw", {"average": "weighted"}),
        ("bcfw", {"average": "last"}),
        ("multisample", {"update": "moves"}),
        ("multisample", {"update": "exact"}),
        ("cutting_planes", {}),
    ],
)
def test_features_of_any_scale(backend, rng, name, options, scale):
    """Squares overflow or vanish; what is returned is finite and certified all the same."""
    X, Y = labelling(rng, (2, 3, 1))
    objective = hinge(backend, [scale * np.clip(x, -1, 1) for x in X], Y)
    result = run(backend, name, objective, epochs=5, tol=0.0, **options, **({"rng": 0} if "rng" in takes(name) else {}))
    assert np.all(np.isfinite(result.x)) and np.isfinite(result.fun) and result.certificate >= -1e-9
    assert result.history[-1].dual >= -1e-9
