"""Every optimiser of the structural SVM on one problem: ``diptych reproduce ssvm-optimizers [--quick] [--out FOLDER]
[--json]``.

The data are nine folds of the letters (6,251 words) with raw pixels, Hamming loss and lam = 0.0016, on one core. Each
optimiser runs until its objective is within a relative gap of 1e-3 of a common lower bound, or for 60 s. The bound is
the best dual value of a long run of ``bcfw``. Evaluations count neither in seconds nor in calls; the search for step
sizes counts in both. Casimir, and SVRG with a constant mu, minimise a smoothed hinge; their objective is measured
without smoothing. Writes ssvm.json (the rows of every run) and ssvm.png into the current folder, or that of --out, and
prints a table. Finished runs are kept in ssvm.jsonl and are not repeated. The first run compiles kernels for some
minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.commands.options import positive
from diptych.commands.output import announce_compilation, whole
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.sparse_data import handwritten_words
from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure
from reference.training.result import Result, Row

LAM = 0.0016 * 6251  # divided by the number of words
GAP = 1e-3
QUICK = {"words": 60, "seconds": 0.1}
MU = 0.01  # squared l2 adds at most mu/2 to the hinge


class Method(NamedTuple):
    """An optimiser with its options, the smoothing of the hinge, and the number of full gradients in a pass."""

    run: Callable[..., Result]
    smoothing: Any = None
    full_gradients: int = 0
    draws: bool = True  # whether it has a parameter rng
    bounds: bool = True  # whether its duals are lower bounds of the unsmoothed objective


SMOOTHINGS = accelerated.smoothings
SMOOTHED = partial(Method, full_gradients=1)
METHODS = {
    "SGD, 1/(lam (t + n)), weighted average": Method(accelerated.sgd),
    "BCFW": Method(partial(accelerated.bcfw, cached_passes=0, tol=None)),
    "BCFW, weighted average": Method(partial(accelerated.bcfw, cached_passes=0, average="weighted", tol=None)),
    "BCFW, cached passes": Method(partial(accelerated.bcfw, tol=None)),
    "multi-sample, K = 1": Method(partial(accelerated.multisample, k=1, tol=None)),
    "multi-sample, K = 5": Method(partial(accelerated.multisample, k=5, tol=None)),
    "exponentiated gradient": Method(partial(accelerated.exponentiated_gradient, tol=None)),
    "cutting planes": Method(partial(accelerated.cutting_planes, tol=None), full_gradients=1, draws=False),
    f"SVRG, squared l2, mu = {MU}": SMOOTHED(partial(accelerated.svrg, mu=MU), SMOOTHINGS.SquaredL2(), bounds=False),
    "Casimir-SVRG, entropy": SMOOTHED(accelerated.casimir, SMOOTHINGS.Entropy()),
    "Casimir-SVRG, squared l2": SMOOTHED(accelerated.casimir, SMOOTHINGS.SquaredL2()),
    "Casimir-SVRG, top-5": SMOOTHED(accelerated.casimir, SMOOTHINGS.TopK(5)),
    f"Casimir-SVRG-const, top-5, mu = {MU}": SMOOTHED(
        partial(accelerated.casimir_svrg_const, mu=MU), SMOOTHINGS.TopK(5)
    ),
    "Casimir-SVRG-adapt, top-5": SMOOTHED(accelerated.casimir_svrg_adapt, SMOOTHINGS.TopK(5)),
}


class Problem:
    """The packed words of nine folds, or the first of them, and the hinge."""

    def __init__(self, words: int | None) -> None:
        train, _ = handwritten_words().split(0)
        if words is not None and words > len(train.X):
            raise ValueError(f"--words: expected at most the {len(train.X)} of nine folds, got {words}")
        train = train if words is None else train.take(np.arange(words))
        announce_compilation(accelerated)
        self.model = accelerated.SequenceModel(128, train.labels, start_stop=False)
        self.data = self.model.pack(train.X, train.Y)
        self.hinge = accelerated.StructuralHinge(self.model, self.data)
        self.lam = LAM / self.data.n

    def bound(self, tol: float) -> float:
        """A lower bound of the least objective, to a relative gap ``tol``."""
        result = whole(accelerated.bcfw(self.hinge, lam=self.lam, tol=tol, epochs=1000, rng=0))
        return max(row.dual for row in result.history if row.dual is not None)

    def objective(self, w: np.ndarray) -> float:
        """The objective without smoothing."""
        return self.hinge.value_and_gradient(w)[0] + 0.5 * self.lam * float(w @ w)

    def run(self, method: Method, bound: float, seconds: float, epochs: int = 1_000_000) -> dict[str, Any]:
        """Run the method until its gap to the bound is small enough or the time is up; its rows and final message."""
        objective, rows = self.hinge, []
        if method.smoothing is not None:
            objective = accelerated.StructuralHinge(self.model, self.data, smoothing=method.smoothing)

        def note(row: Row, w: np.ndarray) -> bool:
            value = row.objective if method.smoothing is None else self.objective(w)
            steps = row.oracle_calls - method.full_gradients * row.epoch * self.data.n
            one = dict[str, Any](passes=row.epoch, oracle_calls=row.oracle_calls, without_full_gradients=steps)
            one |= {"seconds": row.seconds, "objective": value, "dual": row.dual if method.bounds else None}
            rows.append(one)
            return value - bound <= GAP * value or row.seconds >= seconds

        drawn = {"rng": 0} if method.draws else {}
        result = whole(method.run(objective, lam=self.lam, epochs=epochs, callback=note, **drawn))
        return {"rows": rows, "message": result.message}


def measure(words: int | None, seconds: float, tol: float, kept: Path) -> dict[str, Any]:
    """The rows of every method, and the best lower bound. Runs in the file ``kept`` are not repeated."""
    problem = Problem(words)

    def perform(name: str) -> dict[str, Any]:
        problem.run(METHODS[name], bound, seconds, epochs=1)  # compile kernels, fill caches
        return problem.run(METHODS[name], bound, seconds)

    kept_runs = partial(Runs, kept=kept, key=lambda name: [name, problem.data.n, seconds, tol])
    (bound,) = kept_runs(lambda _: problem.bound(tol)).perform(["bound"])
    runs = dict(zip(METHODS, kept_runs(perform, describe=_described).perform(METHODS), strict=True))
    duals = [row["dual"] for record in runs.values() for row in record["rows"] if row["dual"] is not None]
    settings = {"words": problem.data.n, "lam": problem.lam, "seconds": seconds, "gap": GAP}
    return {"settings": settings, "versions": shell.versions(), "bound": max(bound, *duals), "runs": runs}


def _described(name: str, record: dict[str, Any]) -> str:
    last = record["rows"][-1]
    return f"{name}: {last['passes']} passes, {last['seconds']:.2f} s, objective {last['objective']:.5f}"


def lines(report: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each method from its last row, with gaps relative to the objective and calls divided by n."""
    n, bound, rows = report["settings"]["words"], report["bound"], []
    for name, record in report["runs"].items():
        last = record["rows"][-1]
        gap = (last["objective"] - bound) / last["objective"]
        own = None if last["dual"] is None else 1 - last["dual"] / last["objective"]
        row = {"optimiser": name, "passes": last["passes"], "oracle calls / n": last["oracle_calls"] / n}
        row |= {"without full gradients": last["without_full_gradients"] / n, "seconds": last["seconds"]}
        row |= {"objective": last["objective"], "gap / objective": gap, "its own gap / objective": own}
        rows.append(row)
    return rows


