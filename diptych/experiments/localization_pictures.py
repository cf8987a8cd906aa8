"""The pictures of the localisation experiments: four rows, a column for each class or group of curves, and a line with
a band for each curve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diptych.experiments.casimir_pictures import line
from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure

ROWS = (  # horizontal axis, vertical axis, label below
    ("without_full_gradients", "objective", "passes of oracle calls, without full gradients"),
    ("oracle_calls", "objective", "passes of oracle calls, all"),
    ("seconds", "objective", "seconds"),
    ("without_full_gradients", "corloc", "passes of oracle calls, without full gradients"),
)


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
                line(axis, curve, across, up, best, f"C{number}", short=12)
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
