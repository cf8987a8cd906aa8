"""Figures 3, 4, 6 and 7 of Pillutla et al. (2018) on made scenes, by the protocol of sections 7.1.2 to 7.6.

    diptych reproduce casimir-figure-3 ...    optimisers of linear scores of candidate boxes
    diptych reproduce casimir-figure-4 ...    two layers: SGD against prox-linear
    diptych reproduce casimir-figure-6 ...    two layers: adaptive and constant smoothing, and their levels
    diptych reproduce casimir-figure-7 ...    two layers: eta, passes of the inner solver, its warm starts
    diptych reproduce casimir-figure-3 --draw localization-figure-3.json    picture and table again from the JSON file

Options: [--quick] [--classes aeg] [--rng SEED] [--passes N] [--repeats N] [--out FOLDER] [--json].

Writes localization-FIGURE.json and localization-FIGURE.png into the current folder, or that of --out. The JSON file has
every row of every run. The picture shows the objective minus the best known objective, against oracle calls (without
and with full gradients) and against seconds, and CorLoc and average precision on test scenes. Curves are means with one
standard deviation over classes and random seeds. Prints the tuned settings and what each curve reaches at equal passes,
calls and seconds. Seconds are left out if more processes than cores could run at the end of a run. Scenes are made in
the same folder (118 MB for each class of Figures 3 and 4), of --rng. Finished runs are saved in localization-runs.jsonl
and are not repeated: called again after an interruption, the command goes on. Delete that file to measure again.
diptych/experiments/localization_plan.py has the compared methods and settings.

The paper has photographs of PASCAL VOC 2007, in twenty classes, with 3 x 3 x 256 features of a network trained on
ImageNet. Here no scene is a photograph. A handwritten letter is to be found on a cluttered page. The strokes of the
letters are real. Their places and sizes, the page, the clutter and the candidate boxes are drawn at random, and a box
has 3 x 3 x 64 responses of fixed filters. The classes are twenty letters. So the numbers cannot be compared with the
print, but the order of the methods can. As in the paper, each scene has one object of its class, and a model finds
where it is, not whether there is one.

Two layers are trained by stochastic subgradients with steps that are constant or decrease as t^-1/2 or t^-1, and by
PL-Casimir-SVRG. Calls of PL-Casimir-SVRG include its full gradients and the evaluations that decide whether a step is
accepted. Passes without full gradients are the steps of the inner solver. Figures 6 and 7 use 60 images and one class.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.commands.localize import find, judged, packed
from diptych.commands.options import large, positive
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.casimir_runs import (
    CERTIFICATE,
    FIELDS,
    LONGER,
    Curve,
    Problem,
    best_known,
    described,
    draw_boxes,
    ends,
    last_objective,
    record_of,
    tuned_curves,
    tuned_options,
    without_rows,
)
from diptych.experiments.localization_plan import LINEAR, NONLINEAR, TUNED_ON, Figure, K, Sizes
from diptych.experiments.results import timed
from diptych.files.localization import load_localization, save_localization
from diptych.scenes import make_scenes
from reference.training.result import Row


class Run(NamedTuple):
    """Settings of a run: a method with its options, a class, lam = c/n, the seed of orders and starts, and sizes."""

    method: str
    name: str
    c: float
    options: dict[str, Any]
    rng: int
    sizes: Sizes


class Images(Problem):
    """The training and test images of one class, and the objective over them for scores of one or two layers."""

    k, names = K, ("corloc", "average_precision")

    def __init__(self, folder: Path, name: str, sizes: Sizes, layers: int) -> None:
        both = [_scenes(folder, name, sizes, test) for test in (False, True)]
        shape = both[0].features.shape[1:]
        model = accelerated.CandidateModel(shape) if layers == 1 else accelerated.TwoLayerModel(shape)
        data, self.test = (packed(model, data, np.arange(data.n), truth=True) for data in both)
        super().__init__(model, data)
        self.truth = both[1].required("truth")

    def scores(self, w: np.ndarray) -> dict[str, float]:
        """CorLoc and average precision on the test images."""
        return judged(self.truth, find(self.model, self.test, w))

    def steps(self, run: Run, row: Row) -> int:
        return row.epoch * int(run.options.get("budget", 1)) * int(self.n)


def _scenes(folder: Path, name: str, sizes: Sizes, test: bool) -> Any:
    """The scenes of a class, made if the file does not exist."""
    n = sizes.test_images if test else sizes.images
    settings: dict[str, Any] = {"classes": name, "candidates": sizes.candidates, "test": test, "rng": sizes.seed}
    path = folder / f"scenes-{name}-{n}-{sizes.candidates}-{sizes.seed}{'-test' if test else ''}.boxes"
    if not path.exists():
        print(f"  {path}: {n} scenes", file=sys.stderr, flush=True)
        save_localization(path, make_scenes(n, **settings), [name], {"scenes": settings})
    return load_localization(path)


def runs_of(folder: Path, layers: int) -> Runs:
    """Runs on the scenes in a folder in this process, one at a time, because seconds are compared."""
    return Runs(
        partial(_perform, folder, layers),
        folder / "localization-runs.jsonl",
        key=lambda run: [layers, run._asdict()],
        describe=lambda run, record: described(f"{run.name}, {run.method}", run, record),
    )


def _perform(folder: Path, layers: int, run: Run) -> dict[str, Any]:
    images = _images(folder, run.name, run.sizes._replace(passes=0, repeats=0), layers)
    return record_of(images, run, run.sizes.passes) | {"sizes": run.sizes._asdict()}


@lru_cache(maxsize=1)
def _images(folder: Path, name: str, sizes: Sizes, layers: int) -> Images:
    """The images of a class. sizes: with 0 passes and repeats, so that all runs of the class share them."""
    return Images(folder, name, sizes, layers)


# the figure ----------------------------------------------------------------------------------------------------------


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of one figure, or draw it again; return the exit status."""
    title = name.removeprefix("casimir-")
    parser = shell.Parser(name, __doc__)
    parser.quick("a test run: two classes, few small scenes, grids of two points, 2 repeats")
    parser.option("data", "--classes", help="letters, one per class (default: those of the plan)")
    parser.option("solver", "--passes", type=positive, help="passes of each run (default: those of the plan)")
    parser.option("solver", "--repeats", type=positive, help="number of random seeds (default: those of the plan)")
    parser.option("data", "--rng", type=large, default=0, metavar="SEED", help="seed of the scenes (default: 0)")
    shell.add_report_options(parser, printed="JSON, without the rows of the runs")
    options = parser.parse_args(arguments)
    run = partial(_run, options, title, (LINEAR | NONLINEAR)[title], 1 if title in LINEAR else 2)
    return shell.run_or_draw(parser, options, run, SHOWN, "a localisation experiment", FIELDS)


