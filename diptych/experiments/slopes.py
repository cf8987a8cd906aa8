"""Growth of the work of Casimir-SVRG with the accuracy: ``diptych reproduce casimir-slopes``.

Counts the oracle calls until the hinge of a small multiclass problem is within eps of its minimum, for successively
halved eps, and fits the slope of log(calls) against log(1/eps). The slopes of Pillutla et al., up to logarithms, are
1/2 with constant smoothing for eps and lam > 0 (Proposition 29), 1 with decreasing smoothing (30), and for lam = 0
between 1/2 and 1 (31) and 1 (32). Subproblems are solved until (26) holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

import accelerated
from diptych.experiments.shell import Parser, add_print_options, ended
from reference.bounds import Corollary18, Corollary20

LAM, EXAMPLES, CLASSES, FEATURES = 0.02, 40, 3, 2
ACCURACIES = 0.04 / 2.0 ** np.arange(4)
PASSES = 4000  # the maximum; an accuracy that is not reached by then has no calls
PROMISED = {"Proposition 29": "1/2", "Proposition 30": "1", "Proposition 31": "1/2 to 1", "Proposition 32": "1"}


def problem() -> tuple[Any, dict[float, float]]:
    """A hinge smoothed by entropy, and the minimum of the hinge for lam = 0 and LAM."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(EXAMPLES, FEATURES)), rng.integers(0, CLASSES, EXAMPLES)
    model = accelerated.MulticlassModel(FEATURES, CLASSES)
    hinge = accelerated.StructuralHinge(model, model.pack(X, Y), smoothing=accelerated.smoothings.Entropy())
    plain = accelerated.StructuralHinge(model, hinge.data)
    planes = plain.corners(plain.zeros(), None, CLASSES)
    n, k, d = planes.directions.shape
    each = np.repeat(np.eye(n), k, axis=0)  # minimise the mean of t_i >= <direction, w> + loss
    rows = np.hstack([planes.directions.reshape(n * k, d), -each])
    free = linprog(np.r_[np.zeros(d), np.full(n, 1 / n)], rows, -planes.losses.ravel(), bounds=(None, None)).fun
    return hinge, {0.0: free, LAM: accelerated.bcfw(plain, lam=LAM, tol=1e-9, epochs=20000, rng=0).fun}


def calls(hinge: Any, name: str, accuracy: float, best: dict[float, float]) -> int | None:
    """Oracle calls of a run until it reaches this accuracy; None if it does not."""
    lam = LAM if name in ("Proposition 29", "Proposition 30") else 0.0
    options: dict[str, Any] = {"schedule": "theory", "accuracy": accuracy}
    if name == "Proposition 30":
        options = {"schedule": Corollary18(lam, lam, 2.0), "stop": "gradient"}
    elif name == "Proposition 32":
        options = {"schedule": Corollary20(1.0, 2.0), "stop": "gradient"}
    run = accelerated.casimir(
        hinge, lam=lam, epochs=PASSES, rng=0, callback=lambda row, w: row.objective - best[lam] <= accuracy, **options
    )
    return run.oracle_calls if run.fun - best[lam] <= accuracy else None


def figures() -> Iterator[tuple[str, list[int | None], float | None]]:
    """Proposition, calls for each accuracy, and slope over the reached accuracies (None for fewer than two)."""
    hinge, best = problem()
    for name in PROMISED:
        counts = [calls(hinge, name, float(accuracy), best) for accuracy in ACCURACIES]
        reached = np.array([n is not None for n in counts])
        x, y = -np.log(ACCURACIES[reached]), np.log([n for n in counts if n is not None])
        yield name, counts, float(np.polyfit(x, y, 1)[0]) if len(y) > 1 else None


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit status."""
    parser = Parser(name, __doc__)
    add_print_options(parser, "one JSON object at the end")
    options = parser.parse_args(arguments)
    return ended(parser, options, lambda: _run(options.json), options.out)


def _run(as_json: bool) -> None:
    lines = []
    for name, counts, slope in figures():
        lines.append({"what": name, "promised": PROMISED[name], "calls": counts, "slope": slope})
        if not as_json:
            print(f"{name}: oracle calls {counts}, slope {slope} (promised {PROMISED[name]})", flush=True)
    if as_json:
        print(json.dumps({"accuracies": ACCURACIES.tolist(), "lines": lines}))
