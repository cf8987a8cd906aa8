"""The pictures of ``casimir_paper``: three rows, a column for each lam or method, and a line with a band for each
curve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from diptych.pictures.plots import require_matplotlib, save_figure

ROWS = (  # horizontal axis, vertical axis, and their labels
    ("without_full_gradients", "objective", "passes of oracle calls, without full gradients", "objective - best known"),
    ("oracle_calls", "objective", "passes of oracle calls, all", "objective - best known"),
    ("without_full_gradients", "f1", "passes of oracle calls, without full gradients", "F1, validation"),
)
LEAST = 1e-3  # the least drawn distance from the best known objective, as a share of that objective


def draw(path: Path, report: dict[str, Any]) -> None:
    """Draw a report of ``casimir_paper``."""
    figure_class = require_matplotlib()
    from matplotlib.ticker import LogLocator, NullLocator

    columns = list(dict.fromkeys(curve["column"] for curve in report["curves"]))
    width = 1.0 + 3.4 * len(columns)
    figure = figure_class(figsize=(width, 10))
    grid = figure.subplots(len(ROWS), len(columns), squeeze=False)
    figure.subplots_adjust(left=0.8 / width, right=1 - 0.2 / width, bottom=0.06, top=0.92, wspace=0.22, hspace=0.26)
    for axes, column in zip(grid.T, columns, strict=True):
        curves = [curve for curve in report["curves"] if curve["column"] == column]
        for axis, (across, up, below, beside) in zip(axes, ROWS, strict=True):
            for number, curve in enumerate(curves):
                best = report["best"][f"{curve['c']:g}"]["objective"]
                line(axis, curve, across, up, best if up == "objective" else None, f"C{number}")
            axis.set(xlabel=below, ylabel=beside if column == columns[0] else "")
            if up == "objective":
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.yaxis.set_major_formatter("{x:g}")
                axis.yaxis.set_minor_locator(NullLocator())
        axes[0].set_title(column)
        axes[0].legend(fontsize=7)
    settings = report["settings"]
    figure.suptitle(
        f"{report['figure']}: {settings['sentences']} sentences, {settings['repeats']} rngs with one standard deviation"
    )
    save_figure(figure, path)


def line(
    axis: Any, curve: dict[str, Any], across: str, up: str, best: float | None, color: str, short: int = 0
) -> None:
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
