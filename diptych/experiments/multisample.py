"""Multi-sample dual updates, gap against oracle calls and seconds: ``diptych reproduce multisample-gaps [--quick]
[--out FOLDER]``.

The problems are letters (chains) with K = 1, 5, 20 outputs per visit, and single characters as cost-sensitive classes,
where the update has an exact closed form. As in Branson et al. (2013), a visit counts as one oracle call for every K.
Writes multisample.json and multisample.png into the current folder, or that of --out. Finished runs are kept in
multisample.jsonl and are not repeated. Uses one thread. The first run compiles kernels for some minutes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.commands.output import announce_compilation, whole
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.results import load, timed
from diptych.experiments.sparse_data import handwritten_words
from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure
from reference.training.result import Result

VOWELS = "aeiou"
TEST = 10_000  # number of test characters
QUICK = {"words": 100, "characters": 100, "seconds": 2.0}


class Problem(NamedTuple):
    """An objective, its lam, and its runs: a function of further options for each name."""

    name: str
    objective: Any
    lam: float
    runs: dict[str, Callable[..., Result]]


def letters(words: int) -> Problem:
    """Words of the letters, spread evenly; lam = 1/n."""
    data = handwritten_words()
    if words > len(data.X):
        raise ValueError(f"--words: expected at most the {len(data.X)} there are, got {words}")
    data = data.take(np.linspace(0, len(data.X) - 1, words).astype(int))
    model = accelerated.SequenceModel(128, data.labels, start_stop=False)
    objective = accelerated.StructuralHinge(model, model.pack(data.X, data.Y))
    runs: dict[str, Callable[..., Result]] = {f"K = {k}": partial(accelerated.multisample, k=k) for k in (1, 5, 20)}
    runs |= {
        "K = 20, exact": partial(accelerated.multisample, k=20, update="exact"),
        "K = 20, drawn at mu = 1": partial(accelerated.multisample, k=20, sampler="gibbs"),
        "K = 1, online": partial(accelerated.multisample, k=1, online=True),
        "K = 20, online": partial(accelerated.multisample, k=20, online=True),
        "BCFW, no cached passes": partial(accelerated.bcfw, cached_passes=0),
    }
    return Problem(f"letters, {objective.n} words", objective, 1.0 / objective.n, runs)


def characters(n: int) -> tuple[Problem, Callable[[np.ndarray], float]]:
    """The problem of single characters, and a function from weights to the mean cost on test characters.

    Confusing a vowel and a consonant costs 3, any other mistake costs 1.
    """
    data = handwritten_words()
    X, Y = np.concatenate(data.X), np.concatenate(data.Y)
    if n > len(X) - TEST:
        raise ValueError(f"--characters: expected at most the {len(X) - TEST} that are not kept for the test, got {n}")
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n], order[n : n + TEST]
    vowel = np.array([name in VOWELS for name in data.labels])
    cost = np.where(vowel[:, None] != vowel, 3.0, 1.0) * (1.0 - np.eye(26))
    model = accelerated.MulticlassModel(128, data.labels, cost=cost)
    objective = accelerated.StructuralHinge(model, model.pack(X[train], Y[train]))
    unseen = model.pack(X[test], Y[test])
    runs: dict[str, Callable[..., Result]] = {f"K = {k}": partial(accelerated.multisample, k=k) for k in (1, 5, 20)}
    runs |= {
        "K = 26, exact": partial(accelerated.multisample, k=26, update="exact"),
        "K = 26, exact, online": partial(accelerated.multisample, k=26, update="exact", online=True),
        "K = 1, online": partial(accelerated.multisample, k=1, online=True),
        "BCFW, no cached passes": partial(accelerated.bcfw, cached_passes=0),
        "cutting planes": lambda objective, rng, **options: accelerated.cutting_planes(objective, **options),
    }

    def mean_cost(w: np.ndarray) -> float:
        return float(np.mean(cost[Y[test], model.predict(unseen, None, w)]))

    return Problem(f"characters, {n}, cost-sensitive", objective, 1.0 / n, runs), mean_cost


def measure(
    problem: Problem, seconds: float, kept: Path, mean_cost: Callable[[np.ndarray], float] | None = None
) -> dict[str, dict[str, Any]]:
    """Perform each run until a relative gap of 1e-3 or the time limit. Runs in the file ``kept`` are not repeated.

    mean_cost: of weights on test examples.
    """

    def perform(name: str) -> dict[str, Any]:
        run = problem.runs[name]
        common: dict[str, Any] = {"lam": problem.lam, "rng": 0}
        whole(run(problem.objective, epochs=1, tol=None, **common))  # compile kernels, fill caches
        result = whole(run(problem.objective, epochs=100_000, callback=lambda row, w: row.seconds > seconds, **common))
        record = dict[str, Any](oracle_calls=result.oracle_calls, objective=result.fun, gap=result.certificate)
        record |= {"load": load(), "message": result.message}
        record |= {"history": [row.as_dict() for row in result.history]}
        return record | {"mean cost": None if mean_cost is None else mean_cost(result.x)}

    def describe(name: str, record: dict[str, Any]) -> str:
        last = record["history"][-1]
        return (
            f"{problem.name}: {name}: {last['oracle_calls']} calls, {last['seconds']:.1f} s, objective "
            f"{last['objective']:.4f}, gap {_share(last):.2e}"
        )

    runs = Runs(perform, kept, key=lambda name: [problem.name, name, seconds], describe=describe)
    return dict(zip(problem.runs, runs.perform(problem.runs), strict=True))


def _share(row: dict[str, Any]) -> float:
    """The gap divided by the objective. These optimisers have a gap in every row."""
    return float((math.inf if row["gap"] is None else row["gap"]) / row["objective"])


def table(report: dict[str, Any]) -> str:
    """The end of each run: oracle calls, objective, gap, and the mean cost of classes on the test characters."""
    lines = shell.header("problem", "run", "oracle calls", "objective", "gap / objective", "mean cost")
    for problem, runs in report["runs"].items():
        for name, record in runs.items():
            cost = record["mean cost"]
            cells = f"{record['oracle_calls']:,}", f"{record['objective']:.5g}", f"{_share(record['history'][-1]):.2g}"
            lines.append(shell.row(problem, name, *cells, "" if cost is None else f"{cost:.4f}"))
    return "\n".join(lines)


def draw(path: Path, report: dict[str, Any]) -> None:
    """Relative gap against oracle calls, and against seconds if they count; a row for each problem."""
    columns = {"oracle_calls": "oracle calls"} | ({"seconds": "seconds, one core"} if timed(report) else {})
    measured = report["runs"]
    figure = require_matplotlib()(figsize=(5.5 * len(columns), 4 * len(measured)), layout="constrained")
    grid = figure.subplots(len(measured), len(columns), squeeze=False)
    for axes, (name, runs) in zip(grid, measured.items(), strict=True):
        for axis, (what, below) in zip(axes, columns.items(), strict=True):
            for label, record in runs.items():
                rows = record["history"]
                style = {"label": label, "linestyle": "--" if "online" in label else "-", "linewidth": 1.4}
                axis.plot([row[what] for row in rows], [_share(row) for row in rows], **style)
            axis.set(yscale="log", xlabel=below)
            logarithmic(axis)
        axes[0].set(ylabel="gap / objective", title=name)
        axes[0].legend(fontsize=7)
    save_figure(figure, path)


def mean_costs(report: dict[str, Any]) -> dict[str, float]:
    """The mean cost on the test characters by run."""
    runs = [(name, record["mean cost"]) for each in report["runs"].values() for name, record in each.items()]
    return {name: cost for name, cost in runs if cost is not None}


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.quick("defaults of 100 words, 100 characters and two seconds per run")
    parser.number("data", "--words", 6251, "number of training words", ", nine folds")
    parser.number("data", "--characters", 2000, "number of training characters")
    parser.number("solver", "--seconds", 60.0, "time limit of a run")
    shell.add_report_options(parser, printed="the mean costs as JSON")
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "multisample", ("settings", "runs"))


def _run(options: argparse.Namespace) -> None:
    path = shell.output_folder(options) / "multisample.json"
    announce_compilation(accelerated)
    classes, mean_cost = characters(options.characters)
    kept, words = path.with_suffix(".jsonl"), letters(options.words)
    with shell.one_thread():
        measured = {words.name: measure(words, options.seconds, kept)}
        measured[classes.name] = measure(classes, options.seconds, kept, mean_cost)
    settings = {name: getattr(options, name) for name in QUICK} | {"test characters": TEST}
    SHOWN.kept(options, {"settings": settings, "versions": shell.versions(), "runs": measured}, path)


SHOWN = shell.Shown(draw, table, mean_costs)
