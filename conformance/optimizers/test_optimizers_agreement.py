"""Every optimiser does the same everywhere: in both panels, in every namespace and dtype, on features of any scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import strategies
from conformance.listed_svm import labelling, listed_problem
from conformance.models.test_models import sequence_model
from conformance.models.test_nonlinear_models import two_layer
from conformance.specimens.learners import (
    LEARNERS,
    WAYS,
    case,
    kernels,
    loss_of,
    nonlinear,
    objective_of,
    parts,
    run,
    seeded,
    short,
    takes,
    unit,
    value,
)
from conformance.tolerances import close

DUAL = [(name, way) for name, way in WAYS if name in LEARNERS and LEARNERS[name].dual]
TAGGED = [(name, way) for name, way in DUAL if name in ("bcfw", "exponentiated_gradient")]
ways, duals = (pytest.mark.parametrize(("name", "way"), each, ids=map(case, each)) for each in (WAYS, DUAL))


def words(backend, kind, X, Y, L):
    model = backend.SequenceModel(X[0].shape[1], L)
    return loss_of(backend, kind, model, model.pack(X, Y))


@ways
def test_panels_take_the_same_steps(other, rng, name, way):
    """Real features: from the same start and orders, the same weights, rows and calls to rounding."""
    (X, Y), runs = labelling(rng, (5, 1, 6, 0, 4, 6, 2), L=4), []
    for b in (reference, other):
        made = loss_of(b, way.loss, *nonlinear(b)) if name == "prox_linear" else words(b, way.loss, X, Y, 4)
        objective = kernels(b) if name == "mkl" else made
        start = [np.random.default_rng(4).normal(size=objective.model.size)] if "w0" in takes(name) else []
        more = {"regularizer": b.SquaredL21(0.1, np.arange(made.model.size) // 18)} if name == "online_proximal" else {}
        passes = 3 if name == "multisample" else 6
        runs.append(run(b, name, objective, *start, **{unit(name): passes, **seeded(name, 4), **way.options, **more}))
    ours, theirs = runs
    for one, two in zip(parts(theirs.x), parts(ours.x), strict=True):
        close(one, two, scale=way.scale)
    for field in ("objective", "dual", "gap", "oracle_calls"):
        close(*([getattr(row, field) or 0.0 for row in each.history] for each in (theirs, ours)), scale=way.scale)


def sentences(rng, n):
    """Attributes with values, some in most sentences and some rare; labels that are valid in the scheme bio."""
    X, Y = [], []
    for _ in range(n):
        length, before = int(rng.integers(0, 7)), "O"
        X.append([{f"a{j}": rng.normal() for j in rng.integers(9, size=3)} for _ in range(length)])
        Y.append([])
        for _ in range(length):
            before = str(rng.choice(["B", "O"] if before == "O" else ["B", "I", "O"]))
            Y[-1].append(before)
    return X, Y


@pytest.mark.parametrize("kept", [{}, {"transitions": "bio"}, {"pairs": "all", "transitions": "bio"}, {"least": 5}])
@pytest.mark.parametrize(("name", "way"), TAGGED, ids=map(case, TAGGED))
def test_so_they_do_over_tags(other, rng, name, way, kept):
    """Pairs that have no weight, label sequences that are forbidden."""
    (X, Y), runs = sentences(rng, 12), []
    for b in (reference, other):
        model = b.TaggingModel.of(X, Y, None, **kept)
        options = {"epochs": 8, **seeded(name, 1), **way.options, "lam": 0.05}
        runs.append(run(b, name, loss_of(b, way.loss, model, model.pack(X, Y)), **options))
    ours, theirs = runs
    close(theirs.x, ours.x)
    close(*([(row.objective, row.dual) for row in each.history] for each in (theirs, ours)))


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
    *((name, None, {}) for name in LEARNERS),
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
        made = two_layer(backend, np.random.default_rng(2), like) if name == "prox_linear" else None
        runs.append(short(backend, name, objective_of(backend, name, like, kind, made), 3, **options))
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


@duals
@given(problem=strategies.sequence_problems(integer=True))
def test_ties_zeros_and_empty_sequences(backend, name, way, problem):
    """Integer features tie all over: trajectories may differ, bounds may not."""
    objective = loss_of(backend, way.loss, *sequence_model(backend, problem))
    passes = {"cutting_planes": 20, "multisample": 2}.get(name, 4)
    result = run(backend, name, objective, **{unit(name): passes, **seeded(name), **way.options, "lam": 0.5})
    x, mu = result.x, way.options.get("mu") if name == "exponentiated_gradient" else None
    if way.loss == "hinge":
        close(result.fun, listed_problem(problem, 0.5).primal(x))
    else:
        close(result.fun, objective.value_and_gradient(x, None, mu)[0] + 0.25 * x @ x)
    assert min(row.gap for row in result.history) >= -1e-9
    assert way.falls or np.all(np.diff([row.dual for row in result.history]) >= -1e-9)


SCALES = [1e-300, 1e-150, 1e-3, 1e3, 1e150, 1e300, 1e308]
SCALED = [  # exponentiated gradient: no gradients that overflow; steps of given lengths fit no scale
    (name, way, scale)
    for name, way in DUAL
    for scale in (SCALES[1:4] if name == "exponentiated_gradient" else SCALES)
    if "line_search" not in way.options
]


@pytest.mark.parametrize(("name", "way", "scale"), SCALED, ids=case)
def test_features_of_any_scale(backend, rng, name, way, scale):
    """Squares overflow or vanish; what is returned is finite and certified all the same."""
    X, Y = labelling(rng, (2, 3, 1))
    objective = words(backend, way.loss, [scale * np.clip(x, -1, 1) for x in X], Y, 3)
    result = run(backend, name, objective, **{"epochs": 5, **seeded(name), **way.options})
    assert np.all(np.isfinite(result.x)) and np.isfinite(result.fun) and "diverged" not in result.message
    assert min(row.gap for row in result.history) >= -1e-9 and result.history[0].dual >= -1e-9
    assert way.falls or np.all(np.diff([row.dual for row in result.history]) >= -1e-9)
