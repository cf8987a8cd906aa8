"""Figures 3, 4, 6 and 7 of Pillutla et al. (2018) on made scenes, by the protocol of sections 7.1.2 to 7.6.

    diptych reproduce casimir-figure-3 ...    optimisers of linear scores of candidate boxes
    diptych reproduce casimir-figure-4 ...    two layers: SGD against prox-linear
    diptych reproduce casimir-figure-6 ...    two layers: adaptive and constant smoothing, and their levels
    diptych reproduce casimir-figure-7 ...    two layers: eta, passes of the inner solver, its warm starts
    diptych reproduce casimir-figure-3 --draw localization-figure-3.json    picture and table again from the JSON file

Options: [--quick] [--classes aeg] [--out FOLDER] [--json].

Writes localization-FIGURE.json and localization-FIGURE.png into the current folder, or that of --out. The JSON file has
every row of every run. The picture shows the objective minus the best known objective, against oracle calls (without
and with full gradients) and against seconds, and CorLoc on test images. Curves are means with one standard deviation
over random seeds. Prints the tuned settings and the end of each curve. Scenes are made in the same folder (90 MB for
each class). Finished runs are saved in localization-runs.jsonl and are not repeated; delete that file to measure again.
diptych/experiments/localization_plan.py has the compared methods and settings.

The paper has photographs of PASCAL VOC 2007 with 3 x 3 x 256 features of a network trained on ImageNet. Here a class is
a handwritten letter on a cluttered page, with 3 x 3 x 64 features of fixed filters. So the numbers cannot be compared
with the print, but the order of the methods can.

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
from diptych.commands.options import positive
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
from diptych.experiments.localization_plan import LINEAR, NONLINEAR, Figure, K, Sizes
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
    settings: dict[str, Any] = {"classes": name, "candidates": sizes.candidates, "test": test, "rng": 0}
    path = folder / f"scenes-{name}-{n}-{sizes.candidates}{'-test' if test else ''}.boxes"
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
    parser.quick("a test run: few small scenes, grids of two points, 2 repeats")
    parser.option("data", "--classes", help="letters, one per class (default: those of the plan)")
    parser.option("solver", "--passes", type=positive, help="passes of each run (default: those of the plan)")
    parser.option("solver", "--repeats", type=positive, help="number of random seeds (default: 5)")
    shell.add_report_options(parser, printed="JSON, without the rows of the runs")
    options = parser.parse_args(arguments)
    run = partial(_run, options, title, (LINEAR | NONLINEAR)[title], 1 if title in LINEAR else 2)
    return shell.run_or_draw(parser, options, run, SHOWN, "a localisation experiment", FIELDS)


def _run(options: argparse.Namespace, name: str, figure: Figure, layers: int) -> None:
    sizes = figure.quick if options.quick else figure.sizes
    sizes = sizes._replace(**{k: getattr(options, k) for k in ("passes", "repeats") if getattr(options, k) is not None})
    folder = shell.output_folder(options)
    runs = runs_of(folder, layers)
    results = measure(runs, figure, options.classes or figure.classes, sizes, options.quick, layers)
    report = {"figure": name, "settings": {**sizes._asdict(), "c": figure.c}, "versions": shell.versions(), **results}
    path = folder / f"localization-{name}.json"
    SHOWN.kept(options, report, path, runs.kept)


def measure(runs: Runs, figure: Figure, classes: str, sizes: Sizes, quick: bool, layers: int) -> dict[str, Any]:
    """The best known objective and dual of each class, the runs over each grid, and the runs of each tuned curve."""
    report: dict[str, Any] = {"best": {}, "curves": [], "tuning": []}
    curves = [each._replace(column=column) for column, several in figure.curves.items() for each in several]
    if quick:
        curves = [each._replace(grid=_thinned(each.grid)) for each in curves]
    for name in classes:
        print(f"class {name}", file=sys.stderr)

        def run(curve: Curve, options: dict[str, Any], rng: int, name: str = name) -> Run:
            return Run(curve.method, name, figure.c, options, rng, sizes)

        longer = sizes._replace(passes=LONGER * sizes.passes)
        found = tuned_curves(runs, curves, sizes.repeats, run,
            certificates=[Run(CERTIFICATE, name, figure.c, {}, 0, longer)] if layers == 1 else [],
            choose=lambda records: min(records, key=last_objective),
            chosen=lambda curve, best: best | curve.options)  # fmt: skip
        report["best"][name] = best_known(found.every)
        report["tuning"] += [{"name": name, **each} for each in found.tuning]
        for curve, options, records in found.drawn:
            title = f"class {name}" + (f", {curve.column}" if curve.column else "")
            row = dict[str, Any](column=title, name=name, label=curve.label, method=curve.method, options=options)
            row |= {"tuned": ends(curve.grid, options) if curve.tuned_as is None else {}, "runs": records}
            report["curves"].append(row)
    return report


def _thinned(grid: Sequence[dict[str, float]]) -> Sequence[dict[str, float]]:
    """Two points of a grid."""
    return grid if len(grid) < 3 else [grid[len(grid) // 2 - 1], grid[len(grid) // 2]]


def table(report: dict[str, Any]) -> str:
    """The tuned options of each curve, and its objective and CorLoc at equal passes, calls and seconds; * marks an end
    of the grid.

    The limit for calls and for seconds is the least that a curve of the column has spent at its end. Each curve is
    represented by its last row within the limit. A row of prox-linear is a step of several passes.
    """
    equal = ("equal passes", "equal calls, all", "equal seconds")
    first, second = f"objective: {equal[0]}", f"CorLoc, test, %: {equal[0]}"
    lines = shell.header("column", "curve", "tuned", first, *equal[1:], second, *equal[1:], "calls, all", "seconds")
    for column in dict.fromkeys(curve["column"] for curve in report["curves"]):
        curves = [curve for curve in report["curves"] if curve["column"] == column]
        limits = [("passes", math.inf)]
        limits += [(what, min(_end(curve, what) for curve in curves)) for what in ("oracle_calls", "seconds")]
        for curve in curves:
            cells = [column, curve["label"], tuned_options(curve, ".3g")]
            cells += [_at(curve, *limit, *shown) for shown in (("objective", 1), ("corloc", 100)) for limit in limits]
            lines.append(shell.row(*cells, f"{_end(curve, 'oracle_calls'):.0f}", f"{_end(curve, 'seconds'):.2f}"))
    lines.append("\n*: an end of the grid")
    for name, best in report["best"].items():
        dual = "" if best["dual"] is None else f", dual {best['dual']:.6g}"
        known = f"best known objective {best['objective']:.6g}{dual}"
        lines.append(f"\nclass {name}, lam = {report['settings']['c']:g}/n: {known}")
    return "\n".join(lines)


def _end(curve: dict[str, Any], what: str) -> float:
    """The mean over the runs of the calls or seconds at the end."""
    return statistics.fmean(record["rows"][-1][what] if record["rows"] else 0.0 for record in curve["runs"])


def _at(curve: dict[str, Any], what: str, limit: float, value: str, scale: float) -> str:
    """Mean and standard deviation at the last row within the limit (the first row, if none is)."""
    values = []
    for record in curve["runs"]:
        rows = [row for row in record["rows"] if row[what] <= limit * (1 + 1e-9)] or record["rows"][:1]
        if not rows or rows[-1][value] is None:
            return "diverged"
        values.append(scale * rows[-1][value])
    return f"{statistics.fmean(values):.4g} ± {statistics.pstdev(values):.2g}"


SHOWN = shell.Shown(draw_boxes, table, without_rows)