def _run(options: argparse.Namespace, name: str, figure: Figure, layers: int) -> None:
    sizes = (figure.quick if options.quick else figure.sizes)._replace(seed=options.rng)
    sizes = sizes._replace(**{k: getattr(options, k) for k in ("passes", "repeats") if getattr(options, k) is not None})
    classes = options.classes or (figure.classes[:2] if options.quick else figure.classes)
    make_scenes(classes=classes)  # makes none yet, but refuses other classes
    folder = shell.output_folder(options)
    runs = runs_of(folder, layers)
    results = measure(runs, figure, classes, sizes, options.quick, layers)
    report = {"figure": name, "settings": {**sizes._asdict(), "c": figure.c}, "versions": shell.versions(), **results}
    path = folder / f"localization-{name}.json"
    SHOWN.kept(options, report, path, runs.kept)


def measure(runs: Runs, figure: Figure, classes: str, sizes: Sizes, quick: bool, layers: int) -> dict[str, Any]:
    """The best known objective and dual of each class, the runs over each grid, and the runs of each tuned curve."""
    curves = [each._replace(column=column) for column, several in figure.curves.items() for each in several]
    if quick:
        curves = [each._replace(grid=_thinned(each.grid)) for each in curves]

    def run(curve: Curve, options: dict[str, Any], draw: tuple[str, int]) -> Run:
        return Run(curve.method, draw[0], figure.c, options, draw[1], sizes)

    few = [name for name in classes if name in TUNED_ON] or list(classes)
    longer = sizes._replace(passes=LONGER * sizes.passes)
    draws = [(name, rng) for name in classes for rng in range(sizes.repeats)]
    found = tuned_curves(runs, curves, draws, run,
        certificates=[Run(CERTIFICATE, name, figure.c, {}, 0, longer) for name in classes] if layers == 1 else [],
        choose=lowest,
        chosen=lambda curve, best: best | curve.options,
        tuned_on=[(name, 0) for name in few],
        lengthen=True)  # fmt: skip
    shown = [
        {"column": curve.column, "label": curve.label, "method": curve.method, "options": options,
         "tuned": ends(curve.grid, options) if curve.tuned_as is None else {}, "runs": records}
        for curve, options, records in found.drawn
    ]  # fmt: skip
    best = {name: best_known(record for record in found.every if record["name"] == name) for name in classes}
    return {"best": best, "curves": shown, "tuning": found.tuning, "tuned_on": few}


