"""A run of one optimiser on one class of scenes, with the settings of Pillutla et al. (2018), section 7.2.

The objective is the mean hinge over candidate boxes with loss 1 - IoU, plus lam/2 ||w||^2, lam = c/n. The smoothing is
squared l2 by the K best candidates (section 7.3).
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
from diptych.distributed import Runs
from diptych.experiments.localization_plan import ADAPT, CONST, PL, K, Sizes
from diptych.experiments.shell import whole
from diptych.files.localization import load_localization
from diptych.files.localization_writer import save_localization
from diptych.scenes import make_scenes
from reference.training.prox_linear import casimir_svrg
from reference.training.result import Result, Row

__all__ = ["CERTIFICATE", "Problem", "Run", "perform", "runs_of"]

CERTIFICATE = "certificate"  # the method that finds the best known objective and dual of linear scores
SCHEDULES = {
    "const": accelerated.steps.Constant,
    "sqrt": accelerated.steps.InverseSqrt,
    "inverse": accelerated.steps.InverseTime,
}


class Run(NamedTuple):
    """Settings of a run: a method with its options, a class, lam = c/n, the seed of orders and starts, and sizes."""

    method: str
    name: str
    c: float
    options: dict[str, Any]
    rng: int
    sizes: Sizes


class Problem:
    """The training and test images of one class, and the objective over them for scores of one or two layers."""

    def __init__(self, folder: Path, name: str, sizes: Sizes, layers: int) -> None:
        both = [_scenes(folder, name, sizes, test) for test in (False, True)]
        shape = both[0].features.shape[1:]
        self.model = accelerated.CandidateModel(shape) if layers == 1 else accelerated.TwoLayerModel(shape)
        self.data, self.test = (packed(self.model, data, np.arange(data.n), truth=True) for data in both)
        self.truth, self.n = both[1].required("truth"), self.data.n
        self.hinge = accelerated.StructuralHinge(self.model, self.data)
        self.smoothed = accelerated.StructuralHinge(self.model, self.data, smoothing=accelerated.smoothings.TopK(K))

    def objective(self, w: np.ndarray, lam: float) -> float:
        """F(w) + lam/2 ||w||^2 without smoothing."""
        return self.hinge.value_and_gradient(w)[0] + 0.5 * lam * float(w @ w)

    def scores(self, w: np.ndarray) -> dict[str, float]:
        """CorLoc and average precision on the test images."""
        return judged(self.truth, find(self.model, self.test, w))


def _scenes(folder: Path, name: str, sizes: Sizes, test: bool) -> Any:
    """The scenes of a class, made if the file does not exist."""
    n = sizes.test_images if test else sizes.images
    settings: dict[str, Any] = {"classes": name, "candidates": sizes.candidates, "test": test, "rng": 0}
    path = folder / f"scenes-{name}-{n}-{sizes.candidates}{'-test' if test else ''}.boxes"
    if not path.exists():
        print(f"  {path}: {n} scenes", file=sys.stderr, flush=True)
        save_localization(path, make_scenes(n, **settings), [name], {"scenes": settings})
    return load_localization(path)


# the methods of section 7.2: (problem, lam, options, common arguments) -> result --------------------------------------


def _sgd(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """gamma_t = gamma0 / (1 + floor(t / t0)), t0 in passes; on two layers gamma0, gamma0 / sqrt(t) or gamma0 / t."""
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
    """SVRG; a pass starts from the average of the last pass."""
    return accelerated.svrg(problem.smoothed, lam=lam, average="uniform", **options, **common)


def _casimir_const(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 29 with the tuned L = A/mu = 1/step: kappa = L/n - lam, or lam; gamma = 1/(L + lam + kappa)."""
    L = 1 / options["step_size"]
    kappa = L / problem.n - lam if L / problem.n > 4 * lam else lam
    chosen = {"mu": options["mu"], "kappa": kappa, "step_size": 1 / (L + lam + kappa)}
    return accelerated.casimir_svrg_const(problem.smoothed, lam=lam, warm_start="center", **chosen, **common)


def _casimir_adapt(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 30: mu_k decreases geometrically, kappa = lam (section 7.3.1)."""
    return accelerated.casimir_svrg_adapt(problem.smoothed, lam=lam, warm_start="center", **options, **common)


def _prox_linear(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """PL-Casimir-SVRG (section 7.3.2) with ``budget`` passes of Casimir-SVRG-const for each step."""
    common = dict(common)
    iterations = common.pop("epochs") // options["budget"]
    chosen = {name: options[name] for name in ("eta", "mu", "L", "budget", "schedule")}
    inner = functools.partial(casimir_svrg, warm_start=options["warm_start"])
    return accelerated.prox_linear(problem.smoothed, lam=lam, inner=inner, iterations=iterations, **chosen, **common)


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
    """Run and return a record: settings, a row for each pass (of prox-linear: for each step), and the final message.

    Objectives are unsmoothed. Values that are missing or not finite are None.
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

    with np.errstate(over="ignore", invalid="ignore"):  # the grids contain steps that diverge
        common = {"epochs": run.sizes.passes, "rng": run.rng, "callback": note}
        result = whole(METHODS[run.method](problem, lam, run.options, common))
    return {**run._asdict(), "sizes": run.sizes._asdict(), "n": problem.n, "rows": rows, "message": result.message}


class Source(NamedTuple):
    """The folder of the scenes, and the number of layers of the scores."""

    folder: Path
    layers: int


def runs_of(folder: Path, layers: int) -> Runs:
    """Runs in this process, one at a time, because seconds are compared."""

    def describe(run: Run, record: dict[str, Any]) -> str:
        last = record["rows"][-1]["objective"] if record["rows"] else None
        return f"{run.name}, {run.method}, {run.options}, rng {run.rng}: {last}"

    kept = folder / "localization-runs.jsonl"
    source = Source(folder, layers)

    def key(run: Run) -> list[Any]:
        return [layers, run._asdict()]

    return Runs(functools.partial(_perform, source), kept, key=key, describe=describe)


def _perform(source: Source, run: Run) -> dict[str, Any]:
    return perform(_problem(source, run.name, run.sizes._replace(passes=0, repeats=0)), run)


@functools.lru_cache(maxsize=1)
def _problem(source: Source, name: str, sizes: Sizes) -> Problem:
    """The problem of a class. sizes: with 0 passes and repeats, so that all runs of the class share the problem."""
    return Problem(source.folder, name, sizes, source.layers)
