"""Every optimiser: certificates bound the distance to the optimum, found by solvers, by enumeration or by other
learners; it does the same in both panels, in every namespace and dtype, on features of any scale.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import reference
from conformance import finite_sums
from conformance.finite_sums import bracket
from conformance.golden.problems import Problems
from conformance.listed_svm import labelling, svm
from conformance.models.test_models import seeds
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
from conformance.specimens.models import MODELS
from conformance.tolerances import close

LAM = 1 / 64
PROVING = [  # of F + lam/2 ||w||^2; solve_sparse's gaps are held in conformance/screening
    (name, way, None) for name, way in WAYS if name != "solve_sparse" and (name not in LEARNERS or LEARNERS[name].proof)
]

PROVING += [(name, way, slice(3, 9)) for name, way, _ in PROVING if name in ("bcfw", "exponentiated_gradient")]


def bounds_of(objective, way, lam, smooth):
    """A proved lower and upper bound on the optimum, and weights of the upper one."""
    if not smooth:
        return bracket(objective, lam)
    mu, size, where = way.options.get("mu"), objective.model.size, objective.nonnegative
    w = finite_sums.optimum(objective, size, lam, mu, where=where)
    g = objective.value_and_gradient(w, None, mu)[1] + lam * w
    if where is not None:  # where w_i = 0, a slope up bounds nothing
        g[where] = np.where(w[where] > 0, g[where], np.minimum(g[where], 0.0))
    high = finite_sums.total(objective, w, lam, mu)
    return high - g @ g / (2 * lam), high, w


@pytest.mark.parametrize("lam", [1e-3, 0.05, 1e3])
@pytest.mark.parametrize(("name", "way", "where"), PROVING, ids=[f"{case(each[:2])}-{each[2]}" for each in PROVING])
def test_bounds_hold_the_optimum_between_them(backend, rng, name, way, where, lam):
    """In every row: dual <= optimum <= objective, their difference is the gap, duals do not fall where that is
    promised, and lam/2 ||w - w*||^2 <= gap, as the objective is lam-strongly convex. So it is with weights >= 0.
    """
    if "schedule" in way.options:
        lam = way.options["schedule"].lam
    X, Y = labelling(rng, (2, 1, 3, 0), F=2, L=2)
    model = backend.SequenceModel(2, 2)
    model.nonnegative = where
    objective, rows = loss_of(backend, way.loss, model, model.pack(X, Y)), []
    smooth = way.loss in ("log loss", "softmax-margin") or (way.loss == "entropy" and not name.startswith("casimir"))
    low, high, best = bounds_of(objective, way, lam, smooth)
    assert high - low <= 1e-6 * high
    more = {unit(name): 40, **seeded(name, 1), **way.options, "lam": lam}
    result = run(backend, name, objective, callback=lambda row, w: rows.append((row, w)), **more)
    slack = 1e-12 * max(1.0, high)
    for row, w in rows:
        assert where is None or np.all(w[where] >= 0)
        assert row.objective >= low - slack and row.gap >= -slack
        assert 0.5 * lam * np.sum((w - best) ** 2) <= row.gap + (high - low) + 1e-6 * high
        if row.dual is not None:
            assert row.dual <= high + slack
            close(row.gap, row.objective - row.dual)
    assert result.certificate == rows[-1][0].gap and result.fun == rows[-1][0].objective
    if LEARNERS["casimir" if name.startswith("casimir") else name].dual and not way.falls:
        assert np.all(np.diff([0.0, *(row.dual for row, _ in rows)]) >= -slack)
    first, last = rows[0][0], rows[-1][0]
    if lam == 0.05 and not name.startswith("casimir_"):
        assert last.gap <= max(0.5 * first.gap, 0.05 * last.objective)
    if name == "cutting_planes" or (name == "bcfw" and not way.falls and "cached_passes" not in way.options):
        assert result.certificate <= 1e-3 * result.fun


RUNS = {  # of each loss: learners, options that reach a gap, and which gap
    "hinge": (
        ("bcfw", {"epochs": 500}, 1e-4),
        ("cutting_planes", {}, 1e-8),
        *(("multisample", {"epochs": 300, **LEARNERS["multisample"].ways[i].options}, 2e-2) for i in (1, 3, 4)),
        ("exponentiated_gradient", {"epochs": 300}, 0.1),
    ),
    "log loss": (
        ("exponentiated_gradient", {"epochs": 300}, 1e-5),
        ("svrg", {"epochs": 300}, 1e-5),
        ("casimir", {"epochs": 300}, 1e-5),
    ),
    "softmax-margin": (("exponentiated_gradient", {"epochs": 300}, 1e-5), ("svrg", {"epochs": 300}, 1e-5)),
}


@pytest.mark.parametrize("model", ["chain", "trees", "classes", "parsing", "listed"])
@pytest.mark.parametrize("loss", ["hinge", "log loss", "softmax-margin"])
def test_learners_of_a_loss_have_one_optimum(backend, loss, model):
    """No dual of one is above an objective of another, whatever the structure."""
    objective = loss_of(backend, loss, *Problems(backend).model(model))
    lam, results = 0.5, []
    if loss == "log loss":
        results.append(backend.lbfgs(objective, lam=lam, iterations=500, tol=1e-9))
    for name, options, tol in RUNS[loss]:
        results.append(run(backend, name, objective, **{**seeded(name), **options, "lam": lam, "tol": tol}))
        assert results[-1].success and 0 <= results[-1].certificate <= tol * results[-1].fun
    for result in results:
        close(result.fun, finite_sums.total(objective, result.x, lam))
    highest, lowest = max(each.fun - each.certificate for each in results), min(each.fun for each in results)
    assert highest <= lowest + 1e-9


def loss_at(kind, s, a, n):
    """The share of an example in the objective, where a = w_gold = -w_wrong is the weight of its own feature s."""
    if kind == "hinge":
        return max(Fraction(0), 1 - 2 * a * s) / n + Fraction(LAM) * a * a
    norm = 2 * LAM * np.abs(a) if kind == "sparse" else 0
    return np.logaddexp(np.longdouble(0), -2 * a * s) / n + LAM * a * a + norm


def best_weight(kind, s, n):
    if kind == "hinge":
        return min(Fraction(s) / (n * Fraction(LAM)), 1 / (2 * Fraction(s)))
    low, high = np.longdouble(0), np.longdouble(1e3)  # where the derivative changes its sign
    for _ in range(200):
        a = (low + high) / 2
        falls = 2 * LAM * a + (2 * LAM if kind == "sparse" else 0) < 2 * s / n / (1 + np.exp(2 * a * s))
        low, high = (a, high) if falls else (low, a)
    return low


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name, learner in LEARNERS.items() if learner.proof])
def test_a_gap_bounds_the_distance_to_an_exact_optimum(backend, name, dtype):
    """Examples that share no feature: the optimum is a sum of minima over one number, rational for the hinge."""
    proof, seen = LEARNERS[name].proof, []
    kind = "sparse" if name == "solve_sparse" else "log loss" if proof.loss == "log loss" else "hinge"
    for seed, n in ((0, 1), (1, 3), (2, 12)):
        scales = np.random.default_rng(seed).uniform(0.1, 3.0, n).astype(np.float32).astype(np.float64)
        model = backend.MulticlassModel(n, 2)
        data = model.pack(np.diag(scales).astype(dtype), np.zeros(n, int), like=np.zeros(1, dtype))
        F = loss_of(backend, proof.loss, model, data)
        exact = Fraction if kind == "hinge" else np.longdouble
        shares = [exact(float(s)) for s in scales]
        optimum = sum(loss_at(kind, s, best_weight(kind, s, n), n) for s in shares)
        lam = {"beta" if name == "solve_sparse" else "lam": LAM}
        options = {unit(name): 200, **seeded(name), **proof.options, **lam, "tol": 0.0}
        result = run(backend, name, F, callback=lambda row, w, seen=seen: seen.append((row, w)), **options)
        assert result.certificate == result.history[-1].gap and result.x.dtype == dtype
        for row, w in seen:
            # both weights of an example: the objective by its definition, at what the callback got
            pairs = np.asarray(w, np.float64).reshape(n, 2)
            halves = [(exact(float(a - b)) / 2, exact(float(a + b)) / 2) for a, b in pairs]
            value = sum(loss_at(kind, s, a, n) for s, (a, _) in zip(shares, halves, strict=True))
            value += sum(exact(LAM) * c * c for _, c in halves)
            if kind == "sparse":
                value += sum(LAM * (abs(a + c) + abs(c - a) - 2 * abs(a)) for a, c in halves)
            assert row.gap >= 0 and float(value - optimum) <= row.gap
            assert exact(row.objective) - optimum <= row.gap and exact(row.objective) - exact(row.gap) <= optimum
        if name not in ("casimir", "multisample"):  # these get there slowly
            assert result.certificate <= 1e3 * np.finfo(dtype).eps * max(1.0, result.fun)
            assert name == "lbfgs" or result.nit < 200
        seen.clear()


DUAL = [(name, way) for name, way in WAYS if name in LEARNERS and LEARNERS[name].dual]
TAGGED = [(name, way) for name, way in DUAL if name != "cutting_planes"]
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
    agree(*runs, way.scale)


def agree(ours, theirs, scale=1.0):
    for one, two in zip(parts(theirs.x), parts(ours.x), strict=True):
        close(one, two, scale=scale)
    for field in ("objective", "dual", "gap", "oracle_calls"):
        close(*([getattr(row, field) or 0.0 for row in each.history] for each in (theirs, ours)), scale=scale)


def sentences(rng, n):
    """Attributes with values, some in most sentences and some rare; labels that are valid in the scheme bio."""
    X, Y = [], []
    for length in rng.integers(0, 7, n):
        X.append([{f"a{j}": rng.normal() for j in rng.integers(9, size=3)} for _ in range(length)])
        Y.append([])
        for _ in range(length):
            Y[-1].append(str(rng.choice(["B", "I", "O"] if Y[-1] and Y[-1][-1] != "O" else ["B", "O"])))
    return X, Y


@pytest.mark.parametrize("kept", [{}, {"transitions": "bio"}, {"pairs": "all", "transitions": "bio"}, {"least": 5}])
@pytest.mark.parametrize(("name", "way"), TAGGED, ids=map(case, TAGGED))
def test_so_they_do_over_tags(other, rng, name, way, kept):
    """Pairs that have no weight, label sequences that are forbidden."""
    (X, Y), runs = sentences(rng, 12), []
    for b in (reference, other):
        model = b.TaggingModel.of(X, Y, None, **kept)
        options = {"epochs": 3 if name == "multisample" else 8, **seeded(name, 1), **way.options, "lam": 0.05}
        runs.append(run(b, name, loss_of(b, way.loss, model, model.pack(X, Y)), **options))
    agree(*runs, way.scale)


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
@seeds
def test_ties_zeros_and_empty_sequences(backend, name, way, seed):
    """Integer features tie all over: trajectories may differ, bounds may not."""
    problem = MODELS["sequences"].draw(seed, ties=True)
    objective = loss_of(backend, way.loss, *problem.packed(backend))
    passes = {"cutting_planes": 20, "multisample": 2}.get(name, 4)
    result = run(backend, name, objective, **{unit(name): passes, **seeded(name), **way.options, "lam": 0.5})
    x, mu = result.x, way.options.get("mu") if name == "exponentiated_gradient" else None
    if way.loss == "hinge":
        close(result.fun, svm(problem, 0.5).primal(x))
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
