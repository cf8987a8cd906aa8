"""Recipe: add a structure in both panels, with kernels. Here: exactly m of p labels.

score(y) = sum_i values[i] y_i over y in {0, 1}^p with sum_i y_i = m. The sum is a dynamic programme: entry c after
label i is about the ways to choose c of the labels 0..i.
"""

# reference/structures/combination.py: the paper's loops, over arrays of any namespace ---------------------------------

import itertools
import math
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from accelerated.arrays import like, view
from accelerated.kernel import kernel
from accelerated.mirror import mirrors
from reference import Structure, arrays
from reference.arrays import Array, Place, host, logsumexp
from reference.structures.base import feasible, positive_mu


class CombinationScores(NamedTuple):
    """The scores (p,) of p labels, -inf forbids one; m of them are chosen."""

    values: Array
    m: int

    layout = ("m",)  # fields that are not scores


def best_combination(scores: CombinationScores) -> tuple[Array, Array]:
    """Highest score () and labels (p,) int64 of 0 and 1 that have it; -inf and -1 where fewer than m are allowed.

    Notes: time O(p log p); ties go to the smaller labels.
    """
    xp, values = array_namespace(scores.values), scores.values
    order = xp.argsort(values, descending=True, stable=True)
    chosen = xp.argsort(order) < scores.m
    labels, value = xp.astype(chosen, xp.int64), xp.sum(xp.where(chosen, values, xp.zeros_like(values)))
    return value, xp.where(value > -xp.inf, labels, xp.full_like(labels, -1))


def sum_over_combinations(scores: CombinationScores, mu: float = 1.0) -> tuple[Array, CombinationScores]:
    """mu log sum_y exp(score(y) / mu) and the probability (p,) of each label; -inf and 0 where there is none.

    Notes: time and memory O(p m); in log space, at any scale.
    Source: Chen and Liu (1997), the conditional Bernoulli distribution.
    """
    xp, z, m = array_namespace(scores.values), scores.values / mu, scores.m
    p = z.shape[0]
    if p == 0:
        return xp.sum(z), CombinationScores(z, m)
    before, taken = _rows(xp, z, m)
    after, _ = _rows(xp, xp.flip(z), m)
    log_z = before[p][m]
    joint = [logsumexp(xp, taken[i] + xp.flip(after[p - 1 - i]), axis=0) for i in range(p)]
    shift = xp.where(log_z > -xp.inf, log_z, xp.zeros_like(log_z))
    return mu * log_z, CombinationScores(xp.exp(xp.stack(joint) - shift), m)


def _rows(xp, z, m):
    """Log-sums (m+1,) over the ways to choose c of the first i labels; of the first i + 1, label i among them."""
    never = xp.full_like(z[:1], -xp.inf)
    rows, taken = [xp.concat([xp.zeros_like(never), *[never] * m])], []
    for i in range(z.shape[0]):
        taken.append(xp.concat([never, rows[i][:m] + z[i]]))
        rows.append(logsumexp(xp, xp.stack([rows[i], taken[i]]), axis=0))
    return rows, taken


class Combination(Structure):
    """Exactly m of p labels: values (p,), 0 <= m <= p. Raises ValueError, TypeError."""

    # where the functions come from; in the package: sys.modules[__name__], here and below
    ops = SimpleNamespace(
        best_combination=best_combination,
        sum_over_combinations=sum_over_combinations,
    )

    def __init__(self, values, m):
        (values,) = arrays.floats(values=values)
        if values.ndim != 1:
            raise ValueError(f"values: expected shape (p,), got {tuple(values.shape)}")
        arrays.refuse_nan_and_inf("values", values)
        super().__init__(CombinationScores(values, arrays.integer("m", m, 0, values.shape[0])))

    def best(self):
        value, y = self.ops.best_combination(self.scores)
        return feasible(value, "best"), y

    def expectation(self, mu=1.0):
        value, marginals = self.ops.sum_over_combinations(self.scores, positive_mu(mu))
        return feasible(value, "expectation"), marginals

    def parts(self, y):
        place, m = Place.of(self.scores.values), self.scores.m
        y = host(arrays.integers("y", y, place))
        if y.shape != self.scores.values.shape or set(y.tolist()) - {0, 1} or y.sum() != m:
            raise ValueError(f"y: expected {m} ones among {self.scores.values.shape[0]} labels of 0 and 1, got {y}")
        return CombinationScores(place.floats(y), m)

    def count(self):
        return math.comb(int(np.sum(host(self.scores.values) > -np.inf)), self.scores.m)

    def enumerate(self):
        values = host(self.scores.values)
        for chosen in itertools.combinations(np.flatnonzero(values > -np.inf), self.scores.m):
            yield tuple(int(i in chosen) for i in range(len(values)))


# accelerated/compiled/structures/combination.py: loops over float64 arrays, memory layouts in one line ----------------


@kernel
def sum_counts(values, m, mu, marginals):
    """mu log-partition; marginals (p,) in place, of C-ordered values (p,)."""
    p = len(values)
    before = np.full((p + 1, m + 1), -np.inf)  # [i, c]: the log-sum over the ways to choose c of the first i labels
    before[0, 0] = 0.0
    for i in range(p):
        before[i + 1, 0] = 0.0
        for c in range(1, min(i + 1, m) + 1):
            before[i + 1, c] = np.logaddexp(before[i, c], before[i, c - 1] + values[i] / mu)
    log_z = before[p, m]
    marginals[:] = 0.0
    if log_z == -np.inf:
        return log_z
    after = np.full(m + 1, -np.inf)  # [c]: of the labels after i
    after[0] = 0.0
    for i in range(p - 1, -1, -1):
        z = values[i] / mu
        for c in range(m):
            marginals[i] += np.exp(before[i, c] + after[m - 1 - c] + z - log_z)
        for c in range(m, 0, -1):
            after[c] = np.logaddexp(after[c], after[c - 1] + z)
    return mu * log_z


# accelerated/structures/combination.py: the reference's functions as kernels, under the reference's names -------------
# `import reference.structures.combination as reference`; what has no kernel is re-exported (best_combination is a sort)


@mirrors(sum_over_combinations)
def compiled_sum_over_combinations(scores: CombinationScores, mu: float = 1.0) -> tuple[Array, CombinationScores]:
    values = view("values", scores.values)
    marginals = np.empty(len(values))
    value = np.asarray(sum_counts(values, scores.m, float(mu), marginals))
    return like(value, scores.values), CombinationScores(like(marginals, scores.values), scores.m)


class CompiledCombination(Combination):
    ops = SimpleNamespace(
        best_combination=best_combination,
        sum_over_combinations=compiled_sum_over_combinations,
    )


__all__ = ["Combination", "CombinationScores", "CompiledCombination"]
