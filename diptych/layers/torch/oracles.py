"""Answers that have no derivative, of all structures, as operators of PyTorch: best and K best outputs, samples,
max-marginals. The structures of the panels give them.

All operators take the name of a structure; its scores, tensors (B, ...), of chains (G, B, ...); the mask or the lengths
of each, or None; parents (p,) of labelled nodes; single_root of dependency trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from diptych.layers.torch.arguments import operator
from reference.structures.scores import score_fields

__all__ = ["KINDS", "Kind", "best_outputs", "highest_scores", "k_best_outputs", "sampled"]


class Kind(NamedTuple):
    """What asks a panel: made(scores, where, parents, single_root), the structures, one for each group of chains; and
    best(...) of the same, the best outputs by one call of a kernel, or None where there is none.
    """

    made: Callable[..., list[Any]]
    best: Callable[..., Tensor | None] = lambda *given: None


KINDS: dict[str, Kind] = {}  # by name; the modules of the structures fill it in


def _joined(ask: Callable[[Any], Sequence[Any]], kind: str, scores: Sequence[Tensor], *rest: Any) -> list[Tensor]:
    answers = [ask(each) for each in KINDS[kind].made(scores, *rest)]
    return [torch.cat([torch.as_tensor(x) for x in each]).to(scores[0].device) for each in zip(*answers, strict=True)]


def _whole(scores: Any, *shape: int) -> Tensor:
    """Empty numbers of examples, of a shape for each."""
    return scores[0].new_empty((*scores[0].shape[:-2], *shape), dtype=torch.int64)


@operator("best_outputs", lambda kind, scores, *_: _whole(scores, scores[0].shape[-2]), shared=(3,))
def best_outputs(
    kind: str, scores: Sequence[Tensor], where: Tensor | None, parents: Tensor | None, single_root: bool
) -> Tensor:
    """The best outputs (..., n), -1 off a mask and past a length. Raises ValueError, InfeasibleError."""
    found = KINDS[kind].best(scores, where, parents, single_root)
    if found is None:
        (found,) = _joined(lambda each: each.best()[1:], kind, scores, where, parents, single_root)
    return found


@operator(
    "k_best_outputs",
    lambda kind, scores, *rest: (_whole(scores, rest[-1], scores[0].shape[-2]), _whole(scores)),
    shared=(3,),
)
def k_best_outputs(
    kind: str, scores: Sequence[Tensor], where: Tensor | None, parents: Tensor | None, single_root: bool, k: int
) -> tuple[Tensor, Tensor]:
    """The k best outputs (..., k, n), -1 beyond those there are, and their number (...,). Raises ValueError."""
    labels, count = _joined(lambda each: each.topk(k)[1:], kind, scores, where, parents, single_root)
    return labels, count


@operator("sampled", lambda kind, scores, *rest: _whole(scores, rest[-2], scores[0].shape[-2]), shared=(3,))
def sampled(
    kind: str,
    scores: Sequence[Tensor],
    where: Tensor | None,
    parents: Tensor | None,
    single_root: bool,
    seeds: Tensor,
    size: int,
    mu: float,
) -> Tensor:
    """Outputs (..., size, n) drawn with probability proportional to exp(score / mu), by the seeds (G,) of groups of
    chains, of others by the first. Raises ValueError, InfeasibleError.
    """
    of_groups = iter(seeds.tolist())
    (labels,) = _joined(
        lambda each: (each.sample(size, mu, next(of_groups)),), kind, scores, where, parents, single_root
    )
    return labels


def _fake_parts(kind: str, scores: Any, *_: Any) -> list[Tensor]:
    *batch, n, L = scores[0].shape
    edges = [(*batch, max(n - 1, 0), L, L)] if kind == "chain" else [x.shape for x in scores[1:]]
    return [scores[0].new_empty(shape) for shape in (scores[0].shape, *edges)]


@operator("highest_scores", _fake_parts, shared=(3,))
def highest_scores(
    kind: str, scores: Sequence[Tensor], where: Tensor | None, parents: Tensor | None, single_root: bool
) -> list[Tensor]:
    """The highest score of an output with each part, -inf where there is none. Raises ValueError."""
    found = _joined(lambda each: score_fields(each.max_marginals()), kind, scores, where, parents, single_root)
    return [x.to(scores[0].dtype) for x in found]
