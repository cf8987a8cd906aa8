"""The learners: a short run of each on a small problem, ways to run it, what it refuses, what it promises.

The laws of runs stand once, in ``conformance/optimizers``, and run over this table and the two panels.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np

import reference
from conformance.sines import sines
from reference.bounds import Corollary17, Corollary18
from reference.online_mkl.rounds import KernelProblem
from reference.steps import InverseSqrt, Pegasos

LAM = 0.1  # of every run, unless a test says otherwise
SHORT, WITH_EMPTY = (2, 3, 1, 3, 2), (2, 4, 1, 3, 0)  # lengths of sequences
LOSSES = {"hinge": "Max", "entropy": "Entropy", "l2": "SquaredL2", "top-k": "TopK"}  # by the hinge's smoothing


class Way(NamedTuple):
    """Options of a run, and the loss; ways of one learner have states of different forms. falls: whether its dual may
    fall. scale: of its rounding, where the panels are compared.
    """

    options: dict[str, Any]
    loss: str
    falls: bool = False
    scale: float = 1.0


class Learner(NamedTuple):
    """What is known of a learner.

    loss, options: of a short run that no tolerance ends. calls: its oracle calls for each example, before the passes
    and in each; None where a search decides. too_long: options of steps that no run survives. proof: the loss and the
    options of a run that proves a gap; dual: its dual is 0 at the start. constrained: whether it keeps weights >= 0.
    linear: whether it needs scores that are linear in the weights. plain: whether it takes a sum of the user's. ways:
    see :class:`Way`. wrong: options without a meaning, and what is said of them. refuses: losses that it is not for,
    with mu, and what is said.
    """

    loss: str
    options: dict[str, Any]
    calls: tuple[int, int] | None = (0, 1)
    too_long: dict[str, Any] | None = None
    proof: Way | None = None
    dual: bool = False
    constrained: bool = False
    linear: bool = True
    plain: bool = False
    ways: tuple[Way, ...] = ()
    wrong: tuple[tuple[dict[str, Any], str], ...] = ()
    refuses: tuple[tuple[str, float | None, str], ...] = ()


LONG, NO_CACHE = {"step_size": 1e200}, {"cached_passes": 0}
THEORY, FREE = {"schedule": "theory", "kappa": None, "step_size": None}, {"mu": None, "kappa": None}
SMOOTH = "ValueError: mu: svrg needs a smooth objective: give mu > 0"
ENTROPY = "needs a smoothing, such as StructuralHinge(model, data, smoothing=Entropy())"
LOG_LOSS = "ValueError: mu: the log loss is defined at mu = 1, got 2.0; StructuralHinge(smoothing=Entropy()) takes any"
NO_LAM = "ValueError: lam: Pegasos steps 1/(lam t) need lam > 0, got 0.0"
WRONG_STEPS = (lambda t, lam: np.full(1, 0.1), lambda t, lam: 0.1, lambda t, lam: -t, lambda t, lam: np.nan * t)


def _hinge_alone(name: str, needs: str = "LogLoss has no corners") -> tuple[tuple[str, None, str], ...]:
    """What a learner of the unsmoothed hinge says of other losses."""
    said = f"ValueError: objective: {name} solves the unsmoothed hinge, expected StructuralHinge"
    smoothed = ((loss, None, said) for loss in ("entropy", "l2", "top-k"))
    return (*smoothed, *((loss, None, f"UnsupportedError: {needs}") for loss in ("log loss", "softmax-margin")))


def _hinge(*options: dict[str, Any], **more: Any) -> tuple[Way, ...]:
    return tuple(Way({"tol": None, **each}, "hinge", **more) for each in options)


LEARNERS = {
    "sgd": Learner(
        "entropy",
        {"mu": 0.5},
        None,
        LONG,
        constrained=True,
        linear=False,
        plain=True,
        ways=(
            Way({"average": "weighted"}, "log loss"),
            Way({"average": "weighted"}, "softmax-margin"),
            Way({"average": "last", "batch_size": 2, "step_size": 0.1}, "hinge"),
        ),
        wrong=(
            ({"lam": 0.0}, "ValueError: step_size: lam = 0 has no default step size"),
            ({"lam": 0.0, "step_size": Pegasos()}, NO_LAM),
            *(({"step_size": steps}, "ValueError: step_size: expected 5 finite steps >= 0") for steps in WRONG_STEPS),
        ),
        refuses=(("log loss", 2.0, LOG_LOSS),),
    ),
    "online_proximal": Learner(
        "entropy",
        {"mu": 0.5, "step_size": 0.2},
        too_long={"sigma": 1.0, **LONG},
        plain=True,
        ways=(
            Way({"step_size": 0.2, "average": "uniform"}, "log loss"),
            Way({"step_size": 0.1, "sigma": 0.2, "batch_size": 2}, "hinge"),
            Way({"step_size": InverseSqrt(0.3)}, "log loss"),
            Way({"step_size": 0.2}, "softmax-margin"),
        ),
        wrong=(
            ({"regularizer": 3.0}, "TypeError: parts: expected a sequence of regularizers, got 3.0"),
            ({"regularizer": ["l1"]}, "TypeError: parts[0]"),
            ({"step_size": lambda t, sigma: t[:1]}, "ValueError: step_size: expected 5 finite steps"),
            ({"step_size": Pegasos()}, NO_LAM),
            ({"project": "ball"}, "TypeError: project: expected the indicator of a set"),
        ),
    ),
    "svrg": Learner(
        "entropy",
        {"mu": 0.5, "step_size": 0.05},
        (0, 2),
        LONG,
        Way({}, "log loss"),
        plain=True,
        ways=(Way({}, "log loss"), Way({}, "softmax-margin"), Way({"mu": 0.3, "average": "uniform"}, "entropy")),
        wrong=(
            ({"lam": 0.0, "tol": 1e-3}, "ValueError: tol: expected a number >= 0, and lam > 0"),
            *(({"mu": mu}, SMOOTH) for mu in (None, 0.0)),
        ),
        refuses=(
            ("log loss", 2.0, LOG_LOSS),
            *(("hinge", mu, "ValueError: objective: svrg needs a smoothing, such as") for mu in (None, 0.5)),
        ),
    ),
    "casimir": Learner(
        "entropy",
        {"mu": 0.5, "kappa": 0.1, "step_size": 0.05},
        (0, 2),
        proof=Way({}, "entropy"),
        plain=True,
        ways=(
            Way({}, "entropy", falls=True),
            Way({"mu": 0.5, "warm_start": "extrapolated"}, "entropy", falls=True),
            Way({"inner": "gradient"}, "log loss", falls=True),
            Way({}, "softmax-margin", falls=True),
            Way({"inner": "saga", "schedule": Corollary18(LAM, 0.2, 1.0)}, "entropy", falls=True),
            Way({"mu": 0.05, "warm_start": "last"}, "l2", falls=True),
            Way({"mu": 0.5}, "top-k", falls=True, scale=100.0),
        ),
        wrong=(
            ({"lam": 0.0, "tol": 0.1}, "ValueError: tol: expected a number >= 0, and lam > 0"),
            (THEORY | {"mu": None}, "ValueError: accuracy: schedule='theory' needs a finite number > 0"),
            (THEORY | {"accuracy": 0.1}, "ValueError: mu: schedule='theory' has its own"),
            ({"accuracy": 0.1}, "ValueError: accuracy: only schedule='theory' takes one"),
            ({"schedule": "adapt", "accuracy": 0.1}, "ValueError: accuracy: only schedule='theory' takes one"),
            ({"schedule": Corollary17(LAM, 1.0, 1.0), "mu": None}, "ValueError: kappa: the schedule has its own"),
            ({**FREE, "schedule": Corollary17(0.2, 1.0, 1.0)}, "ValueError: schedule: made for lam = 0.2, got"),
            ({**FREE, "schedule": "fast"}, "ValueError: schedule: expected 'const', 'adapt', 'theory' or an object"),
            ({"inner": lambda *given: given[1].x}, "TypeError: inner: expected a pass to return (point, oracles asked"),
        ),
        refuses=(("hinge", None, f"ValueError: objective: casimir {ENTROPY}"),),
    ),
    "bcfw": Learner(
        "hinge",
        {"tol": None},
        proof=Way({"tol": None}, "hinge"),
        dual=True,
        constrained=True,
        ways=(
            *_hinge({}, NO_CACHE, {"capacity": 1}, {"capacity": 2, "cached_passes": 1}),
            *_hinge(*({"average": "weighted", **each} for each in ({}, NO_CACHE, {"capacity": 2})), falls=True),
            *_hinge({"average": "weighted", "line_search": False, **NO_CACHE}, {"line_search": False}, falls=True),
        ),
        refuses=_hinge_alone("bcfw"),
    ),
    "exponentiated_gradient": Learner(
        "log loss",
        {"tol": None},
        proof=Way({"tol": None}, "log loss"),
        dual=True,
        constrained=True,
        ways=(
            Way({"tol": None}, "log loss"),
            Way({"tol": None}, "softmax-margin"),
            Way({"tol": None, "mu": 0.4, "sampling": "permutation"}, "entropy"),
            Way({"tol": None, "mu": 0.4}, "entropy"),
            Way({"tol": None, "sampling": "permutation", "step_size": 0.3}, "log loss"),
            Way({"tol": None}, "hinge"),
        ),
        wrong=(({"step_size": 2.0}, "ValueError: step_size: expected at most 1 for mu > 0, got 2"),),
        refuses=(
            ("log loss", 2.0, LOG_LOSS),
            ("top-k", 1.0, "ValueError: objective: the dual at mu = 1 is that of smoothing=Entropy(), got"),
        ),
    ),
    "multisample": Learner(
        "hinge",
        {"tol": None, "k": 2},
        proof=Way({"tol": None, "k": 2}, "hinge"),
        dual=True,
        ways=_hinge(
            {"k": 1},
            {"k": 4},
            {"k": 70},  # more than a sequence of one or two positions has
            {"k": 4, "sampler": "gibbs", "mu": 0.7},
            {"k": 4, "update": "exact"},
            {"k": 2, "sampler": "gibbs", "update": "exact", "average": "uniform"},
            {"k": 3, "online": True},
            {"k": 3, "online": True, "sampler": "gibbs", "update": "exact"},
            scale=100.0,
        ),
        refuses=_hinge_alone("multisample"),
    ),
    "cutting_planes": Learner(
        "hinge",
        {"tol": None},
        proof=Way({"tol": None}, "hinge"),
        dual=True,
        ways=_hinge({"capacity": 1}, {"capacity": 4}, {}, scale=100.0),
        refuses=_hinge_alone("cutting_planes", "objective: cutting_planes needs planes with a task loss"),
    ),
    "prox_linear": Learner(
        "entropy",
        {"mu": 0.3, "L": 3.0, "eta": 0.5, "budget": 1},
        (1, 4),
        linear=False,
        ways=(
            Way({}, "entropy"),
            Way({"schedule": "const", "mu": 0.2, "L": 5.0}, "entropy"),
            Way({"tolerance": 0.5}, "entropy"),
            Way({"accept": "always", "eta": 50.0}, "entropy"),
            Way({"eta": 0.3}, "top-k"),
        ),
        wrong=(({"inner": lambda problem: None}, "TypeError: inner: expected a function that returns a Result, got"),),
        refuses=(
            ("hinge", None, f"ValueError: objective: casimir, which solves the subproblems, {ENTROPY}"),
            ("log loss", 7.0, "ValueError: mu: LogLoss has no smoothing"),
        ),
    ),
    "lbfgs": Learner(
        "entropy",
        {"mu": 0.5, "tol": 0.0},
        None,
        proof=Way({}, "log loss"),
        linear=False,
        plain=True,
        refuses=(("log loss", 2.0, LOG_LOSS),),
        ways=(
            Way({"tol": 0.0}, "log loss"),
            Way({"tol": 0.0}, "softmax-margin"),
            Way({"tol": 0.0, "mu": 0.3, "memory": 2}, "entropy"),
        ),
    ),
    "solve_sparse": Learner(
        "log loss",
        {"tol": 0.0},
        None,
        proof=Way({}, "log loss"),
        refuses=(("hinge", None, "TypeError: objective: expected LogLoss(model, data), got StructuralHinge"),),
        ways=(
            Way({"tol": 0.0}, "log loss"),
            Way({"tol": 0.0}, "softmax-margin"),
            Way({"tol": 0.0, "alpha": 0.0, "solver": reference.AcceleratedProximalGradient()}, "log loss"),
            Way({"tol": 0.0, "beta": 0.01, "rule": None, "solver": reference.ProximalNewton(largest=2)}, "log loss"),
        ),
    ),
    "mkl": Learner(
        "hinge",
        {"step_size": 0.2},
        ways=tuple(
            Way({"step_size": InverseSqrt(0.4), "average": average, "loss": loss}, "hinge")
            for loss in ("hinge", "crf")
            for average in ("last", "uniform")
        ),
        wrong=(
            ({"lam": None}, "ValueError: lam: expected a number >= 0, or a penalty in its place"),
            ({"penalty": 3}, "TypeError: penalty: expected a Regularizer such as SquaredL1(0.1), got 3"),
            ({"penalty": reference.L1(0.1)}, "ValueError: lam: has no effect with a penalty, which has its own weight"),
        ),
    ),
}
WAYS = [(name, way) for name, learner in LEARNERS.items() for way in learner.ways]
WAYS.append(("casimir_svrg_adapt", Way({}, "entropy", falls=True)))


def case(each: Any) -> str:
    """The name of a parametrised learner, way or (learner, way)."""
    if isinstance(each, Way):
        return "-".join([each.loss, *map(str, each.options.values())])
    return f"{each[0]}-{case(each[1])}" if isinstance(each, tuple) else str(each)


def options_of_box(name: str) -> list[dict[str, Any]]:
    """The options of a learner's ways that its algorithm has, too."""
    return [{k: each for k, each in way.options.items() if k != "tol"} for way in LEARNERS[name].ways]


