"""What a learner or an objective is not for is said in its own name: options without a meaning together, losses,
scores, weights, numbers at the ends of their ranges.

Ranges and choices of single options are refused as their annotations say: ``conformance/project/test_declared.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.finite_sums import Quadratic
from conformance.specimens.learners import LEARNERS, chains, loss_of, nonlinear, objective_of, run, short, takes
from reference import UnsupportedError
from reference.weighted import Weighted

PLAIN = [name for name, learner in LEARNERS.items() if learner.plain]
LINEAR = [name for name, learner in LEARNERS.items() if learner.linear and name not in ("mkl", "solve_sparse")]


def answer(call):
    """What a call says that should be refused."""
    try:
        call()
    except (TypeError, ValueError, UnsupportedError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return "nothing"


def own_options(backend, name):
    """What has no default, and fits any objective."""
    return {"regularizer": backend.L1(0.1), "step_size": 0.1} if name == "online_proximal" else {}


OTHERS = {  # options that are neither numbers nor choices: values that no learner takes, and what is said of them
    "w0": (("a", "1"), "TypeError: w0: expected real numbers, got <U1"),
    "rng": (("a", "1", -1), "Error: rng: expected an integer >= 0, "),
    "callback": (("a", 1), "TypeError: callback: expected a callable, got "),
    "checkpoint": ((3,), "TypeError: checkpoint: expected the path of a file, got int"),
    "resume": ((3,), "TypeError: resume: expected the path of a file, got int"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_options_of_a_wrong_type_are_named(backend, name):
    """A string is no start, no seed and no function, a number no path."""
    objective = objective_of(backend, name)
    for option in OTHERS.keys() & takes(name):
        values, said = OTHERS[option]
        for value in values:
            told = answer(lambda option=option, value=value: short(backend, name, objective, 1, **{option: value}))
            assert said in told, (option, value, told)


@pytest.mark.parametrize("name", [name for name, learner in LEARNERS.items() if learner.wrong])
def test_what_an_option_does_not_mean_is_said(backend, name):
    objective = objective_of(backend, name)
    for options, said in LEARNERS[name].wrong:
        told = answer(lambda options=options: short(backend, name, objective, 1, **options))
        assert told.startswith(said), (options, told)


@pytest.mark.parametrize("name", [name for name, learner in LEARNERS.items() if learner.refuses])
def test_losses_that_a_learner_is_not_for(backend, name):
    for loss, mu, said in LEARNERS[name].refuses:
        options = {} if mu is None else {"mu": mu}
        objective = loss_of(backend, loss, *chains(backend))
        told = answer(lambda objective=objective, options=options: run(backend, name, objective, **options))
        assert told.startswith(said), (loss, mu, told)


@pytest.mark.parametrize("name", LINEAR)
def test_convex_methods_refuse_what_is_not_convex(backend, name):
    objective = loss_of(backend, LEARNERS[name].loss, *nonlinear(backend))
    weighted = [] if name == "exponentiated_gradient" else [Weighted(objective, np.ones(4))]
    for each in (objective, *weighted):
        with pytest.raises(ValueError, match=f"not linear in the weights, and {name} needs a convex objective"):
            run(backend, name, each, **own_options(backend, name))


@pytest.mark.parametrize("name", [*LINEAR, "sgd", "lbfgs"])
def test_constraints_are_kept_or_refused(backend, name):
    """Weights that must be >= 0."""
    model, data = chains(backend)
    model.nonnegative = slice(1, 4)
    objective = loss_of(backend, LEARNERS[name].loss, model, data)
    if LEARNERS[name].constrained:
        assert np.all(short(backend, name, objective, 3).x[1:4] >= 0)
        return
    said = rf"weights 1..3 must be >= 0, which {name} does not support; use bcfw or sgd"
    with pytest.raises(ValueError, match=said):
        short(backend, name, objective, 3)


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "mkl"])
def test_what_is_no_objective_is_named(backend, name):
    """A sum of the user's is none for those that need a model."""
    sums = [] if LEARNERS[name].plain else [Quadratic(np.ones((2, 3)))]
    for objective in ([1.0, 2.0], object(), None, chains(backend)[0], *sums):
        told = answer(lambda objective=objective: run(backend, name, objective, **own_options(backend, name)))
        assert told.startswith("TypeError: objective: ") and type(objective).__name__ in told, told


@pytest.mark.parametrize("name", PLAIN)
def test_a_sum_without_zeros_needs_a_start(backend, rng, name):
    objective = WithoutZeros(rng.normal(size=(5, 3)))
    told = answer(lambda: run(backend, name, objective, **own_options(backend, name)))
    assert told.startswith("ValueError: w0: give one, the objective has no zeros()")
    assert run(backend, name, objective, np.zeros(3), **own_options(backend, name)).x.shape == (3,)


class WithoutZeros(Quadratic):
    """A user's finite sum with the two things that the optimisers ask for, and no more."""

    zeros = property()  # no attribute


@pytest.mark.parametrize("name", [name for name in LEARNERS if "lam" in takes(name) and name != "mkl"])
def test_a_lam_without_an_inverse_is_rejected(backend, name):
    expected = "^lam: expected 0, or a number >= 5.56e-309 whose inverse is finite, got 5e-324"
    with pytest.raises(ValueError, match=expected):
        short(backend, name, objective_of(backend, name), 3, lam=5e-324)


@pytest.mark.parametrize("name", ["svrg", "casimir"])
def test_features_whose_gradients_overflow_are_said(backend, name):
    model, _ = chains(backend)
    huge = model.pack([1e300 * np.ones((n, 3)) for n in (2, 3)], [[0, 1], [2, 0, 1]])
    objective = backend.LogLoss(model, huge)
    with pytest.raises(ValueError, match="^objective: .* is smooth for no constant"):
        run(backend, name, objective, epochs=3)
    if name == "svrg":
        result = run(backend, name, objective, epochs=3, step_size=1e-300)
        assert not result.success and result.nit == 1
        assert result.message.startswith("stopped after 1 of 3 epochs: the gap overflows")
