"""What is wrong with an argument is said in its own name, by every optimiser: options of a wrong type, out of range,
without a meaning together; objectives that it is not for.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.finite_sums import Quadratic
from conformance.optimizers.table import OPTIMISERS, chains, loss_of, objective_of, run, short, takes
from reference.bounds import Corollary17

LEAST = {"epochs": 0, "iterations": 0, "cached_passes": 0, "batch_size": 1, "memory": 1, "capacity": 1}
LEAST |= {"evaluate_every": 1, "k": 1, "budget": 1}
NUMBERS = ("lam", "mu", "tol", "step_size", "kappa", "accuracy", "sigma", "radius", "eta", "L", "tolerance", "alpha")
NUMBERS += ("beta", "gamma")
DUAL = ("bcfw", "exponentiated_gradient", "multisample", "cutting_planes")
POSITIVE = ("step_size", "kappa", "radius", "eta", "L", "tolerance", "beta")
# what any value but these gets, by option: the values, and what is said of each
OTHERS = {
    "w0": (("a", "1"), "TypeError: w0: expected real numbers, got <U1"),
    "rng": (("a", "1"), "TypeError: rng: expected an integer >= 0, a numpy.random.Generator or None, got '"),
    "callback": (("a", 1), "TypeError: callback: expected a callable, got "),
    "checkpoint": ((3,), "TypeError: checkpoint: expected the path of a file, got int"),
    "resume": ((3,), "TypeError: resume: expected the path of a file, got int"),
}


def answer(call):
    """What a call says that should be refused."""
    try:
        call()
    except (TypeError, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return "nothing"


def wrong(name, option):
    """Values that no optimiser takes for an option, and what is said of each."""
    if option in LEAST:
        expected = f"{option}: expected an integer >= {LEAST[option]}, got "
        none = () if option == "budget" else (None,)
        yield from ((value, f"TypeError: {expected}{value!r}") for value in ("a", "1", 1.5, True, *none))
        yield LEAST[option] - 1, f"ValueError: {expected}{LEAST[option] - 1}"
    elif option in NUMBERS:
        none = (None,) if option == "lam" and name != "mkl" else ()
        for value in ("a", "1", True, np.ones(1), np.array([1.0, 2.0]), *none):
            yield value, f"TypeError: {option}: expected a number, got {type(value).__name__}"
        made = option == "step_size" and name in ("sgd", "online_proximal", "mkl")  # into a schedule
        zero = (0.0,) if option in POSITIVE or (option == "lam" and name in DUAL) else ()
        for value in (-1.0, np.nan, *zero):
            yield value, f"ValueError: {'gamma0' if made else option}: "
    elif option in OTHERS:
        values, said = OTHERS[option]
        yield from ((value, said) for value in values)
        if option == "rng":
            yield -1, "ValueError: rng: expected an integer >= 0, got -1"


@pytest.mark.parametrize("name", OPTIMISERS)
def test_options_of_a_wrong_type_or_out_of_range_are_named(backend, name):
    """A string is no number, no seed and no function; a truth value and an array are no numbers."""
    objective = objective_of(backend, name)
    for option in takes(name):
        for value, said in wrong(name, option):
            told = answer(lambda option=option, value=value: short(backend, name, objective, 1, **{option: value}))
            assert told.startswith(said), (option, value, told)


THEORY = {"schedule": "theory", "kappa": None, "step_size": None}
# optimiser, options, what is said
REFUSED = [
    ("sgd", {"lam": 0.0}, "ValueError: step_size: lam = 0 has no default step size"),
    ("sgd", {"average": "mean"}, "ValueError: average: expected one of last, uniform, weighted, got 'mean'"),
    *(
        ("sgd", {"step_size": steps}, "ValueError: step_size: expected 5 finite steps >= 0")
        for steps in (lambda t, lam: np.full(1, 0.1), lambda t, lam: 0.1, lambda t, lam: -t, lambda t, lam: np.nan * t)
    ),
    ("svrg", {"average": "weighted"}, "ValueError: average: expected one of last, uniform, got 'weighted'"),
    ("svrg", {"lam": 0.0, "tol": 1e-3}, "ValueError: tol: expected a number >= 0, and lam > 0"),
    ("svrg", {"mu": None}, "ValueError: mu: svrg needs a smooth objective: give mu > 0"),
    ("svrg", {"mu": 0.0}, "ValueError: mu: svrg needs a smooth objective: give mu > 0"),
    ("casimir", {"inner": "sgd"}, "ValueError: inner: expected one of svrg, saga, gradient, or a function, got 'sgd'"),
    ("casimir", {"inner": ["svrg"]}, "ValueError: inner: expected one of svrg, saga, gradient, or a function"),
    ("casimir", {"stop": "never"}, "ValueError: stop: expected one of budget, gradient"),
    ("casimir", {"warm_start": "zero"}, "ValueError: warm_start: expected one of center, last, extrapolated"),
    ("casimir", {"lam": 0.0, "tol": 0.1}, "ValueError: tol: expected a number >= 0, and lam > 0"),
    ("casimir", {"mu": 0.0}, "ValueError: mu: expected a finite number > 0"),
    ("casimir", THEORY | {"mu": None}, "ValueError: accuracy: schedule='theory' needs a finite number > 0"),
    ("casimir", THEORY | {"accuracy": 0.1}, "ValueError: mu: schedule='theory' has its own"),
    ("casimir", {"accuracy": 0.1}, "ValueError: accuracy: only schedule='theory' takes one"),
    ("casimir", {"schedule": "adapt", "accuracy": 0.1}, "ValueError: accuracy: only schedule='theory' takes one"),
    ("casimir", {"schedule": Corollary17(0.1, 1.0, 1.0), "mu": None}, "ValueError: kappa: the schedule has its own"),
    (
        "casimir",
        {"schedule": "fast", "mu": None, "kappa": None},
        "ValueError: schedule: expected 'const', 'adapt', 'theory' or an object",
    ),
    ("bcfw", {"average": "uniform"}, "ValueError: average: expected one of last, weighted, got 'uniform'"),
    ("exponentiated_gradient", {"sampling": "most"}, "ValueError: sampling: expected one of gains, permutation, got"),
    ("exponentiated_gradient", {"step_size": 2.0}, "ValueError: step_size: expected at most 1 for mu > 0, got 2"),
    ("multisample", {"sampler": "best"}, "ValueError: sampler: expected one of topk, gibbs or a callable, got 'best'"),
    ("multisample", {"update": "all"}, "ValueError: update: expected one of moves, exact, got 'all'"),
    ("multisample", {"average": "weighted"}, "ValueError: average: expected one of last, uniform, got 'weighted'"),
    ("multisample", {"mu": 0.0}, "ValueError: mu: expected a finite number > 0"),
    ("online_proximal", {"regularizer": 3.0}, "TypeError: parts: expected a sequence of regularizers, got 3.0"),
    ("online_proximal", {"regularizer": []}, "ValueError: parts: expected at least one"),
    ("online_proximal", {"regularizer": ["l1"]}, "TypeError: parts[0]"),
    ("online_proximal", {"step_size": lambda t, sigma: t[:1]}, "ValueError: step_size: expected 5 finite steps"),
    ("online_proximal", {"project": "ball"}, "TypeError: project: expected the indicator of a set"),
    ("online_proximal", {"average": "weighted"}, "ValueError: average: expected one of last, uniform, got 'weighted'"),
    ("prox_linear", {"schedule": "best"}, "ValueError: schedule: expected one of const, adapt"),
    ("prox_linear", {"accept": "never"}, "ValueError: accept: expected one of decrease, always"),
    ("prox_linear", {"mu": 0.0}, "ValueError: mu: expected a finite number > 0"),
    (
        "prox_linear",
        {"inner": lambda problem: None},
        "TypeError: inner: expected a function that returns a Result, got",
    ),
    ("prox_linear", {"inner": "svrg"}, "TypeError: inner: expected a function"),
    ("solve_sparse", {"gamma": 1.0}, "ValueError: gamma: expected a number in (0, 1), got 1.0"),
    ("solve_sparse", {"solver": "newton"}, "TypeError: solver: expected an object with start, step and narrow"),
    ("mkl", {"lam": None}, "ValueError: lam: expected a number >= 0, or a penalty in its place"),
    ("mkl", {"loss": "svm"}, "ValueError: loss: expected hinge or crf, got 'svm'"),
    ("mkl", {"penalty": 3}, "TypeError: penalty: expected a Regularizer such as SquaredL1(0.1), got 3"),
    ("mkl", {"average": "weighted"}, "ValueError: average: expected one of last, uniform, got 'weighted'"),
]


@pytest.mark.parametrize("name", {name: None for name, *_ in REFUSED})
def test_what_an_option_does_not_mean_is_said(backend, name):
    objective = objective_of(backend, name)
    for options, said in ((options, said) for other, options, said in REFUSED if other == name):
        told = answer(lambda options=options: short(backend, name, objective, 1, **options))
        assert told.startswith(said), (options, told)


# optimiser, smoothing or loss, mu if there is one, what is said
NOT_FOR = [
    *(
        (name, smoothing, None, f"ValueError: objective: {name} solves the unsmoothed hinge, expected StructuralHinge")
        for name in ("bcfw", "multisample", "cutting_planes")
        for smoothing in ("Entropy", "SquaredL2", "TopK")
    ),
    ("bcfw", "log loss", None, "UnsupportedError: LogLoss has no corners"),
    ("multisample", "log loss", None, "UnsupportedError: LogLoss has no corners"),
    ("cutting_planes", "log loss", None, "UnsupportedError: objective: cutting_planes needs planes with a task loss"),
    (
        "exponentiated_gradient",
        "TopK",
        1.0,
        "ValueError: objective: the dual at mu = 1 is that of smoothing=Entropy(), got smoothing=TopK",
    ),
    ("svrg", "hinge", None, "ValueError: mu: svrg needs a smooth objective: give mu > 0, and the hinge a smoothing"),
    ("svrg", "hinge", 0.5, "ValueError: objective: svrg needs a smoothing at mu = 0.5"),
    ("casimir", "hinge", None, "ValueError: objective: casimir needs a smoothing"),
    ("prox_linear", "hinge", None, "ValueError: objective: casimir, which solves the subproblems, needs a smoothing"),
    ("prox_linear", "log loss", 7.0, "ValueError: mu: LogLoss has no smoothing"),
]


def objective_with(backend, kind):
    model, data = chains(backend)
    if kind not in ("Entropy", "SquaredL2", "TopK"):
        return loss_of(backend, kind, model, data)
    make = getattr(backend.smoothings, kind)
    return backend.StructuralHinge(model, data, smoothing=make(3) if kind == "TopK" else make())


@pytest.mark.parametrize("name", {name: None for name, *_ in NOT_FOR})
def test_losses_that_an_optimiser_is_not_for(backend, name):
    for kind, mu, said in ((kind, mu, said) for other, kind, mu, said in NOT_FOR if other == name):
        told = answer(
            lambda kind=kind, mu=mu: run(
                backend, name, objective_with(backend, kind), **{} if mu is None else {"mu": mu}
            )
        )
        assert told.startswith(said), (kind, mu, told)
        assert kind != "hinge" or "smoothing=Entropy()" in told


@pytest.mark.parametrize("name", [name for name in OPTIMISERS if name != "mkl"])
def test_what_is_no_objective_is_named(backend, name):
    options = {"regularizer": backend.L1(0.1), "step_size": 0.1} if name == "online_proximal" else {}
    for objective in ([1.0, 2.0], object(), None):
        told = answer(lambda objective=objective: run(backend, name, objective, **options))
        assert told.startswith("TypeError: objective: ") and type(objective).__name__ in told, told


@pytest.mark.parametrize("name", ["lbfgs", "sgd", "svrg", "casimir", "online_proximal"])
def test_a_sum_without_zeros_needs_a_start(backend, rng, name):
    objective = WithoutZeros(rng.normal(size=(5, 3)))
    options = {"regularizer": backend.L1(0.1), "step_size": 0.1} if name == "online_proximal" else {}
    told = answer(lambda: run(backend, name, objective, **options))
    assert told.startswith("ValueError: w0: give one, the objective has no zeros()")
    assert run(backend, name, objective, np.zeros(3), **options).x.shape == (3,)


class WithoutZeros(Quadratic):
    """A user's finite sum with the two things that the optimisers ask for, and no more."""

    zeros = property()  # no attribute