def lowest(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A record of the options with the lowest last objective on average over the records that have them, to three
    digits, of equals the first: so a grid does not get longer for a gain without meaning.
    """
    alike: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        alike.setdefault(tuple(sorted(record["options"].items())), []).append(record)
    return min(alike.values(), key=lambda each: float(f"{statistics.fmean(map(last_objective, each)):.3g}"))[0]


def _thinned(grid: Sequence[dict[str, float]]) -> Sequence[dict[str, float]]:
    """Two points of a grid."""
    return grid if len(grid) < 3 else [grid[len(grid) // 2 - 1], grid[len(grid) // 2]]


def table(report: dict[str, Any]) -> str:
    """What each tuned curve reaches at equal passes, calls and seconds: mean and standard deviation over classes and
    seeds, and in brackets in how many classes its mean objective is the lowest; * marks an end of the grid.

    The limit for calls and for seconds is the least that a curve of the column has spent at its end. Each run is
    represented by its last row within the limit. A row of prox-linear is a step of several passes. Seconds are shown if
    no run's load exceeded the number of cores.
    """
    spent = ["passes", "oracle_calls", *(["seconds"] if timed(report) else [])]
    equal = ["equal passes", "equal calls, all", "equal seconds"][: len(spent)]
    head = [f"{what}: {equal[0]}" for what in ("objective less the best known", "CorLoc, test, %", "AP, test, %")]
    lines = shell.header("column", "curve", "tuned", head[0], *equal[1:], head[1], equal[1], head[2], equal[1],
        *["calls, all", "seconds"][: len(spent) - 1])  # fmt: skip
    known = np.array([best["objective"] for best in report["best"].values()], dtype=float)
    for column in dict.fromkeys(curve["column"] for curve in report["curves"]):
        curves = [curve for curve in report["curves"] if curve["column"] == column]
        limits = {what: min(_end(curve, what) for curve in curves) for what in spent} | {"passes": math.inf}

        def reached(what: str, value: str, curves: Any = curves, limits: Any = limits) -> np.ndarray:
            found = [[_at(each["rows"], what, limits[what], value) for each in curve["runs"]] for curve in curves]
            return np.array(found).reshape(len(curves), len(known), -1)  # by curve, class and seed

        apart = [reached(what, "objective") - known[:, None] for what in spent]
        means = [each.mean(axis=2) for each in apart]
        leads = [np.sum((each == each.min(axis=0)) & np.isfinite(each), axis=1) for each in means]
        scores = [100 * reached(what, score) for score in Images.names for what in spent[:2]]
        for number, curve in enumerate(curves):
            cells = [column, curve["label"], tuned_options(curve, ".3g")]
            cells += [f"{_spread(x[number])} ({k[number]})" for x, k in zip(apart, leads, strict=True)]
            cells += [_spread(each[number]) for each in scores]
            lines.append(shell.row(*cells, *(f"{_end(curve, what):.4g}" for what in spent[1:])))
    settings = report["settings"]
    lines.append("\n*: an end of the grid; in brackets: the number of classes in which the curve's mean is the lowest")
    sizes = "for each class {repeats} seeds, {images} scenes to train on, {test_images} to test".format(**settings)
    lines.append(f"\n{sizes}; settings tuned on {', '.join(report['tuned_on'])}")
    lines += ["", *shell.header(f"class, lam = {settings['c']:g}/n", "best known objective", "dual")]
    for name, best in report["best"].items():
        bounds = ("" if best[what] is None else f"{best[what]:.6g}" for what in ("objective", "dual"))
        lines.append(shell.row(name, *bounds))
    return "\n".join(lines)


def _end(curve: dict[str, Any], what: str) -> float:
    """The mean over the runs of the calls or seconds at the end."""
    return statistics.fmean(record["rows"][-1][what] if record["rows"] else 0.0 for record in curve["runs"])


def _at(rows: Sequence[dict[str, Any]], what: str, limit: float, value: str) -> float:
    """The value in the last row within the limit, or in the first row if none is; inf where the run diverged."""
    within = [row for row in rows if row[what] <= limit * (1 + 1e-9)] or rows[:1]
    return math.inf if not within or within[-1][value] is None else float(within[-1][value])


def _spread(values: np.ndarray) -> str:
    """Mean and standard deviation over classes and seeds."""
    diverged = int(np.sum(~np.isfinite(values)))
    return f"{diverged} of {values.size} diverged" if diverged else f"{values.mean():.3g} ± {values.std():.2g}"


SHOWN = shell.Shown(draw_boxes, table, without_rows)