def table(report: dict[str, Any]) -> str:
    """The lines in Markdown."""
    rows = lines(report)
    cells = ([_cell(name, value) for name, value in line.items()] for line in rows)
    text = [*shell.header(*rows[0]), *(shell.row(*each) for each in cells)]
    return "\n".join([*text, f"\nlower bound: {report['bound']:.6g}"])


def _cell(name: str, x: Any) -> str:
    return x if isinstance(x, str) else "" if x is None else f"{x:.6g}" if name == "objective" else f"{x:.3g}"


def draw(path: Path, report: dict[str, Any]) -> None:
    """The gap to the bound divided by the objective, against seconds and against oracle calls."""
    figure = require_matplotlib()(figsize=(15, 5), layout="constrained")
    n, bound = report["settings"]["words"], report["bound"]
    axes = figure.subplots(1, 3, sharey=True)
    across = [("seconds", 1, "seconds, one core"), ("oracle_calls", n, "oracle calls / n")]
    across += [("without_full_gradients", n, "oracle calls / n, without full gradients")]
    for axis, (what, unit, label) in zip(axes, across, strict=True):
        for number, (name, record) in enumerate(report["runs"].items()):
            rows = [row for row in record["rows"] if row[what] > 0]
            gaps = [(row["objective"] - bound) / row["objective"] for row in rows]
            style = {"label": name, "color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
            axis.plot([row[what] / unit for row in rows], gaps, linewidth=1.4, **style)
        logarithmic(axis)
        axis.axhline(report["settings"]["gap"], color="grey", linewidth=0.8, linestyle=":")
        axis.set(yscale="log", xlabel=label)
    axes[0].set(ylabel="gap to the lower bound / objective")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.suptitle(f"structural SVM, letters, {n} words, lam = {report['settings']['lam']:g}")
    save_figure(figure, path)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.quick("a rougher bound; defaults of 60 words, at the same lam n, and 0.1 s per method")
    parser.number("solver", "--seconds", 60.0, "time limit of a method")
    parser.option("data", "--words", type=positive, help="use only the first N (default: all 6251)")
    shell.add_report_options(parser)
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "ssvm_table", ("settings", "bound", "runs"))


def _run(options: argparse.Namespace) -> None:
    path = shell.output_folder(options) / "ssvm.json"
    with shell.one_thread():
        report = measure(options.words, options.seconds, 1e-2 if options.quick else 1e-4, path.with_suffix(".jsonl"))
    SHOWN.kept(options, report, path)


SHOWN = shell.Shown(draw, table, lines)
