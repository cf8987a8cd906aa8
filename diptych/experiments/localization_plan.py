"""The plan of the localisation experiments, fixed before the first run: scenes, classes, weights of the penalty, grids,
seeds, budgets.

The experiments are those of Pillutla et al. (2018): Figure 3 (linear scores, section 7.3.1) and Figures 4, 6 and 7
(scores of two layers, section 7.3.2). The classes of Figures 3 and 4 are the twenty most frequent letters of the data.
Each class has a model of its own, but the same settings. They are tuned on a few classes, each by a run with rng 0: the
lowest mean objective at the end, to three digits (section 7.3, "Tuning Criteria"). A grid gets longer until the chosen
point is not at its end. BCFW needs no tuning. Curves are runs with rng 0, 1, ... of each class, which draws orders and,
for two layers, the start. A pass is n oracle calls, without those of full gradients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from diptych.experiments.casimir_runs import ADAPT, CONST, PL, WARM_STARTS, Curve
from diptych.scenes import CLASSES

K = 10  # section 7.3


class Sizes(NamedTuple):
    """For each class: training images, test images, candidates of each image, passes of each run, number of seeds; the
    seed of the scenes. Other settings of scenes are the defaults of ``make_scenes``.
    """

    images: int
    test_images: int
    candidates: int
    passes: int
    repeats: int
    seed: int = 0


class Figure(NamedTuple):
    """A figure: lam = c/n, a class for each letter, sizes, sizes with --quick, and the curves of each column."""

    c: float
    classes: str
    sizes: Sizes
    quick: Sizes
    curves: dict[str, list[Curve]]


TWENTY = "abcdefgiklmnoprstuyz"  # as many as Pascal VOC has classes; without the rarest: h, j, q, v, w, x
TUNED_ON = CLASSES  # the settings of all classes
LARGE = Sizes(images=125, test_images=125, candidates=200, passes=30, repeats=3)
QUICK = Sizes(images=6, test_images=4, candidates=24, passes=4, repeats=2)

# Figure 3, linear scores ----------------------------------------------------------------------------------------------

STEPS = [2.0**j for j in range(-11, -6)]  # section 7.3.1: a factor of two apart
SGD = [{"gamma0": step, "t0": t0} for step in STEPS for t0 in (1, 10, 100)]
SMOOTH = [{"step_size": step, "mu": mu} for step in STEPS for mu in (0.1, 1.0, 10.0)]

LINEAR = {
    "figure-3": Figure(10.0, TWENTY, LARGE, QUICK, {"linear scores": [
        Curve("SGD", "sgd", {}, SGD),
        Curve("BCFW", "bcfw", {}),
        Curve("SVRG", "svrg", {}, SMOOTH),
        Curve("C-SVRG-const", CONST, {}, SMOOTH),
        Curve("C-SVRG-adapt", ADAPT, {"mu": 10.0}, [{"step_size": step} for step in STEPS]),  # mu of section 7.3.1
    ]}),
}  # fmt: skip

# Figures 4, 6 and 7, two layers ---------------------------------------------------------------------------------------


def _sgd(schedule: str, first: int) -> dict[str, Any]:
    return {"options": {"schedule": schedule}, "grid": [{"gamma0": 2.0**j} for j in range(first, first + 5)]}


def _pl(label: str, tuned: str | None = None, **options: Any) -> Curve:
    """PL-Casimir-SVRG with the defaults of section 7.3.2 except for ``options``; eta in powers of 10."""
    usual = {"mu": 1.0, "schedule": "adapt", "budget": 5, "warm_start": "center"} if tuned is None else {}
    grid = [{"eta": eta, "L": L} for eta in (0.1, 1.0, 10.0) for L in (2.0**3, 2.0**5, 2.0**7)]
    return Curve(label, PL, usual | options, grid, tuned)


SMALL = Sizes(images=60, test_images=50, candidates=200, passes=30, repeats=5)

NONLINEAR = {
    "figure-4": Figure(1.0, TWENTY, LARGE._replace(passes=60), QUICK._replace(passes=5), {"two layers": [
        Curve("SGD, const", "sgd", **_sgd("const", -10)),
        Curve("SGD, t^-1/2", "sgd", **_sgd("sqrt", -6)),
        Curve("SGD, t^-1", "sgd", **_sgd("inverse", -4)),
        _pl("PL-Casimir-SVRG"),
    ]}),
    "figure-6": Figure(1.0, "a", SMALL, QUICK._replace(passes=5), {
        "(a) smoothing, each tuned": [_pl("adaptive"), _pl("constant", schedule="const")],
        "(b) adaptive, as tuned for mu = 1": [
            _pl(f"adaptive, mu = {mu:g}", "adaptive", mu=mu) for mu in (0.1, 1.0, 10.0)],
        "(c) constant, as tuned for mu = 1": [
            _pl(f"constant, mu = {mu:g}", "constant", mu=mu) for mu in (0.1, 1.0, 10.0)],
    }),
    "figure-7": Figure(1.0, "a", SMALL, QUICK._replace(passes=10), {
        "(a) eta": [_pl("as tuned"), *(_pl(f"eta = {eta:g}", "as tuned", eta=eta) for eta in (0.1, 1.0, 10.0))],
        "(b) passes of the inner solver": [_pl(f"budget {k}", "as tuned", budget=k) for k in (2, 5, 10)],
        "(c) its warm start": [_pl(label, "as tuned", warm_start=start) for start, label in WARM_STARTS.items()],
    }),
}  # fmt: skip
