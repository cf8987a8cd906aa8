"""Best Max-Marginal First: the k best outputs of any structure with max-marginals under constraints.

The outputs are partitioned into sets. Each set is given by the allowed states of each variable and stores its best
output. The next best output differs from the best output of its set in the state of some variable, so its score is the
largest max-marginal of the other states. Its set is split by this state. Source: Pillutla et al., section 4.2.1,
appendix C.1 and Algorithm 10 (after Yanover and Weiss).
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
        A single instance (no batch) with the methods ``best``, ``constrained`` and ``node_max_marginals``.
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
        The structure lacks one of the three methods.
    ValueError
        A batch, k < 1, or k outputs of more than 2^28 numbers together.

    Notes
    -----
    k calls of ``best``, at most 2 k - 3 sets of max-marginals (those of the last two sets are not needed), and O(k p L)
    time to compare them. Memory O(k p L). Ties: the older set first, then the smaller variable, then the smaller state.
    The sets are disjoint, so no output is found twice, however max-marginals are rounded. Outputs whose scores differ
    by less than the rounding of max-marginals are ordered by the scores of ``best``.

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

    def limited(allowed: np.ndarray) -> Structure:
        return structure.constrained(array_namespace(field).asarray(allowed, device=device(field)))

    cells: list[_Cell] = []
    _add(cells, structure, np.ones((1, 1), bool))  # every state of every variable
    while cells and len(cells) < k:
        for cell in cells:
            cell.update()
        parent = max(cells, key=lambda cell: cell.next_score)  # the first of equals
        if parent.next_score == -np.inf:
            break
        inside, outside = parent.halves()
        if _add(cells, limited(inside), inside):
            parent.narrow(limited(outside), outside)
    cells.sort(key=lambda cell: -cell.value)  # the rounding of max-marginals may have changed the order
    place = Place.of(field)
    labels = np.array([host(cell.y) for cell in cells], np.int64)
    scores = place.floats([cell.value for cell in cells])
    return k_best(scores, place.integers(labels.reshape(len(cells), field.shape[0])), k)


def _add(cells: list[_Cell], outputs: Structure, allowed: np.ndarray) -> bool:
    """Add a set of outputs. False if the set is empty, which rounded max-marginals may hide."""
    try:
        cells.append(_Cell(outputs, allowed))
    except InfeasibleError:
        return False
    return True


class _Cell:
    """The outputs with allowed states, C^(s), and the best of them, y^(s). Raises InfeasibleError."""

    def __init__(self, outputs: Structure, allowed: np.ndarray) -> None:
        self.outputs, self.allowed = outputs, allowed
        value, self.y = outputs.best()
        self.value, self.states = float(value), outputs.states(self.y)
        self.is_current = False  # whether the max-marginals are those of ``outputs``

    def update(self) -> None:
        """Compute phi^(s) without the states of y^(s), and the largest: the best score of the other outputs."""
        if not self.is_current:
            phi = host(self.outputs.node_max_marginals())
            self.allowed = np.broadcast_to(self.allowed, phi.shape)
            own = np.arange(phi.shape[1]) == self.states[:, None]
            self.others = np.where(self.allowed & ~own, phi, -np.inf)
            self.next_score, self.is_current = self.others.max(initial=-np.inf), True

    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """The allowed states of the two halves, with the state of the next best output and without it."""
        v, j = np.unravel_index(np.argmax(self.others), self.others.shape)
        inside, outside = self.allowed.copy(), self.allowed.copy()
        inside[v] = np.arange(inside.shape[1]) == j
        outside[v, j], self.others[v, j] = False, -np.inf
        self.next_score = self.others.max()
        return inside, outside

    def narrow(self, outputs: Structure, allowed: np.ndarray) -> None:
        """Replace the outputs by a subset with the same best output."""
        self.outputs, self.allowed, self.is_current = outputs, allowed, False
