"""Figures of convergence, paths, words, alignments and binary pictures.

The suffix of a file name is the format: .png, .pdf or .svg. matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import host
from reference.files import save_bytes
from reference.screening.path import SparsePath
from reference.training.result import Row

FORMATS = (".png", ".pdf", ".svg")
LABELS = 6  # of an axis; more would overlap


def require_matplotlib() -> Any:
    """matplotlib's Figure class, without pyplot's global state. ImportError names the package to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'diptych[plots]'") from None
    return Figure


def writable_figure(path: str | Path) -> None:
    """Raise ValueError for an unknown suffix, ImportError without matplotlib."""
    if Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: expected a name that ends with {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    require_matplotlib()


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure in the format of its name, completely or not at all. OSError if the file cannot be written."""
    writable_figure(path)
    content = io.BytesIO()
    figure.savefig(content, format=Path(path).suffix[1:].lower(), dpi=120)
    save_bytes(path, content.getvalue())


def whole(axis: Any) -> None:
    """Ticks of a horizontal or vertical axis at integers alone, also if it shows a single number."""
    axis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def logarithmic(axes: Any) -> None:
    """Make the horizontal axis logarithmic, with a few labels at 1, 2 and 5 times powers of ten. It stays linear if the
    positive numbers of the drawn lines are all within a factor of 2.
    """
    numbers = np.concatenate([[], *(np.asarray(line.get_xdata(), np.float64) for line in axes.get_lines())])
    numbers = numbers[(numbers > 0) & np.isfinite(numbers)]
    if numbers.size == 0 or (most := numbers.max()) < 1.99 * (least := numbers.min()):
        axes.locator_params(axis="x", nbins=LABELS - 1)
        return
    axes.set_xscale("log")
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    for steps, every in ((1, 2, 5), 1), ((1,), 1), ((1,), -(-len(decades) // LABELS)):
        ticks = [float(f"{step}e{e}") for e in decades[::every] for step in steps]
        ticks = [t for t in ticks if 0.99 * least <= t <= 1.01 * most]
        if len(ticks) <= LABELS:
            break
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def convergence(path: str | Path, histories: Mapping[str, Sequence[Row]], title: str) -> None:
    """Write :func:`convergence_figure`."""
    save_figure(convergence_figure(histories, title), path)


def convergence_figure(histories: Mapping[str, Sequence[Row]], title: str) -> Any:
    """Objective against epochs and seconds, and duality gap if there is one; a curve for each history."""
    every = histories.items()
    gaps = {name: [(row.epoch, row.gap / abs(row.objective)) for row in history if row.gap] for name, history in every}
    columns = 3 if any(gaps.values()) else 2
    figure = require_matplotlib()(figsize=(4.5 * columns, 3.6), layout="constrained")
    by_epoch, by_second, *by_gap = figure.subplots(1, columns)
    by_second.sharey(by_epoch)
    for number, (name, history) in enumerate(histories.items()):
        size = 6 if len(history) <= 30 else 0
        style = {"label": name, "marker": "os"[number % 2], "markersize": size, "alpha": 0.8}
        style["linewidth"] = 3 - 1.5 * (number % 2)
        by_epoch.plot([row.epoch for row in history], [row.objective for row in history], **style)
        by_second.plot([row.seconds for row in history], [row.objective for row in history], **style)
        for axis in by_gap:
            axis.plot([epoch for epoch, _ in gaps[name]], [gap for _, gap in gaps[name]], **style)
    by_epoch.set(xlabel="epochs", ylabel="objective")
    by_second.set(xlabel="seconds")
    logarithmic(by_second)
    for axis in by_gap:
        axis.set(xlabel="epochs", ylabel="gap / objective", yscale="log")
    for axis in (by_epoch, *by_gap):
        whole(axis.xaxis)
    by_epoch.legend()
    figure.suptitle(title)
    return figure


def confusions(path: str | Path, confusions: Sequence[Mapping[str, Any]], title: str, most: int = 20) -> None:
    """How often each label is taken for which: a table of the ``most`` labels with most mistakes, its cells coloured by
    their logarithm.
    """
    share = dict[str, int]()
    for each in confusions:
        for label in (each["true"], each["predicted"]):
            share[label] = share.get(label, 0) + each["count"]
    names = sorted(sorted(share, key=lambda label: (-share[label], label))[:most])
    table, place = np.zeros((len(names), len(names))), {name: i for i, name in enumerate(names)}
    for each in confusions:
        if each["true"] in place and each["predicted"] in place:
            table[place[each["true"]], place[each["predicted"]]] = each["count"]
    side = 2.0 + 0.4 * max(len(names), 4)
    figure = require_matplotlib()(figsize=(side, side), layout="constrained")
    axis = figure.subplots()
    axis.imshow(np.log1p(table) if names else [[0.0]], cmap="Blues")
    for i, j in np.argwhere(table).tolist():
        dark = table[i, j] ** 2 > table.max()
        axis.text(j, i, int(table[i, j]), ha="center", va="center", fontsize=7, color="white" if dark else "black")
    axis.set_xticks(range(len(names)), names, rotation=90)
    axis.set_yticks(range(len(names)), names)
    axis.set(xlabel="predicted", ylabel="true", title=title if names else f"{title}: no mistakes")
    save_figure(figure, path)


def runs(path: str | Path, records: Sequence[Mapping[str, Any]], against: Sequence[str]) -> None:
    """Distances from a bound, or objectives without a bound, of each run from ``curves``.

    against: the horizontal axes, among "calls", "seconds" and "epochs".
    """
    figure = require_matplotlib()(figsize=(5.0 * len(against), 3.8), layout="constrained")
    labels = {"calls": "oracle calls", "seconds": "seconds", "epochs": "epochs"}
    axes = figure.subplots(1, len(against), squeeze=False, sharey=True)[0]
    for axis, what in zip(axes, against, strict=True):
        for run in records:
            heights = run["objective"] if run["distance"] is None else run["distance"]
            shown = [(x, y) for x, y in zip(run[what], heights, strict=True) if run["distance"] is None or y > 0]
            marker = "o" if len(shown) <= 30 else None
            axis.plot([x for x, _ in shown], [y for _, y in shown], label=run["name"], marker=marker, markersize=3)
        axis.set(xlabel=labels[what])
        axis.locator_params(axis="x", nbins=LABELS - 1)
        if what != "seconds":
            whole(axis.xaxis)
    logarithmic = records[0]["distance"] is not None
    axes[0].set(ylabel="(objective - best dual) / |best dual|" if logarithmic else "objective")
    axes[0].set_yscale("log" if logarithmic else "linear")
    axes[0].legend(fontsize=8)
    save_figure(figure, path)


def grid(path: str | Path, curves: Mapping[str, Sequence[tuple[str, Any, Any]]], name: str, score: str) -> None:
    """A score against the values of an option: of each curve, points (value, mean, deviation), with None where there is
    none. The axis is logarithmic if the values are positive numbers that differ, and not integers within one order of
    magnitude. A mean of a single run has no error bar.
    """
    figure = require_matplotlib()(figsize=(5.5, 3.8), layout="constrained")
    axis = figure.subplots()
    values = [value for points in curves.values() for value, _, _ in points]
    numbers = [float(value) for value in values if _is_number(value)]
    numeric = len(numbers) == len(values)
    for label, points in curves.items():
        shown = [point for point in points if point[1] is not None]
        x = [float(value) if numeric else value for value, _, _ in shown]
        (line,) = axis.plot(x, [mean for _, mean, _ in shown], label=label or None, marker="o", markersize=3)
        if bars := [(at, mean, spread) for at, (_, mean, spread) in zip(x, shown, strict=True) if spread is not None]:
            axis.errorbar(*zip(*bars, strict=True), fmt="none", ecolor=line.get_color(), capsize=3)
    integers = numeric and all(number.is_integer() for number in numbers)
    if numeric and min(numbers) > 0 and (not integers or max(numbers) >= 10 * min(numbers)):
        logarithmic(axis)
    elif integers:
        whole(axis.xaxis)
    axis.set(xlabel=name, ylabel=score)
    if any(curves):
        axis.legend(fontsize=8)
    save_figure(figure, path)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def plot_path(file: str | Path, path: SparsePath, **options: Any) -> None:
    """Write :func:`path_figure`, whose options it takes."""
    save_figure(path_figure(path, **options), file)


def path_figure(
    path: SparsePath,
    *,
    held_out: Any = None,
    chosen: int | None = None,
    most: int = 300,
    weight: str = "beta",
    held: str = "mean held-out loss",
) -> Any:
    """The weights of a path of sparse CRFs, the number of nonzero weights and the held-out loss, against beta.

    Parameters
    ----------
    path : SparsePath
    held_out : array (k',), optional
        Mean held-out loss at the first k' values of the path.
    chosen : int, optional
        Index of the point to mark.
    most : int
        The largest number of weights to draw. The largest weights are drawn.
    weight, held : str
        What beta and the values ``held_out`` are called.
    """
    columns = 3 if held_out is not None and len(held_out) > 0 else 2
    top = path.beta_max or max(path.betas)
    shares, drawn = path.betas / top, _largest(path, most)
    figure = require_matplotlib()(figsize=(4.8 * columns, 3.8), layout="constrained")
    weights, sizes, *losses = figure.subplots(1, columns)
    marker = {"marker": "o", "markersize": 3} if len(shares) <= 30 else {}
    for column in drawn.T:
        weights.plot(shares, column, linewidth=0.8)
    weights.set(ylabel="weights" if drawn.shape[1] < most else f"the {most} largest weights")
    sizes.plot(shares, [point.nonzeros for point in path.points], color="black", **marker)
    sizes.set(ylabel=f"nonzero weights, of {path.size}", ylim=(0, None))
    whole(sizes.yaxis)
    for axis in losses:
        axis.plot(shares[: len(held_out)], held_out, color="black", **marker)
        axis.set(ylabel=held)
    for axis in (weights, sizes, *losses):
        axis.set(xlabel=f"{weight} / {weight}_max")
        logarithmic(axis)
        axis.xaxis.set_inverted(True)
        if chosen is not None:
            axis.axvline(shares[chosen], color="crimson", linewidth=1, linestyle="--")
    if chosen is not None:
        title = f"{weight} = {path.betas[chosen]:.3g}: {path.points[chosen].nonzeros} weights"
        sizes.set_title(title, fontsize=9, color="crimson")
    return figure


def _largest(path: SparsePath, most: int) -> np.ndarray:
    """(k, m): the m weights with the largest maximum along the path, at each point."""
    heights = np.zeros(path.size)
    for point in path.points:
        heights[point.support] = np.maximum(heights[point.support], np.abs(host(point.values)))
    kept = np.argsort(-heights, kind="stable")[: min(most, int(np.count_nonzero(heights)))]
    return np.stack([host(path.weights(k))[kept] for k in range(len(path.points))])


def words(path: str | Path, pixels: Sequence[np.ndarray], read: Sequence[tuple[str, str]]) -> None:
    """Each word's characters (n, 128) as a strip, above the predicted letters. Wrong letters are red, with the true
    letter below.
    """
    figure = require_matplotlib()(figsize=(9, 1.15 * ((len(read) + 1) // 2)), layout="constrained")
    axes = figure.subplots((len(read) + 1) // 2, 2, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    longest = max((len(truth) for truth, _ in read), default=1)
    for axis, x, (truth, predicted) in zip(axes, pixels, read, strict=False):
        strip = np.concatenate([np.pad(character.reshape(16, 8), ((0, 0), (1, 1))) for character in x], axis=1)
        axis.imshow(1 - strip, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set(xlim=(-0.5, 10 * longest + 9.5), ylim=(29.5, -0.5))
        for t, (y, z) in enumerate(zip(truth, predicted, strict=True)):
            style = {"x": 10 * t + 4.5, "ha": "center", "va": "center", "fontsize": 9}
            axis.text(y=20, s=z, color="black" if y == z else "crimson", **style)
            if y != z:
                axis.text(y=26, s=f"({y})", color="grey", **style)
    save_figure(figure, path)


def alignment(
    path: str | Path, left: Sequence[str], right: Sequence[str], scores: np.ndarray, columns: np.ndarray
) -> None:
    """The scores (p, q) of all pairs of two lists, from low (light) to high (dark). The aligned pairs are framed."""
    size = (2.5 + 0.28 * max(len(right), 4), 2.0 + 0.28 * max(len(left), 4))
    figure = require_matplotlib()(figsize=size, layout="constrained")
    axis = figure.subplots()
    if scores.size:
        figure.colorbar(axis.imshow(scores, cmap="Greys", interpolation="nearest"), label="score", shrink=0.7)
    for i in np.flatnonzero(columns >= 0):
        outline(axis, np.array([i, columns[i], i + 1, columns[i] + 1]), "crimson", 1.8)
    # "$" would start a formula
    across, down = ([text.replace("$", r"\$") for text in texts] for texts in (right, left))
    axis.set_xticks(range(len(right)), across, rotation=60, ha="right", fontsize=8)
    axis.set_yticks(range(len(left)), down, fontsize=8)
    save_figure(figure, path)


def pictures(path: str | Path, shown: Mapping[str, np.ndarray]) -> None:
    """Binary pictures (h, w) of one size with their names, ink black, in a row; wide pictures in a column."""
    height, width = next(iter(shown.values())).shape
    rows, columns = (len(shown), 1) if width > 2 * height else (1, len(shown))
    side = min(5.0, 9.0 / columns)
    figure = require_matplotlib()(figsize=(columns * side, rows * (side * height / width + 0.3)), layout="constrained")
    for axis, (name, picture) in zip(figure.subplots(rows, columns, squeeze=False).ravel(), shown.items(), strict=True):
        axis.imshow(1 - picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(name, fontsize=9)
        axis.set(xticks=[], yticks=[])
    save_figure(figure, path)


# figures of images with their true boxes and predicted boxes. matplotlib is imported when a figure is drawn ----------

TRUE, RIGHT, WRONG = "tab:green", "tab:blue", "crimson"


class Frame(NamedTuple):
    """An image (height, width) uint8, its true box (4,) or None, the predicted box (4,) or None, a title, and the
    overlap of the boxes or None.
    """

    picture: np.ndarray
    truth: np.ndarray | None
    predicted: np.ndarray | None
    title: str
    overlap: float | None


def boxes(path: str | Path, frames: Sequence[Frame]) -> None:
    """Images in a grid. True boxes are green; predicted boxes are blue if the overlap is at least 0.5, else red."""
    columns = min(6, len(frames))
    rows = -(-len(frames) // columns)
    figure = require_matplotlib()(figsize=(2.0 * columns, 2.3 * rows + 0.3), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, frame in zip(axes, frames, strict=False):
        axis.imshow(frame.picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        right = frame.overlap is None or frame.overlap >= 0.5
        outline(axis, frame.truth, TRUE, 2.2)
        outline(axis, frame.predicted, RIGHT if right else WRONG, 1.4)
        overlap = "" if frame.overlap is None else f", overlap {frame.overlap:.2f}"
        axis.set_title((frame.title + overlap).replace("$", r"\$"), fontsize=7)
    legend = [(any(f.truth is not None for f in frames), TRUE, "true")]
    legend += [(any(f.predicted is not None for f in frames), RIGHT, "found")]
    legend += [(any(f.overlap is not None and f.overlap < 0.5 for f in frames), WRONG, "found, wrong")]
    lines = [axes[0].plot([], [], color=color, label=label)[0] for present, color, label in legend if present]
    if lines:
        figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    save_figure(figure, path)


def outline(axis: Any, box: np.ndarray | None, color: str, width: float) -> None:
    if box is None:
        return
    top, left, bottom, right = (float(v) - 0.5 for v in box)
    axis.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color=color, linewidth=width)
