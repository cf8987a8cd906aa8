"""The command of the localisation experiments: tuning, curves, tables, files."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from diptych.commands.options import positive
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.casimir_pictures import draw_boxes
from diptych.experiments.casimir_runs import CERTIFICATE, LONGER, best_known, ends, last_objective, without_rows
from diptych.experiments.localization_plan import Figure, Sizes
from diptych.experiments.localization_runs import Run, runs_of
from diptych.experiments.machine import versions
from diptych.pictures.plots import require_matplotlib

FIELDS = ("figure", "settings", "best", "curves")


def command(
    name: str, text: str | None, title: str, figure: Figure, layers: int, arguments: Sequence[str] | None
) -> int:
    """Run the experiment of one figure, or draw it again; return the exit status."""
    parser = shell.Parser(name, text)
    parser.quick("a test run: few small scenes, grids of two points, 2 repeats")
    parser.option("data", "--classes", help="letters, one per class (default: those of the plan)")
    parser.option("solver", "--passes", type=positive, help="passes of each run (default: those of the plan)")
    parser.option("solver", "--repeats", type=positive, help="number of random seeds (default: 5)")
    shell.add_report_options(parser, printed="JSON, without the rows of the runs")
    options = parser.parse_args(arguments)
    return shell.run_or_draw(
        parser, options, lambda: _run(options, title, figure, layers), SHOWN, "a localisation experiment", FIELDS
    )


def _run(options: argparse.Namespace, name: str, figure: Figure, layers: int) -> None:
    require_matplotlib()  # fail before the runs, not after
    sizes = figure.quick if options.quick else figure.sizes
    sizes = sizes._replace(**{k: getattr(options, k) for k in ("passes", "repeats") if getattr(options, k) is not None})
    folder = shell.output_folder(options)
    runs = runs_of(folder, layers)
    results = measure(runs, figure, options.classes or figure.classes, sizes, options.quick, layers)
    report = {"figure": name, "settings": {**sizes._asdict(), "c": figure.c}, "versions": versions(), **results}
    path = folder / f"localization-{name}.json"
    SHOWN.kept(options, report, path, runs.kept)


def measure(runs: Runs, figure: Figure, classes: str, sizes: Sizes, quick: bool, layers: int) -> dict[str, Any]:
    """The best known objective and dual of each class, the runs over each grid, and the runs of each tuned curve."""
    drawn: list[dict[str, Any]] = []
    best, tuning, every = {}, [], []
    for name in classes:
        certificates = []
        if layers == 1:
            print(f"{name}: best known objective", file=sys.stderr)
            longer = sizes._replace(passes=LONGER * sizes.passes)
            certificates = runs.perform([Run(CERTIFICATE, name, figure.c, {}, 0, longer)])
        tuned: dict[str, dict[str, Any]] = {}
        of_class = []
        for column, curves in figure.curves.items():
            for curve in curves:
                print(f"{name}: {column} {curve.label}", file=sys.stderr)
                grid = _thinned(curve.grid) if quick else curve.grid
                if curve.tuned_as is None:
                    tried = runs.perform(
                        Run(curve.method, name, figure.c, curve.options | point, 0, sizes) for point in grid
                    )
                    tuned[curve.label] = min(tried, key=last_objective)["options"]
                    tuning.append({"name": name, "column": column, "label": curve.label, "runs": tried})
                    every += tried
                chosen = tuned[curve.tuned_as or curve.label]
                options = {**chosen, **curve.options}
                records = runs.perform(
                    Run(curve.method, name, figure.c, options, rng, sizes) for rng in range(sizes.repeats)
                )
                title = f"class {name}" + (f", {column}" if column else "")
                chosen_ends = ends(grid, options) if curve.tuned_as is None else {}
                row = {"column": title, "name": name, "label": curve.label, "method": curve.method}
                of_class.append(row | {"options": options, "tuned": chosen_ends, "runs": records})
                every += records
        best[name] = best_known(record for record in [*certificates, *every] if record["name"] == name)
        drawn += of_class
    return {"best": best, "curves": drawn, "tuning": tuning}


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
        least = {what: min(_end(curve, what) for curve in curves) for what in ("oracle_calls", "seconds")}
        limits: list[tuple[str, float]] = [("passes", math.inf), *least.items()]
        for curve in curves:
            tuned = ", ".join(
                f"{name} = {curve['options'][name]:.3g}{'*' if at_end else ''}"
                for name, at_end in curve["tuned"].items()
            )
            cells = [_at(curve, what, limit, "objective", 1) for what, limit in limits]
            cells += [_at(curve, what, limit, "corloc", 100) for what, limit in limits]
            spent = f"{_end(curve, 'oracle_calls'):.0f} | {_end(curve, 'seconds'):.2f}"
            lines.append(f"| {column} | {curve['label']} | {tuned} | {' | '.join(cells)} | {spent} |")
    lines.append("\n*: an end of the grid")
    for name, best in report["best"].items():
        dual = "" if best["dual"] is None else f", dual {best['dual']:.6g}"
        lines.append(
            f"\nclass {name}, lam = {report['settings']['c']:g}/n: best known objective {best['objective']:.6g}{dual}"
        )
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
