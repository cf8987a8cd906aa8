"""Growth of the work of Casimir-SVRG with the accuracy: ``diptych reproduce casimir-slopes [--quick] [--out FOLDER]``.

Counts the oracle calls until the hinge of a small multiclass problem is within eps of its minimum, for eps over three
decades, and fits the slope of log(calls), a mean over random seeds, against log(1/eps). The table has the slope with
its 95 % confidence interval. The slopes of Pillutla et al., up to logarithms, are 1/2 with constant smoothing for eps
and lam > 0 (Proposition 29), 1 with decreasing smoothing (30), and for lam = 0 between 1/2 and 1 (31) and 1 (32).
Subproblems are solved until (26) holds. Writes slopes.json and slopes.png into the current folder, or that of --out.
Finished runs are kept in slopes.jsonl and are not repeated.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.stats import linregress
from scipy.stats import t as student

import accelerated
from diptych.commands.options import Whole
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure
from reference.bounds import Corollary18, Corollary20

LAM, EXAMPLES, CLASSES, FEATURES = 0.02, 40, 3, 2
LARGEST = 0.04  # eps; each next one is half as large
PASSES = 1_000_000  # the maximum; an accuracy that is not reached by then has no calls
PROMISED = {"Proposition 29": "1/2", "Proposition 30": "1", "Proposition 31": "1/2 to 1", "Proposition 32": "1"}
FIELDS = ("accuracies", "calls")
QUICK = {"accuracies": 3, "repeats": 2}


@lru_cache(maxsize=1)
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


def calls(name: str, accuracy: float, rng: int) -> int | None:
    """Oracle calls of a run until it reaches this accuracy; None if it does not."""
    hinge, best = problem()
    lam = LAM if name in ("Proposition 29", "Proposition 30") else 0.0
    options: dict[str, Any] = {"schedule": "theory", "accuracy": accuracy}
    if name == "Proposition 30":
        options = {"schedule": Corollary18(lam, lam, 2.0), "stop": "gradient"}
    elif name == "Proposition 32":
        options = {"schedule": Corollary20(1.0, 2.0), "stop": "gradient"}
    run = accelerated.casimir(
        hinge, lam=lam, epochs=PASSES, rng=rng, callback=lambda row, w: row.objective - best[lam] <= accuracy, **options
    )
    return run.oracle_calls if run.fun - best[lam] <= accuracy else None


def measure(kept: Path, accuracies: int, repeats: int) -> dict[str, Any]:
    """The accuracies, and the calls of each proposition: a list for each seed. Runs in the file are not repeated."""
    eps = [LARGEST / 2**j for j in range(accuracies)]
    runs = Runs(lambda run: calls(*run), kept, describe=lambda run, found: f"{run[0]}, eps = {run[1]:.3g}: {found}")
    found = {name: [runs.perform((name, x, rng) for x in eps) for rng in range(repeats)] for name in PROMISED}
    settings = {"lam": LAM, "n": EXAMPLES, "repeats": repeats}
    return {"settings": settings, "versions": shell.versions(), "accuracies": eps, "calls": found}


def lines(report: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each proposition: promised slope, slope, half of its 95 % interval, mean calls at each accuracy.

    The line of least squares is through the means of log(calls) at the accuracies that all seeds reach. The interval is
    that of its residuals: seeds differ less than the points from a line.
    """
    rows = []
    for name, promised in PROMISED.items():
        columns = list(zip(*report["calls"][name], strict=True))
        mean = [None if None in column else float(np.mean(column)) for column in columns]
        reached = [k for k, calls in enumerate(mean) if calls is not None]
        row: dict[str, Any] = {"what": name, "promised": promised, "slope": None, "half": None, "calls": mean}
        if len(reached) > 2:
            x = -np.log([report["accuracies"][k] for k in reached])
            fitted = linregress(x, [np.mean(np.log(columns[k])) for k in reached])
            half = student.ppf(0.975, len(x) - 2) * fitted.stderr
            row |= {"slope": float(fitted.slope), "half": float(half)}
        rows.append(row)
    return rows


def table(report: dict[str, Any]) -> str:
    """The lines in Markdown."""
    eps = report["accuracies"]
    text = shell.header("Proposition", "promised slope", "slope", f"calls at eps = {eps[0]:.2g}", f"at {eps[-1]:.2g}")
    for row in lines(report):
        ends = ["not reached" if row["calls"][k] is None else f"{row['calls'][k]:,.0f}" for k in (0, -1)]
        cells = row["promised"], _slope(row), *ends
        text.append(shell.row(row["what"].removeprefix("Proposition "), *cells))
    return "\n".join(text)


def _slope(row: dict[str, Any]) -> str:
    return "too few points" if row["slope"] is None else f"{row['slope']:.2f} ± {row['half']:.2f}"


def draw(path: Path, report: dict[str, Any]) -> None:
    """The mean calls against the accuracy."""
    figure = require_matplotlib()(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for row in lines(report):
        y = [math.nan if n is None else n for n in row["calls"]]
        label = f"{row['what']}: {_slope(row)} (promised {row['promised']})"
        axis.plot(report["accuracies"], y, marker=".", label=label)
    axis.set(yscale="log", xlabel="accuracy eps", ylabel="oracle calls")
    logarithmic(axis)
    axis.invert_xaxis()
    axis.legend(fontsize=8)
    save_figure(figure, path)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.quick("defaults of 3 accuracies and 2 seeds")
    parser.option("solver", "--accuracies", type=Whole(100, 3), default=11, help="number of accuracies (default: 11)")
    parser.number("solver", "--repeats", 10, "number of random seeds")
    shell.add_report_options(parser)
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "slopes", FIELDS)


def _run(options: argparse.Namespace) -> None:
    path = shell.output_folder(options) / "slopes.json"
    announce_compilation(accelerated)
    with shell.one_thread():
        report = measure(path.with_suffix(".jsonl"), options.accuracies, options.repeats)
    SHOWN.kept(options, report, path)


SHOWN = shell.Shown(draw, table, lines)
