"""The pictures of the localisation experiments: four rows, a column for each class or group of curves, and a line with
a band for each curve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure

__all__ = ["draw"]

ROWS = (  # horizontal axis, vertical axis, label below
    ("without_full_gradients", "objective", "passes of oracle calls, without full gradients"),
    ("oracle_calls", "objective", "passes of oracle calls, all"),
    ("seconds", "objective", "seconds"),
    ("without_full_gradients", "corloc", "passes of oracle calls, without full gradients"),
)
LEAST = 1e-3  # the least drawn distance from the best known objective, as a share of that objective


def draw(path: Path, report: dict[str, Any]) -> None:
    """Draw a report of ``localization``."""
    figure_class = require_matplotlib()

    columns = list(dict.fromkeys(curve["column"] for curve in report["curves"]))
    figure = figure_class(figsize=(1.0 + 3.6 * len(columns), 12), layout="constrained")
    grid = figure.subplots(len(ROWS), len(columns), squeeze=False)
    for axes, column in zip(grid.T, columns, strict=True):
        curves = [curve for curve in report["curves"] if curve["column"] == column]
        for axis, (across, up, below) in zip(axes, ROWS, strict=True):
            for number, curve in enumerate(curves):
                best = report["best"][curve["name"]]["objective"] if up == "objective" else None
                _line(axis, curve, across, up, best, f"C{number}")
            beside = "objective - best known" if up == "objective" else "CorLoc, test images"
            axis.set(xlabel=below, ylabel=beside if column == columns[0] else "")
            if up == "objective":
                axis.set_yscale("log")
            if across == "seconds":
                logarithmic(axis)
        axes[0].set_title(column)
        lines, labels = axes[0].get_legend_handles_labels()
        axes[-1].legend(lines, labels, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
    sizes = report["settings"]
    figure.suptitle(
        f"{report['figure']}: {sizes['images']} images a class, {sizes['repeats']} rngs with one standard deviation",
        fontsize=9,
    )
    save_figure(figure, path)


def _line(axis: Any, curve: dict[str, Any], across: str, up: str, best: float | None, color: str) -> None:
    """The mean over the runs up to the end of the shortest run, and a band of one standard deviation."""
    runs = [[row for row in record["rows"] if row[up] is not None] for record in curve["runs"]]
    length = min(map(len, runs))
    if length == 0:
        axis.plot([], [], color=color, label=f"{curve['label']} (diverged)")
        return
    x, y = (np.array([[row[name] for row in rows[:length]] for rows in runs]) for name in (across, up))
    share = 1 if across == "seconds" else curve["runs"][0]["n"]
    middle = y.mean(axis=0)
    low, high = middle - y.std(axis=0), middle + y.std(axis=0)
    if best is not None:
        low, middle, high = (np.maximum(values - best, LEAST * best) for values in (low, middle, high))
    marker = "o" if length <= 12 else None
    axis.plot(
        x.mean(axis=0) / share, middle, color=color, linewidth=1.4, marker=marker, markersize=3, label=curve["label"]
    )
    axis.fill_between(x.mean(axis=0) / share, low, high, color=color, alpha=0.2, linewidth=0)
