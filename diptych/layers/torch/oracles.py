"""Answers that have no derivative, of all structures, as operators of PyTorch: best and K best outputs, samples,
max-marginals. The structures of the panels give them.

All operators take the name of a structure; its scores, tensors (B, ...), of chains (G, B, ...); the mask or the lengths
of each, or None; parents (p,) of labelled nodes; single_root of dependency trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from diptych.layers.torch.arguments import Maybe, Scores, operator
from reference.structures.scores import score_fields

__all__ = ["KINDS", "Kind", "best_outputs", "highest_scores", "k_best_outputs", "sampled"]


class Kind(NamedTuple):
    """What asks a panel: made(scores, where, parents, single_root), the structure; and best(...) of the same, the best
    outputs by one call of a kernel, or None where there is none.
    """

    made: Callable[..., Any]
    best: Callable[..., Maybe] = lambda *given: None


KINDS: dict[str, Kind] = {}  # by name; the modules of the structures fill it in


def _copies(numbers: Any, scores: Scores) -> list[Tensor]:
    """Of what panels return, which may be their scores, on the device of these."""
    return [torch.as_tensor(x).to(scores[0].device, copy=True) for x in numbers]


def _whole(scores: Any, *shape: int) -> Tensor:
    """Empty numbers of examples, of a shape for each."""
    return scores[0].new_empty((*scores[0].shape[:-2], *shape), dtype=torch.int64)


@operator("best_outputs", lambda kind, scores, *_: _whole(scores, scores[0].shape[-2]), shared=(3,))
def best_outputs(kind: str, scores: Scores, where: Maybe, parents: Maybe, single_root: bool) -> Tensor:
    """The best outputs (..., n), -1 off a mask and past a length. Raises ValueError, InfeasibleError."""
    found = KINDS[kind].best(scores, where, parents, single_root)
    if found is None:
        (found,) = _copies(KINDS[kind].made(scores, where, parents, single_root).best()[1:], scores)
    return found


@operator(
    "k_best_outputs",
    lambda kind, scores, *rest: (_whole(scores, rest[-1], scores[0].shape[-2]), _whole(scores)),
    shared=(3,),
)
def k_best_outputs(
    kind: str, scores: Scores, where: Maybe, parents: Maybe, single_root: bool, k: int
) -> tuple[Tensor, Tensor]:
    """The k best outputs (..., k, n), -1 beyond those there are, and their number (...,). Raises ValueError."""
    labels, count = _copies(KINDS[kind].made(scores, where, parents, single_root).topk(k)[1:], scores)
    return labels, count


@operator("sampled", lambda kind, scores, *rest: _whole(scores, rest[-2], scores[0].shape[-2]), shared=(3,))
def sampled(
    kind: str, scores: Scores, where: Maybe, parents: Maybe, single_root: bool, seeds: Tensor, size: int, mu: float
) -> Tensor:
    """Outputs (..., size, n) drawn with probability proportional to exp(score / mu), by the first of seeds. Raises
    ValueError, InfeasibleError.
    """
    labels = KINDS[kind].made(scores, where, parents, single_root).sample(size, mu, int(seeds[0]))
    return _copies([labels], scores)[0]


def _fake_parts(kind: str, scores: Any, *_: Any) -> list[Tensor]:
    *batch, n, L = scores[0].shape
    edges = [(*batch, max(n - 1, 0), L, L)] if kind == "chain" else [x.shape for x in scores[1:]]
    return [scores[0].new_empty(shape) for shape in (scores[0].shape, *edges)]


@operator("highest_scores", _fake_parts, shared=(3,))
def highest_scores(kind: str, scores: Scores, where: Maybe, parents: Maybe, single_root: bool) -> list[Tensor]:
    """The highest score of an output with each part, -inf where there is none. Raises ValueError."""
    found = score_fields(KINDS[kind].made(scores, where, parents, single_root).max_marginals())
    return [x.to(scores[0].dtype) for x in _copies(found, scores)]
