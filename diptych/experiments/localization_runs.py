"""One optimiser on one class of scenes, as Pillutla et al. (2018), section 7.2, set it up: what it is called with, and
the rows of its run.

Objective: the mean hinge over candidate boxes, loss 1 - IoU, lam/2 ||w||^2 with lam = c/n. Smoothing: squared l2 by the
K best candidates (section 7.3).
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.commands.localize_jobs import find, judged, packed
from diptych.experiments.localization_plan import ADAPT, CONST, PL, K, Sizes
from diptych.experiments.shell import whole
from diptych.experiments.workers import Workers
from diptych.files.localization import load_localization
from diptych.files.localization_writer import save_localization
from diptych.scenes import make_scenes
from reference.training.prox_linear import casimir_svrg
from reference.training.result import Result, Row

__all__ = ["CERTIFICATE", "Problem", "Run", "perform", "workers"]

CERTIFICATE = "certificate"  # the method that finds the best known objective and dual of linear scores
SCHEDULES = {
    "const": accelerated.steps.Constant,
    "sqrt": accelerated.steps.InverseSqrt,
    "inverse": accelerated.steps.InverseTime,
}


class Run(NamedTuple):
    """A method with its options on images of a class, lam = c/n, the number that its orders (and start) are drawn
    by, and how many passes.
    """

    method: str
    name: str
    c: float
    options: dict[str, Any]
    rng: int
    sizes: Sizes


class Problem:
    """The images of one class, to train and to test on, and the objective of one kind of scores over them."""

    def __init__(self, folder: Path, name: str, sizes: Sizes, layers: int) -> None:
        both = [_scenes(folder, name, sizes, test) for test in (False, True)]
        shape = both[0].features.shape[1:]
        self.model = accelerated.CandidateModel(shape) if layers == 1 else accelerated.TwoLayerModel(shape)
        self.data, self.test = (packed(self.model, data, np.arange(data.n), truth=True) for data in both)
        self.truth, self.n = both[1].required("truth"), self.data.n
        self.hinge = accelerated.StructuralHinge(self.model, self.data)
        self.smoothed = accelerated.StructuralHinge(self.model, self.data, smoothing=accelerated.smoothings.TopK(K))

    def objective(self, w: np.ndarray, lam: float) -> float:
        """F(w) + lam/2 ||w||^2, not smoothed."""
        return self.hinge.value_and_gradient(w)[0] + 0.5 * lam * float(w @ w)

    def scores(self, w: np.ndarray) -> dict[str, float]:
        """CorLoc and average precision on the test images."""
        return judged(self.truth, find(self.model, self.test, w))


def _scenes(folder: Path, name: str, sizes: Sizes, test: bool) -> Any:
    """The scenes of a class, made unless they are there."""
    n = sizes.test_images if test else sizes.images
    settings: dict[str, Any] = {"classes": name, "candidates": sizes.candidates, "test": test, "rng": 0}
    path = folder / f"scenes-{name}-{n}-{sizes.candidates}{'-test' if test else ''}.boxes"
    if not path.exists():
        print(f"  {path}: {n} scenes", file=sys.stderr, flush=True)
        save_localization(path, make_scenes(n, **settings), [name], {"scenes": settings})
    return load_localization(path)


# the methods of section 7.2: (problem, lam, options, what all take) -> result -----------------------------------------


def _sgd(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """gamma_t = gamma0 / (1 + floor(t / t0)), t0 given in passes; on two layers gamma0, gamma0 / sqrt(t) or
    gamma0 / t.
    """
    steps: Any
    if "t0" in options:
        steps = accelerated.steps.Steps(options["gamma0"], options["t0"] * problem.n)
    else:
        steps = SCHEDULES[options["schedule"]](options["gamma0"])
    return accelerated.sgd(problem.hinge, lam=lam, step_size=steps, average="last", **common)


def _bcfw(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """bcfw-wavg: line search, weighted average."""
    return accelerated.bcfw(problem.hinge, lam=lam, cached_passes=0, average="weighted", tol=None, **common)


def _certificate(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """BCFW with cached passes, to a relative gap of 1e-4."""
    return accelerated.bcfw(problem.hinge, lam=lam, tol=1e-4, **common)


def _svrg(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """The average of a pass starts the next."""
    return accelerated.svrg(problem.smoothed, lam=lam, average="uniform", **options, **common)


def _casimir_const(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 29 with A/mu = L, the tuned one, L = 1/step: kappa = L/n - lam, or lam;
    gamma = 1/(L + lam + kappa).
    """
    L = 1 / options["step_size"]
    kappa = L / problem.n - lam if L / problem.n > 4 * lam else lam
    chosen = {"mu": options["mu"], "kappa": kappa, "step_size": 1 / (L + lam + kappa)}
    return accelerated.casimir_svrg_const(problem.smoothed, lam=lam, warm_start="center", **chosen, **common)


