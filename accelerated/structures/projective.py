"""Projective dependency trees: the reference's functions as kernels, on the host, batches over threads."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

import accelerated.compiled.structures.projective as kernels
import reference.structures.projective as reference
from accelerated.arrays import like, view
from accelerated.mirror import mirrors
from accelerated.structures import arborescence
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best
from accelerated.structures.arborescence import answers
from reference.arrays import Array
from reference.structures.arborescence import ArborescenceScores
from reference.structures.base import KBest
from reference.structures.projective import trees_in_all

__all__ = ["Projective", "max_marginals", "maximum_arborescence", "sample", "top_k_arborescences", "tree_partition"]


def _answers(kernel: Any, scores: ArborescenceScores, *given: Any) -> list[Any]:
    return [like(x, scores.values) for x in answers(kernel, scores, *given)]


@mirrors(reference.maximum_arborescence)
def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    value, heads = _answers(kernels.best_range, scores, (single_root,), (0.0,), (-1, scores.values.shape[-2]))
    return value, heads


@mirrors(reference.tree_partition)
def tree_partition(
    scores: ArborescenceScores, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, ArborescenceScores]:
    rooms = (0.0,), (0.0, *scores.values.shape[-2:])
    value, marginals = _answers(kernels.sum_range, scores, (single_root, float(mu)), *rooms)
    return value, scores._replace(values=marginals)


@mirrors(reference.max_marginals)
def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    (marginals,) = _answers(kernels.max_marginals_range, scores, (single_root,), (-np.inf, *scores.values.shape[-2:]))
    return scores._replace(values=marginals)


@mirrors(reference.sample)
def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    numbers, (*batch, n, _) = view("uniforms", uniforms), scores.values.shape
    if numbers.ndim != len(batch) + 2 or (*numbers.shape[:-2], numbers.shape[-1]) != (*batch, 2 * n):
        raise ValueError(f"uniforms: expected shape {(*batch, 'size', 2 * n)}, got {numbers.shape}")
    of_sentences = numbers.reshape(math.prod(batch), *numbers.shape[-2:])
    rooms = (0.0,), (-1, numbers.shape[-2], n)
    value, heads = _answers(kernels.sample_range, scores, (single_root, float(mu), of_sentences), *rooms)
    return value, heads


@mirrors(reference.top_k_arborescences)
def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    kept = min(k, trees_in_all(n := scores.values.shape[-2]))
    values, labels = _answers(kernels.top_k_range, scores, (single_root,), (-np.inf, kept), (-1, kept, n))
    return k_best(values, labels, k)


class Projective(reference.Projective, arborescence.Arborescence):
    ops = sys.modules[__name__]
