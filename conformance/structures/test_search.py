"""Best-first branch and bound against enumeration (Pillutla et al., Algorithm 13 and Proposition 15), over sets that
are simply lists.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


class Listed:
    """Outputs 0..m-1 in runs (first, end): the bound exceeds the best score of a run by what is drawn for it; empty
    runs are split off.
    """

    def __init__(self, scores, seed=0, looseness=1.0):
        self.scores, self.seed, self.looseness, self.asked = scores, seed, looseness, 0

    def everything(self):
        return (0, len(self.scores)) if self.scores else None

    def bound(self, run):
        self.asked += 1
        first, end = run
        excess = np.random.default_rng((self.seed, first, end)).exponential() if end > first + 1 else 0.0
        return max(self.scores[first:end]) + self.looseness * excess

    def split(self, run):
        first, end = run
        cuts = sorted(np.random.default_rng((self.seed, end, first)).integers(first, end + 1, 2).tolist())
        parts = [(a, b) for a, b in itertools.pairwise([first, *cuts, end])]
        if any(part == run for part in parts):
            parts = [(first, (first + end) // 2), ((first + end) // 2, end)]
        return [part if part[0] < part[1] else None for part in parts]

    def single(self, run):
        return run[0] if run[1] == run[0] + 1 else None


listings = st.lists(
    st.sampled_from([-2.5, -1.0, 0.0, -0.0, 1.0, 1.0 + 1e-12, 7.0, -np.inf, 1e300, 1e-300]), max_size=12
)


@given(
    scores=listings, seed=st.integers(0, 2**32 - 1), looseness=st.sampled_from([0.0, 0.5, 100.0]), k=st.integers(1, 14)
)
def test_the_k_best_are_those_of_the_enumeration(backend, scores, seed, looseness, k):
    """Proposition 15: distinct, in order, all of them where there are fewer than k; forbidden ones left out."""
    found = backend.branch_and_bound(Listed(scores, seed, looseness), k)
    allowed = sorted((s for s in scores if s > -np.inf), reverse=True)
    assert [s for s, _ in found] == allowed[:k]
    assert [scores[y] for _, y in found] == [s for s, _ in found]
    assert len({y for _, y in found}) == len(found)


def test_a_tight_bound_leaves_most_sets_alone(backend):
    space = Listed([-float((y - 700) ** 2) for y in range(1000)], looseness=0.0)
    assert [y for _, y in backend.branch_and_bound(space, 3)] in ([700, 699, 701], [700, 701, 699])
    assert space.asked < 120


def test_a_bound_that_is_none_is_found(backend):
    """The best of a pair is above the bound of the pair: the message names the output, its score and the bound;
    rounding is let pass.
    """

    class Wrong(Listed):
        def bound(self, run):
            return max(self.scores[run[0] : run[1]]) - (0.0 if run[1] == run[0] + 1 else self.looseness)

    with pytest.raises(
        ValueError, match="bound: expected an upper bound, got 2.5 for a set with the output 1 of score 3.0"
    ):
        backend.branch_and_bound(Wrong([1.0, 3.0], looseness=0.5), 1)
    assert backend.branch_and_bound(Wrong([1.0, 3.0], looseness=1e-12), 2, tolerance=1e-9) == [(3.0, 1), (1.0, 0)]

    class Nan(Listed):
        def bound(self, run):
            return np.nan

    class Infinite(Listed):
        def bound(self, run):
            return np.inf

    for kind in (Nan, Infinite):
        with pytest.raises(ValueError, match="bound: expected a finite number, or -inf where all is forbidden, got"):
            backend.branch_and_bound(kind([1.0, 2.0]), 1)


def test_options_are_checked(backend):
    for k, error in ((0, ValueError), (True, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="k: expected an integer >= 1"):
            backend.branch_and_bound(Listed([1.0]), k)
    with pytest.raises(ValueError, match="tolerance: expected a finite number >= 0"):
        backend.branch_and_bound(Listed([1.0]), 1, tolerance=-1.0)
    assert backend.branch_and_bound(Listed([]), 3) == [] and backend.branch_and_bound(Listed([-np.inf]), 3) == []