def takes(name: str) -> Any:
    """The names of a learner's parameters; presets of Casimir have its own."""
    return inspect.signature(getattr(reference, "casimir" if name.startswith("casimir") else name)).parameters


def unit(name: str) -> str:
    """What its passes are called."""
    return "epochs" if "epochs" in takes(name) else "iterations"


def seeded(name: str, seed: int = 0) -> dict[str, int]:
    """The seed, where it takes one."""
    return {"rng": seed} if "rng" in takes(name) else {}


def chains(backend: Any, like: Any = None, seed: int = 7, lengths: tuple[int, ...] = SHORT) -> tuple[Any, Any]:
    """Five short sequences, or others."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in lengths]
    model = backend.SequenceModel(3, 3)
    return model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X], like=like)


def kernels(backend: Any, like: Any = None) -> KernelProblem:
    """Five short sequences under three kernels."""
    rng = np.random.default_rng(7)
    X = [rng.normal(size=(n, 3)) for n in WITH_EMPTY]
    groups = [backend.kernels.Linear(), backend.kernels.Explicit(), backend.kernels.Gaussian(1.0)]
    model = backend.KernelSequenceModel(groups, 3)
    return KernelProblem(model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X], like=like))


def loss_of(backend: Any, kind: str, model: Any, data: Any) -> Any:
    """The log loss, softmax-margin, the hinge, or the hinge with a smoothing (top-k: of the three best)."""
    if kind in ("log loss", "softmax-margin"):
        return backend.LogLoss(model, data, cost=kind == "softmax-margin")
    smoothing = getattr(backend.smoothings, LOSSES[kind])
    return backend.StructuralHinge(model, data, smoothing=smoothing(3) if kind == "top-k" else smoothing())


def objective_of(backend: Any, name: str, like: Any = None, loss: str | None = None, made: Any = None) -> Any:
    """Five short sequences, or a model and data, under the loss of the table or another."""
    if name == "mkl":
        return kernels(backend, like)
    loss = loss or LEARNERS["casimir" if name.startswith("casimir") else name].loss
    return loss_of(backend, loss, *(made or chains(backend, like)))


def nonlinear(backend: Any) -> tuple[Any, Any]:
    """Four examples whose scores are steep sines."""
    return sines(backend, np.random.default_rng(5), n=4, amplitude=4.0)


def run(backend: Any, name: str, objective: Any, *start: Any, **options: Any) -> Any:
    """The learner's result, with the group lasso where it takes regularizers; LAM unless options say otherwise."""
    learner = getattr(backend, name)
    if name == "mkl":
        return learner(objective.model, objective.data, **{"lam": LAM, **options})
    if name == "online_proximal":
        lam = options.pop("lam", LAM)
        if "regularizer" not in options:
            options["regularizer"] = backend.L21(lam, np.arange(objective.model.size) // 4)
        return learner(objective, options.pop("regularizer"), *start, **options)
    return learner(objective, *start, **{"beta" if name == "solve_sparse" else "lam": LAM, **options})


def short(backend: Any, name: str, objective: Any, passes: int, *start: Any, **more: Any) -> Any:
    """The result of so many passes with the options of the table, and more."""
    options = {unit(name): passes, **seeded(name, 4), **LEARNERS[name].options, **more}
    return run(backend, name, objective, *start, **options)


def value(name: str, objective: Any, x: Any, mu: float | None = None) -> float:
    """What a run minimises, by its definition; mu: of the smoothing, where it is part of that."""
    if name == "mkl":
        return objective.model.mean_loss(objective.data, x, "hinge") + 0.5 * LAM * np.sqrt(x.squared_norms).sum() ** 2
    loss = objective.value_and_gradient(x, None, 0.0 if name in ("casimir", "prox_linear") else mu)[0]
    if name == "online_proximal":  # the group lasso of ``run``
        return loss + LAM * sum(np.linalg.norm(x[g : g + 4]) for g in range(0, len(x), 4))
    return loss + 0.5 * LAM * x @ x + (LAM * np.abs(x).sum() if name == "solve_sparse" else 0.0)


def parts(x: Any) -> tuple[Any, ...]:
    """The arrays of weights: several of a kernel model."""
    return (*x.coefficients, x.transitions) if hasattr(x, "beta") else (x,)


def flat(x: Any) -> np.ndarray:
    """Weights as one vector of the host, which nothing changes."""
    return np.concatenate([np.ravel(each) for each in parts(x)])