def _casimir_adapt(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 30: mu_k falls geometrically, kappa = lam (section 7.3.1)."""
    return accelerated.casimir_svrg_adapt(problem.smoothed, lam=lam, warm_start="center", **options, **common)


def _prox_linear(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """PL-Casimir-SVRG (section 7.3.2): so many passes of Casimir-SVRG-const for each step."""
    common = dict(common)
    iterations = common.pop("epochs") // options["budget"]
    given = {name: options[name] for name in ("eta", "mu", "L", "budget", "schedule")}
    inner = functools.partial(casimir_svrg, warm_start=options["warm_start"])
    return accelerated.prox_linear(problem.smoothed, lam=lam, inner=inner, iterations=iterations, **given, **common)


METHODS: dict[str, Callable[[Problem, float, dict[str, Any], dict[str, Any]], Result]] = {
    "sgd": _sgd,
    "bcfw": _bcfw,
    "svrg": _svrg,
    CONST: _casimir_const,
    ADAPT: _casimir_adapt,
    PL: _prox_linear,
    CERTIFICATE: _certificate,
}


def perform(problem: Problem, run: Run) -> dict[str, Any]:
    """The run as a record: its settings, a row a pass (or a step of prox-linear), how it ended. Objectives are
    unsmoothed; None stands for anything but a number.
    """
    lam, rows = run.c / problem.n, []

    def note(row: Row, w: np.ndarray) -> bool:
        value = problem.objective(w, lam) if run.method == "svrg" else row.objective
        passes = row.epoch * run.options.get("budget", 1)
        finite = math.isfinite(value)
        dual = row.dual if run.method in ("bcfw", CERTIFICATE) else None
        scores = problem.scores(w) if finite and run.method != CERTIFICATE else {}
        rows.append(
            {
                "passes": passes,
                "oracle_calls": row.oracle_calls,
                "without_full_gradients": passes * problem.n,
                "seconds": row.seconds,
                "objective": value if finite else None,
                "dual": dual if dual is not None and math.isfinite(dual) else None,
                "corloc": scores.get("corloc"),
                "average_precision": scores.get("average_precision"),
            }
        )
        return not finite

    with np.errstate(over="ignore", invalid="ignore"):  # too long steps are part of the grids
        common = {"epochs": run.sizes.passes, "rng": run.rng, "callback": note}
        result = whole(METHODS[run.method](problem, lam, run.options, common))
    return {**run._asdict(), "sizes": run.sizes._asdict(), "n": problem.n, "rows": rows, "message": result.message}


class Where(NamedTuple):
    """Where scenes are kept, and how many layers scores have."""

    folder: Path
    layers: int


def workers(folder: Path, layers: int) -> Workers:
    """Workers that perform one run at a time, because seconds are compared."""

    def said(run: Run, record: dict[str, Any]) -> str:
        last = record["rows"][-1]["objective"] if record["rows"] else None
        return f"{run.name}, {run.method}, {run.options}, rng {run.rng}: {last}"

    kept = folder / "localization-runs.jsonl"
    return Workers(_perform, Where(folder, layers), 1, kept, key=lambda run: [layers, run._asdict()], said=said)


def _perform(where: Where, run: Run) -> dict[str, Any]:
    return perform(_problem(where, run.name, run.sizes._replace(passes=0, repeats=0)), run)


@functools.lru_cache(maxsize=1)
def _problem(where: Where, name: str, sizes: Sizes) -> Problem:
    """sizes: without those of runs, so that one problem serves all of them."""
    return Problem(where.folder, name, sizes, where.layers)
