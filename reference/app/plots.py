"""Pictures: convergence curves and words with the letters read. Needs matplotlib, imported when a picture is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reference.optimizers.result import Row

__all__ = ["convergence", "require_matplotlib", "words"]


def require_matplotlib() -> Any:
    """The figure class, without touching pyplot's global state; ImportError says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'diptych[plots]'") from None
    return Figure


def convergence(path: str | Path, histories: Mapping[str, Sequence[Row]], title: str) -> None:
    """Objective against epochs and against seconds, one curve for each history, as PNG."""
    figure = require_matplotlib()(figsize=(9, 3.6), layout="constrained")
    by_epoch, by_second = figure.subplots(1, 2, sharey=True)
    for number, (name, history) in enumerate(histories.items()):
        style = {"label": name, "marker": "os"[number % 2], "linewidth": 3 - 1.5 * (number % 2), "alpha": 0.8}
        by_epoch.plot([row.epoch for row in history], [row.objective for row in history], **style)
        by_second.plot([row.seconds for row in history], [row.objective for row in history], **style)
    by_epoch.set(xlabel="epochs", ylabel="objective")
    by_epoch.xaxis.get_major_locator().set_params(integer=True)
    by_second.set(xlabel="seconds", xscale="log")
    by_epoch.legend()
    figure.suptitle(title)
    figure.savefig(path, format="png", dpi=120)


def words(path: str | Path, pixels: Sequence[np.ndarray], read: Sequence[tuple[str, str]]) -> None:
    """Each word's characters (n, 128) as one strip, over the letters read; wrong letters in red, the true one below."""
    figure = require_matplotlib()(figsize=(9, 1.15 * ((len(read) + 1) // 2)), layout="constrained")
    axes = figure.subplots((len(read) + 1) // 2, 2, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    longest = max((len(truth) for truth, _ in read), default=1)
    for axis, x, (truth, guess) in zip(axes, pixels, read, strict=False):
        strip = np.concatenate([np.pad(character.reshape(16, 8), ((0, 0), (1, 1))) for character in x], axis=1)
        axis.imshow(1 - strip, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set(xlim=(-0.5, 10 * longest + 9.5), ylim=(29.5, -0.5))
        for t, (y, z) in enumerate(zip(truth, guess, strict=True)):
            at = {"x": 10 * t + 4.5, "ha": "center", "va": "center", "fontsize": 9}
            axis.text(y=20, s=z, color="black" if y == z else "crimson", **at)
            if y != z:
                axis.text(y=26, s=f"({y})", color="grey", **at)
    figure.savefig(path, format="png", dpi=120)
