"""Partly known labels in columns of labels: ``_`` stands for none, ``A|B`` for one of several."""

from __future__ import annotations

from typing import Any

from diptych.files.columns import Columns
from diptych.files.sources import Source

UNKNOWN, OR = "_", "|"


def partly_known(sentence: Columns) -> list[Any]:
    """The label of each token as models take it: a label, a set of labels, or None.

    Raises
    ------
    ValueError
        Naming file and line, where a side of ``|`` is empty or is ``_``.

    Examples
    --------
    >>> partly_known({"word": ("the", "duck", "dives"), "label": ("B-NP", "_", "O|B-VP")})[:2]
    ['B-NP', None]
    """
    labels: list[Any] = []
    for t, cell in enumerate(sentence["label"]):
        several = cell.split(OR)
        if len(several) > 1 and not {"", UNKNOWN}.isdisjoint(several):
            source = getattr(sentence, "source", None) or Source("label")
            raise ValueError(f"{source.at(t)}: expected a label on each side of {OR}, got {cell!r:.80}")
        labels.append(None if cell == UNKNOWN else frozenset(several) if len(several) > 1 else cell)
    return labels
