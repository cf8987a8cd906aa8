"""A tagger for use: templates parsed, attributes numbered and weights laid out once, then a sentence at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from accelerated.compiled.epochs.tagging import tag_sentence
from reference.arrays import Array
from reference.example_errors import Example, each_example, listed
from reference.models.bound import BoundModel
from reference.models.macros import Line, expanded, line_of
from reference.models.token_templates import Atom, atoms_of, column_of, columns_of, columns_of_sentence

__all__ = ["Tagger"]


class _Plan(NamedTuple):
    """A template that looks at columns: what its attributes' names begin with, its atoms, its least and greatest
    offset."""

    prefix: str
    atoms: list[Atom]
    low: int
    high: int


class Tagger(BoundModel):
    """As :class:`reference.models.bound.BoundModel`; sentences of columns are tagged one by one by a kernel."""

    def __init__(self, model: Any, w: Array) -> None:
        super().__init__(model, w)
        self._quick = type(self.w) is np.ndarray and self.w.dtype == np.float64 and isinstance(model.templates, tuple)
        self._quick = self._quick and not model.n_edge_features
        self._quick = self._quick and bool(np.all(np.abs(self.w) < 2.0**960))  # scores that overflow are refused there
        if self._quick:
            self._columns = columns_of(model.templates)
            self._plans = [_planned(template) for template in model.templates]
            self._atoms = {atom for plan in self._plans if isinstance(plan, _Plan) for atom in plan.atoms}
            self._lookup = model.lookup(self.w)

    def __call__(self, X: Any) -> list[Any]:
        X = listed("X", X)
        if not self._quick or not all(isinstance(x, Mapping) for x in X):
            return super().__call__(X)
        taggings = each_example("X", X, self._tagged)
        if any(labels is None for labels in taggings):  # every labelling of a sentence is forbidden
            return super().__call__(X)
        return taggings

    def _tagged(self, name: Example, x: Any) -> np.ndarray | None:
        x = columns_of_sentence(name, x, self._columns)
        n = len(next(iter(x.values()), ()))
        if n == 0:
            return np.empty(0, np.int64)
        labels = np.empty(n, np.int64)
        tag_sentence(self._rows(x, n), self._lookup, labels)
        return labels if labels[0] >= 0 else None

    def _rows(self, x: Any, n: int) -> np.ndarray:
        """The row of each template's attribute at each of n tokens, (n, templates); -1 where there is none."""
        values = {(column, how): column_of(x[column], how) for column, how, _ in self._atoms}
        rows = np.full((n, len(self._plans)), -1)
        for k, plan in enumerate(self._plans):
            if isinstance(plan, Line):
                if plan.attributes:
                    rows[:, k] = self.model._rows_of(expanded(plan, x, n))
                continue
            if isinstance(plan, str):
                places: Any = {"bias": slice(n), "BOS": 0, "EOS": n - 1}[plan]
                rows[places, k] = self.model._rows_of([plan])[0]
                continue
            begin, end = max(0, -plan.low), min(n, n - plan.high)
            if begin < end:
                seen = [values[column, how][begin + offset : end + offset] for column, how, offset in plan.atoms]
                names = seen[0] if len(seen) == 1 else map("|".join, zip(*seen, strict=True))
                rows[begin:end, k] = self.model._rows_of([plan.prefix + name for name in names])
        return rows


def _planned(template: str) -> _Plan | Line | str:
    """What :meth:`Tagger._rows` needs of a template; bias, BOS and EOS stay as they are."""
    if (line := line_of(template)) is not None:
        return line
    atoms = atoms_of(template)
    offsets = [offset for _, _, offset in atoms]
    return _Plan(f"{template}=", atoms, min(offsets), max(offsets)) if atoms else template
