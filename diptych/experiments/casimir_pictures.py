"""The pictures of ``casimir_paper`` and of the localisation experiments: a row for each pair of axes, a column for each
group of curves, and a line with a band for each curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure

PASSES = "passes of oracle calls, without full gradients"
COMMON = (("without_full_gradients", "objective", PASSES), ("oracle_calls", "objective", "passes of oracle calls, all"))
ENTITIES = (*COMMON, ("without_full_gradients", "f1", PASSES))  # horizontal axis, vertical axis, label below
BOXES = (*COMMON, ("seconds", "objective", "seconds"), ("without_full_gradients", "corloc", PASSES))
BESIDE = {"objective": "objective - best known", "f1": "F1, validation", "corloc": "CorLoc, test images"}
LEAST = 1e-3  # the least drawn distance from the best known objective, as a share of that objective


def draw_entities(path: Path, report: dict[str, Any]) -> None:
    """Draw a report of ``casimir_paper``."""
    settings = report["settings"]
    _draw(path, report, ENTITIES, lambda curve: f"{curve['c']:g}", f"{settings['sentences']} sentences")


def draw_boxes(path: Path, report: dict[str, Any]) -> None:
    """Draw a report of ``localization``."""
    settings = report["settings"]
    _draw(path, report, BOXES, lambda curve: curve["name"], f"{settings['images']} images a class", short=12)


def _draw(
    path: Path,
    report: dict[str, Any],
    rows: Sequence[tuple[str, str, str]],
    best_of: Callable[[dict[str, Any]], str],
    data: str,
    short: int = 0,
) -> None:
    """best_of: the key of a curve's best known objective; short: curves of at most so many rows have marks."""
    figure_class = require_matplotlib()
    columns = list(dict.fromkeys(curve["column"] for curve in report["curves"]))
    figure = figure_class(figsize=(1.0 + 3.6 * len(columns), 3 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for axes, column in zip(grid.T, columns, strict=True):
        curves = [curve for curve in report["curves"] if curve["column"] == column]
        for axis, (across, up, below) in zip(axes, rows, strict=True):
            for number, curve in enumerate(curves):
                best = report["best"][best_of(curve)]["objective"] if up == "objective" else None
                line(axis, curve, across, up, best, f"C{number}", short)
            axis.set(xlabel=below, ylabel=BESIDE[up] if column == columns[0] else "")
            if up == "objective":
                axis.set_yscale("log")
            if across == "seconds":
                logarithmic(axis)
        axes[0].set_title(column)
        lines, labels = axes[0].get_legend_handles_labels()
        axes[-1].legend(lines, labels, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
    repeats = report["settings"]["repeats"]
    figure.suptitle(f"{report['figure']}: {data}, {repeats} rngs with one standard deviation", fontsize=9)
    save_figure(figure, path)


def line(axis: Any, curve: dict[str, Any], across: str, up: str, best: float | None, color: str, short: int) -> None:
    """The mean over the runs up to the end of the shortest run, and a band of one standard deviation.

    short: curves of at most so many rows have marks.
    """
    runs = [[row for row in record["rows"] if row[up] is not None] for record in curve["runs"]]
    length = min(map(len, runs))
    if length == 0:
        axis.plot([], [], color=color, label=f"{curve['label']} (diverged)")
        return
    x, y = (np.array([[row[name] for row in rows[:length]] for rows in runs]) for name in (across, up))
    x, middle = x.mean(axis=0) / (1 if across == "seconds" else curve["runs"][0]["n"]), y.mean(axis=0)
    low, high = middle - y.std(axis=0), middle + y.std(axis=0)
    if best is not None:
        low, middle, high = (np.maximum(values - best, LEAST * best) for values in (low, middle, high))
    marker = "o" if length <= short else None
    axis.plot(x, middle, color=color, linewidth=1.4, marker=marker, markersize=3, label=curve["label"])
    axis.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
