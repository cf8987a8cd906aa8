"""Projective dependency trees: the reference's functions as kernels, on the host, batches over threads."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import reference.structures.projective as reference
from accelerated.arrays import view
from accelerated.compiled.structures.projective import best_range, max_marginals_range, sample_range, sum_range
from accelerated.compiled.structures.projective_k_best import top_k_range
from accelerated.mirror import mirrors
from accelerated.structures import arborescence
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best, of_batch
from accelerated.structures.arborescence import flat
from accelerated.threads import ranges
from reference.arrays import Array
from reference.structures.arborescence import ArborescenceScores
from reference.structures.base import KBest
from reference.structures.projective import trees_in_all

__all__ = ["Projective", "max_marginals", "maximum_arborescence", "sample", "top_k_arborescences", "tree_partition"]


def _of_batch(kernel: Callable[..., Any], scores: ArborescenceScores, given: tuple[Any, ...], *rooms: Any) -> Any:
    """What a kernel of ranges of sentences answers beside what it is given, ranges by the cubes of lengths; rooms as
    for :func:`of_batch`.
    """
    values, lengths = flat(scores)
    pieces = ranges(np.concatenate([[0], np.cumsum(lengths**3)]), at_least=10**5) if len(lengths) else []
    batch, place = scores.values.shape[:-2], scores.values
    return of_batch(lambda lo, hi, *out: kernel(lo, hi, values, lengths, *given, *out), pieces, batch, place, *rooms)


@mirrors(reference.maximum_arborescence)
def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    return _of_batch(best_range, scores, (single_root,), (0.0,), (-1, scores.values.shape[-2]))


@mirrors(reference.tree_partition)
def tree_partition(
    scores: ArborescenceScores, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, ArborescenceScores]:
    rooms = (0.0,), (0.0, *scores.values.shape[-2:])
    value, marginals = _of_batch(sum_range, scores, (single_root, float(mu)), *rooms)
    return value, scores._replace(values=marginals)


@mirrors(reference.max_marginals)
def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    (marginals,) = _of_batch(max_marginals_range, scores, (single_root,), (-np.inf, *scores.values.shape[-2:]))
    return scores._replace(values=marginals)


@mirrors(reference.sample)
def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    numbers, (*batch, n, _) = view("uniforms", uniforms), scores.values.shape
    if numbers.ndim != len(batch) + 2 or (*numbers.shape[:-2], numbers.shape[-1]) != (*batch, 2 * n):
        raise ValueError(f"uniforms: expected shape {(*batch, 'size', 2 * n)}, got {numbers.shape}")
    size = numbers.shape[-2]
    given = single_root, float(mu), numbers.reshape(math.prod(batch), size, 2 * n)
    return _of_batch(sample_range, scores, given, (0.0,), (-1, size, n))


@mirrors(reference.top_k_arborescences)
def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    n = scores.values.shape[-2]
    kept = min(k, trees_in_all(n))
    values, labels = _of_batch(top_k_range, scores, (single_root,), (-np.inf, kept), (-1, kept, n))
    return k_best(values, labels, k)


class Projective(reference.Projective, arborescence.Arborescence):
    ops = sys.modules[__name__]
