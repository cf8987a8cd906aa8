"""Projective dependency trees: the reference's functions as kernels, on the host, batches over threads."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import reference.structures.projective as reference
from accelerated.arrays import like, view
from accelerated.compiled.structures.projective import best_range, max_marginals_range, sample_range, sum_range
from accelerated.compiled.structures.projective_k_best import top_k_range
from accelerated.mirror import mirrors
from accelerated.structures import arborescence
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best
from accelerated.structures.arborescence import flat
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.structures.arborescence import ArborescenceScores
from reference.structures.base import KBest
from reference.structures.projective import trees_in_all

__all__ = ["Projective", "max_marginals", "maximum_arborescence", "sample", "top_k_arborescences", "tree_partition"]


def _over_batch(work: Callable[..., Any], scores: ArborescenceScores, *arguments: Any) -> None:
    """Call a kernel of ranges of sentences with their values and lengths; ranges by the cubes of lengths."""
    values, lengths = flat(scores)
    pieces = ranges(np.concatenate([[0], np.cumsum(lengths**3)]), at_least=10**5) if len(lengths) else []
    in_parallel(lambda lo, hi: work(lo, hi, values, lengths, *arguments), pieces)


def _new(scores: ArborescenceScores, *shape: int, of: float) -> np.ndarray:
    """Room (B, ...) for an answer of each sentence."""
    return np.full((math.prod(scores.values.shape[:-2]), *shape), of)


@mirrors(reference.maximum_arborescence)
def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    values = scores.values
    value, heads = _new(scores, of=0.0), _new(scores, values.shape[-2], of=-1)
    _over_batch(best_range, scores, single_root, value, heads)
    return like(value.reshape(values.shape[:-2]), values), like(heads.reshape(values.shape[:-1]), values)


@mirrors(reference.tree_partition)
def tree_partition(
    scores: ArborescenceScores, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, ArborescenceScores]:
    values = scores.values
    value, marginals = _new(scores, of=0.0), _new(scores, *values.shape[-2:], of=0.0)
    _over_batch(sum_range, scores, single_root, float(mu), value, marginals)
    each = like(value.reshape(values.shape[:-2]), values)
    return each, scores._replace(values=like(marginals.reshape(values.shape), values))


@mirrors(reference.max_marginals)
def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    marginals = _new(scores, *scores.values.shape[-2:], of=-np.inf)
    _over_batch(max_marginals_range, scores, single_root, marginals)
    return scores._replace(values=like(marginals.reshape(scores.values.shape), scores.values))


@mirrors(reference.sample)
def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    numbers, (*batch, n, _) = view("uniforms", uniforms), scores.values.shape
    if numbers.ndim != len(batch) + 2 or (*numbers.shape[:-2], numbers.shape[-1]) != (*batch, 2 * n):
        raise ValueError(f"uniforms: expected shape {(*batch, 'size', 2 * n)}, got {numbers.shape}")
    size = numbers.shape[-2]
    value, heads = _new(scores, of=0.0), _new(scores, size, n, of=-1)
    numbers = numbers.reshape(len(value), size, 2 * n)
    _over_batch(sample_range, scores, single_root, float(mu), numbers, value, heads)
    return like(value.reshape(batch), scores.values), like(heads.reshape(*batch, size, n), scores.values)


@mirrors(reference.top_k_arborescences)
def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    *batch, n, _ = scores.values.shape
    kept = min(k, trees_in_all(n))
    highest, heads = _new(scores, kept, of=-np.inf), _new(scores, kept, n, of=-1)
    _over_batch(top_k_range, scores, single_root, highest, heads)
    scores_of, labels = highest.reshape(*batch, kept), heads.reshape(*batch, kept, n)
    return k_best(like(scores_of, scores.values), like(labels, scores.values), k)


class Projective(reference.Projective, arborescence.Arborescence):
    ops = sys.modules[__name__]
