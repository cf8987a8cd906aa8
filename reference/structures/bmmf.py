"""Best Max-Marginal First: the k best outputs of any structure that answers constrained max-marginals.

The outputs are divided into disjoint sets, each given by the states that are allowed to each variable, and each with
its best output. The best output not found yet differs from the best of its own set in the state of some variable, so it
is the largest of the max-marginals of other states; there its set is cut in two. Source: Pillutla et al., section
4.2.1, appendix C.1 and Algorithm 10 (after Yanover and Weiss).
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device

from reference.arrays import Place, host
from reference.structures.base import InfeasibleError, KBest, Structure, k_best, positive_k

__all__ = ["bmmf"]


def bmmf(structure: Structure, k: int) -> KBest:
    """The k best distinct outputs, from max-marginals under constraints (the top-K oracle).

    y^(k) = argmax of score(y) over C^(s) with y_v = j, where (v, j, s) is the largest phi^(s)(v, j) with j != y^(s)_v,
    and phi^(s)(v, j) = max of score(y) over C^(s) with y_v = j; then C^(k) = C^(s) with y_v = j, and C^(s) loses
    y_v = j

    Parameters
    ----------
    structure : Structure
        One instance (no batch) that answers ``best``, ``constrained`` and ``node_max_marginals``.
    k : int >= 1
        May exceed the number of outputs.

    Returns
    -------
    KBest
        scores (k,) from high to low, then -inf; labels (k, p), -1 beyond ``count``; count (), the number of outputs
        found: k, or all that are not forbidden.

    Raises
    ------
    UnsupportedError
        The structure lacks one of the three questions.
    ValueError
        A batch; k < 1, or so large that k outputs are more than 2^28 numbers.

    Notes
    -----
    k calls of ``best`` and at most 2 k - 3 sets of max-marginals, besides O(k p L) to look at each: those of the last
    two sets would not be looked at, and are not asked for. Memory O(k p L). Equal scores in the order in which they
    were found: the older set first, then the smaller variable, then the smaller state. The sets are disjoint, so that
    nothing is found twice, however max-marginals are rounded; the order of scores that differ by less than their
    rounding is that of ``best``.

    Source
    ------
    Pillutla et al., Algorithm 10 and Theorem 46, *corrected* so that scores may tie and k may exceed the number of
    outputs: y^(k) is an actual maximiser over C^(k), not decoded variable by variable; only finite max-marginals are
    candidates.
    """
    if not isinstance(structure, Structure):
        raise TypeError(f"structure: expected a Structure, got {type(structure).__name__}")
    if structure.variables is None:
        raise structure._lacks("constrained")
    field = getattr(structure.scores, structure.variables)
    if field.ndim != 2:
        raise ValueError(f"structure: expected a single one, got a batch of shape {tuple(field.shape[:-2])}")
    k = positive_k(k, field.shape[0])

    def within(allowed: np.ndarray) -> Structure:
        return structure.constrained(array_namespace(field).asarray(allowed, device=device(field)))

    cells: list[_Cell] = []
    _add(cells, structure, np.ones((1, 1), bool))  # every state of every variable
    while cells and len(cells) < k:
        for cell in cells:
            cell.look()
        parent = max(cells, key=lambda cell: cell.promise)  # the first of equals
        if parent.promise == -np.inf:
            break
        inside, outside = parent.halves()
        if _add(cells, within(inside), inside):
            parent.narrow(within(outside), outside)
    cells.sort(key=lambda cell: -cell.value)  # in order, but for the rounding of max-marginals
    place = Place.of(field)
    labels = np.array([host(cell.y) for cell in cells], np.int64)
    scores = place.floats([cell.value for cell in cells])
    return k_best(scores, place.integers(labels.reshape(len(cells), field.shape[0])), k)


def _add(cells: list[_Cell], outputs: Structure, allowed: np.ndarray) -> bool:
    """Add a set of outputs; whether there are any (a finite max-marginal may owe that to rounding)."""
    try:
        cells.append(_Cell(outputs, allowed))
    except InfeasibleError:
        return False
    return True


class _Cell:
    """The outputs with allowed states, C^(s), and the best of them, y^(s). Raises InfeasibleError if there is none."""

    def __init__(self, outputs: Structure, allowed: np.ndarray) -> None:
        self.outputs, self.allowed = outputs, allowed
        value, self.y = outputs.best()
        self.value, self.states = float(value), outputs.states(self.y)
        self.known = False  # whether the max-marginals have been asked for

    def look(self) -> None:
        """phi^(s) without the states of y^(s), and the largest: the best score among the other outputs."""
        if not self.known:
            phi = host(self.outputs.node_max_marginals())
            self.allowed = np.broadcast_to(self.allowed, phi.shape)
            own = np.arange(phi.shape[1]) == self.states[:, None]
            self.others = np.where(self.allowed & ~own, phi, -np.inf)
            self.promise, self.known = self.others.max(initial=-np.inf), True

    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """The states that are allowed with the most promising state, and without it, which is promising no more."""
        v, j = np.unravel_index(np.argmax(self.others), self.others.shape)
        inside, outside = self.allowed.copy(), self.allowed.copy()
        inside[v] = np.arange(inside.shape[1]) == j
        outside[v, j], self.others[v, j] = False, -np.inf
        self.promise = self.others.max()
        return inside, outside

    def narrow(self, outputs: Structure, allowed: np.ndarray) -> None:
        """Keep these outputs, of which the best is the same."""
        self.outputs, self.allowed, self.known = outputs, allowed, False
