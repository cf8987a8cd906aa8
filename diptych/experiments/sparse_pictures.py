"""The pictures of the experiments with sparse CRFs: removed weights against iterations and against the gap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure


def draw_ratios(path: Path, report: dict[str, Any]) -> None:
    """Rejection and reservation ratios against iterations: a line for each beta, a column for each rule, two rows for
    each data set.
    """
    names = list(report["data"])
    rules = [
        row["rule"] for row in report["data"][names[0]]["rows"] if row["solver"] == "dense" and row["rule"] != "none"
    ]
    figure = require_matplotlib()(figsize=(0.6 + 3.0 * len(rules), 0.8 + 4.4 * len(names)), layout="constrained")
    grid = figure.subplots(2 * len(names), len(rules), squeeze=False, sharey=True)
    for number, name in enumerate(names):
        rows = {row["rule"]: row for row in report["data"][name]["rows"] if row["solver"] == "dense"}
        for column, rule in enumerate(rules):
            above, below = grid[2 * number][column], grid[2 * number + 1][column]
            for color, curve in enumerate(rows[rule]["curves"]):
                _line(above, below, curve, f"C{color}")
            above.set_title(f"{name}: {rule}", fontsize=9)
            below.set_xlabel("iterations at this beta")
            for axis in (above, below):
                axis.set_ylim(-0.03, 1.03)
                axis.grid(alpha=0.25)
        grid[2 * number][0].set_ylabel("rejection ratio")
        grid[2 * number + 1][0].set_ylabel("reservation ratio")
    grid[0][0].legend(fontsize=7, title="beta / beta_max", title_fontsize=7)
    save_figure(figure, path)


def _line(above: Any, below: Any, curve: dict[str, Any], color: str) -> None:
    """The ratios as steps, from the screening before the first iteration to the last iteration."""
    size, zeros = curve["size"], curve["zeros"]
    iterations = [s[0] for s in curve["screenings"]] + [curve["iterations"]]
    kept = [s[2] for s in curve["screenings"]]
    kept.append(kept[-1] if kept else size)
    style = {"where": "post", "color": color, "linewidth": 1.3, "marker": ".", "markersize": 4}
    above.step(iterations, [(size - k) / zeros if zeros else 1.0 for k in kept], label=f"{curve['beta']:.2f}", **style)
    below.step(iterations, [k / size for k in kept], **style)


def draw_gaps(path: Path, report: dict[str, Any]) -> None:
    """The share of the optimum's zeros that are removed, against the gap divided by the objective, for up to eight
    betas.
    """
    figure = require_matplotlib()(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    rows = [row for row in report["rows"] if row["iterations"] > 0]
    step = max(1, -(-len(rows) // 8))
    for color, row in enumerate(rows[::-step][::-1]):
        gaps, shares = zip(*row["curve"], strict=True)
        axis.plot(gaps, shares, marker=".", linewidth=1.3, color=f"C{color}", label=f"{row['beta']:.2f}")
    axis.axhline(0.8, color="grey", linewidth=0.8, linestyle=":")
    for gap in (1e-4, 1e-6):
        axis.axvline(gap, color="grey", linewidth=0.8, linestyle=":")
    axis.set(
        xscale="log", xlabel="duality gap / objective", ylabel="removed, of the optimum's zeros", ylim=(-0.03, 1.03)
    )
    axis.invert_xaxis()
    axis.legend(title="beta / beta_max", fontsize=8, title_fontsize=8)
    axis.set_title(f"chains: {report['examples']} words, {report['weights']} weights, by the gap in l1", fontsize=10)
    save_figure(figure, path)


def draw_counts(path: Path, report: dict[str, Any]) -> None:
    """The numbers of removed, remaining and nonzero weights, and F1, against beta."""
    figure = require_matplotlib()(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    betas = [row["beta"] for row in report["rows"]]
    for name, label in (
        ("by counts", "removed by counts"),
        ("by gap", "removed by the gap"),
        ("left", "not removed"),
        ("nonzeros", "not 0"),
    ):
        axis.plot(betas, [row[name] for row in report["rows"]], marker=".", label=label)
    axis.set(xlabel="beta / beta_max", ylabel="weights")
    logarithmic(axis)
    axis.set_yscale("symlog", linthresh=1)
    axis.set_ylim(bottom=0)
    axis.invert_xaxis()
    other = axis.twinx()
    other.plot(betas, [row["F1"] for row in report["rows"]], color="black", linestyle="--", label="F1")
    other.set(ylabel="F1 of the test sentences, %", ylim=(0, 100))
    figure.legend(loc="outside upper center", ncols=5, fontsize=8)
    axis.set_title(f"{report['examples']} sentences, {report['weights']} weights", fontsize=10)
    save_figure(figure, path)
