"""Figures of images with their true boxes and predicted boxes. matplotlib is imported when a figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diptych.pictures.plots import require_matplotlib, save_figure

__all__ = ["Frame", "boxes"]

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
        _outline(axis, frame.truth, TRUE, 2.2)
        _outline(axis, frame.predicted, RIGHT if right else WRONG, 1.4)
        overlap = "" if frame.overlap is None else f", overlap {frame.overlap:.2f}"
        axis.set_title((frame.title + overlap).replace("$", r"\$"), fontsize=7)
    legend = [(any(f.truth is not None for f in frames), TRUE, "true")]
    legend += [(any(f.predicted is not None for f in frames), RIGHT, "found")]
    legend += [(any(f.overlap is not None and f.overlap < 0.5 for f in frames), WRONG, "found, wrong")]
    lines = [axes[0].plot([], [], color=color, label=label)[0] for present, color, label in legend if present]
    if lines:
        figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    save_figure(figure, path)


def _outline(axis: Any, box: np.ndarray | None, color: str, width: float) -> None:
    if box is None:
        return
    top, left, bottom, right = (float(v) - 0.5 for v in box)
    axis.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color=color, linewidth=width)
