"""Pictures of what the panels return, where people look: in notebooks and scripts."""

import io
from collections.abc import Mapping
from typing import Any

from diptych.pictures.plots import convergence_figure, path_figure, require_matplotlib
from diptych.pictures.structures import show
from reference.screening.path import SparsePath
from reference.structures.base import Structure
from reference.training.result import Result

__all__ = ["notebook", "plot"]


def plot(what: Any, *, title: str = "") -> Any:
    """Draw a result, several results, or a path.

    Parameters
    ----------
    what : Result, mapping of names to Results, or SparsePath
        Of an optimiser or of :func:`sparse_path`, of either panel. Results are drawn as objectives and gaps against
        epochs and seconds, a curve for each; a path as its weights, and their number, against beta.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
        ``figure.savefig(path)`` writes it.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    TypeError
        Anything else.
    ValueError
        No results; a result or path without rows.
    """
    if isinstance(what, SparsePath):
        if not what.points:
            raise ValueError("what: expected a path with points, got one without")
        figure = path_figure(what)
        figure.suptitle(title)
        return figure
    results = what if isinstance(what, Mapping) else {getattr(what, "iterate", ""): what}
    if others := [type(each).__name__ for each in results.values() if not isinstance(each, Result)]:
        raise TypeError(f"what: expected a Result, a mapping to Results or a SparsePath, got {others[0]}")
    histories = {str(name): result.history for name, result in results.items() if result.history}
    if not histories or len(histories) < len(results):
        raise ValueError("what: expected results with rows of history, got one without, or none")
    return convergence_figure(histories, title)


def notebook() -> None:
    """Let IPython draw results, paths and structures where they are the last value of a cell.

    What cannot be drawn, such as a batch or a large structure, is printed as before. RuntimeError outside IPython;
    ImportError without it or without matplotlib.
    """
    from IPython import get_ipython

    require_matplotlib()
    if (shell := get_ipython()) is None:
        raise RuntimeError("notebook: expected to be called in IPython or a notebook")
    formatter = shell.display_formatter.formatters["image/png"]
    for kind, draw in ((Result, plot), (SparsePath, plot), (Structure, show)):
        formatter.for_type(kind, lambda value, draw=draw: _png(draw, value))


def _png(draw: Any, value: Any) -> bytes | None:
    """A drawn value; None where it cannot be drawn, so that IPython prints it."""
    try:
        figure = draw(value)
    except (TypeError, ValueError):  # InfeasibleError too
        return None
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=90)
    return content.getvalue()
