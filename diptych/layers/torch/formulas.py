"""Answers that layers of all structures give in the same way, from the scores of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from diptych.layers.torch.arguments import floating, label_tensor, undifferentiated
from diptych.layers.torch.oracles import best_outputs, highest_scores, k_best_outputs, sampled
from diptych.layers.torch.sums import finite
from reference.arrays import integer, number
from reference.smoothings import Entropy, Max, SquaredL2, TopK
from reference.structures.base import InfeasibleError

__all__ = [
    "Batch",
    "Best",
    "KBest",
    "augmented",
    "best",
    "entropy",
    "kl",
    "log_partition",
    "max_marginals",
    "sample",
    "score",
    "smooth_max",
    "topk",
]


class Best(NamedTuple):
    """value (...,), the highest score; labels (..., n), -1 off the mask."""

    value: Tensor
    labels: Tensor


class KBest(NamedTuple):
    """scores (..., k) from high to low, then -inf; labels (..., k, n), -1 off the mask and beyond count (...,)."""

    scores: Tensor
    labels: Tensor
    count: Tensor


@dataclass
class Batch:
    """scores: tensors (B, ...), of chains (1, B, ...); shape: the leading axes of the caller; where: the mask or the
    lengths of each, or None. A structure has its kind, and the methods that raise here.
    """

    kind: ClassVar[str]
    scores: tuple[Tensor, ...]
    shape: tuple[int, ...]
    where: Any = None
    parents: Any = None
    single_root: bool = False
    axes: ClassVar[int] = 1  # before those of an example

    @property
    def asked(self) -> tuple[Any, ...]:
        """What :mod:`oracles` take."""
        return self.kind, [x.detach() for x in self.scores], self.where, self.parents, self.single_root

    def shaped(self, x: Tensor) -> Tensor:
        """Numbers of examples with the axes of the caller."""
        return x.reshape((*self.shape, *x.shape[self.axes :]))

    def outputs(self, y: Tensor) -> Tensor:
        """Outputs (..., k, n) as the caller counts positions."""
        return y

    def parts(self, x: Tensor) -> Tensor:
        """Numbers of parts as the caller counts positions."""
        return self.shaped(x)

    def value(self, mu: float) -> Tensor:
        """The log-partitions."""
        raise NotImplementedError

    def mean(self, direction: list[Tensor]) -> Tensor:
        """<marginals, direction>."""
        raise NotImplementedError

    def score(self, y: Tensor) -> Tensor:
        """The scores (..., k) of outputs (..., k, n), 0 where they are -1."""
        raise NotImplementedError


def log_partition(given: Batch, mu: float) -> Tensor:
    """mu log sum_y exp(score(y) / mu), (...,)."""
    return given.shaped(given.value(number("mu", mu, positive=True)))


def best(given: Batch) -> Best:
    """The highest score, whose gradient is the indicator of the best output, and this."""
    labels = best_outputs(*given.asked)[..., None, :]
    value, labels = given.shaped(given.score(labels)), given.shaped(given.outputs(labels))
    return Best(value[..., 0], labels[..., 0, :])


def topk(given: Batch, k: int) -> KBest:
    """The k best distinct outputs."""
    labels, count = k_best_outputs(*given.asked, integer("k", k, 1))
    there = torch.arange(k, device=labels.device) < count[..., None]
    each = given.score(labels)
    each = each + (each.detach().cummin(-1).values - each.detach())  # of ties, whose sums are rounded in another order
    scores = torch.where(there, each, -torch.inf)
    return KBest(given.shaped(scores), given.shaped(given.outputs(labels)), given.shaped(count))


def max_marginals(given: Batch) -> list[Tensor]:
    """The highest score of an output with each part; no derivatives."""
    return [given.parts(undifferentiated(x, *given.scores)) for x in highest_scores(*given.asked)]


def sample(given: Batch, size: int, mu: float, generator: Any) -> Tensor:
    """Outputs (..., size, n) drawn with probability proportional to exp(score / mu)."""
    seeds = torch.randint(2**62, (1,), generator=generator, device=None if generator is None else generator.device)
    drawn: Tensor = sampled(*given.asked, seeds, integer("size", size, 1), number("mu", mu, positive=True))
    return given.shaped(given.outputs(drawn))


def score(given: Batch, y: Tensor) -> Tensor:
    """The score (...,) of outputs (..., n) that are right, laid out as the scores are."""
    return given.shaped(given.score(y[..., None, :]))[..., 0]


def entropy(given: Batch) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    return given.shaped(given.value(1.0) - given.mean([finite(x) for x in given.scores]))


def kl(p: Batch, q: Batch) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,); inf where Q forbids a part that P has."""
    pairs = list(zip(p.scores, q.scores, strict=True))
    apart = q.value(1.0) - p.value(1.0) + p.mean([finite(a) - finite(b) for a, b in pairs])
    lost = p.mean([((b == -torch.inf) & (a > -torch.inf)).to(a.dtype) for a, b in pairs])
    return p.shaped(torch.where(lost.detach() > 0, torch.inf, apart))


def smooth_max(given: Batch, smoothing: Any, mu: float) -> Tensor:
    """The smoothed max (...,) over outputs, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    if isinstance(smoothing, Max) or mu == 0:
        return best(given).value
    if isinstance(smoothing, Entropy):
        return log_partition(given, mu)
    if isinstance(smoothing, (TopK, SquaredL2)):
        return _of_the_best(given, smoothing, number("mu", mu, positive=True))
    raise TypeError(f"smoothing: expected Max, Entropy, TopK or SquaredL2, got {type(smoothing).__name__}")


def _of_the_best(given: Batch, smoothing: TopK | SquaredL2, mu: float) -> Tensor:
    k = smoothing.k if isinstance(smoothing, TopK) else 8
    while True:
        found = topk(given, k)
        weights = _projected(found.scores / mu)
        if isinstance(smoothing, TopK) or k >= smoothing.max_k:
            break
        if bool(((weights[..., -1] == 0) | (found.count < k)).all()):
            break
        k = min(4 * k, smoothing.max_k)
    each = torch.where(weights > 0, found.scores, 0.0)
    value = (weights * each).sum(-1) - 0.5 * mu * ((weights * weights).sum(-1) - 1.0)
    return torch.where(possible(found.count) > 0, value, -torch.inf)


@torch.library.custom_op("diptych::possible", mutates_args=())
def possible(count: Tensor) -> Tensor:
    """The numbers of outputs, a copy. Raises InfeasibleError if one is 0."""
    if (count == 0).any():
        raise InfeasibleError(f"every output of example {torch.nonzero(count == 0)[0].tolist()} is forbidden")
    return count.clone()


@possible.register_fake
def _(count: Tensor) -> Tensor:
    return torch.empty_like(count)


possible.register_vmap(lambda info, dims, count: (possible(count), dims[0]))


def augmented(unary: Tensor, labels: Tensor, cost: Any, name: str = "labels") -> Tensor:
    """Scores (..., n, L) plus the cost of each label: a number for all but the right one, or a matrix (L, L) of (label,
    predicted label). Labels outside 0..L-1 cost nothing here.
    """
    unary = floating("unary", unary)
    y, L = label_tensor(name, labels, unary), unary.shape[-1]
    table = torch.as_tensor(cost, dtype=unary.dtype, device=unary.device)
    if table.ndim == 0:
        table = table * (1.0 - torch.eye(L, dtype=unary.dtype, device=unary.device))
    if tuple(table.shape) != (L, L):
        raise ValueError(f"cost: expected a number or shape {(L, L)}, got {tuple(table.shape)}")
    return unary + torch.where(((y >= 0) & (y < L))[..., None], table[y.clamp(0, L - 1)], 0.0)


def _projected(z: Tensor) -> Tensor:
    """The projection of scores (..., k), from high to low, -inf last, onto the simplex; with its derivatives."""
    there, highest = torch.isfinite(z), z[..., :1].detach()
    top = torch.where(there, z - torch.where(torch.isfinite(highest), highest, 0.0), 0.0)
    sums = torch.cumsum(top, -1)
    rank = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    inside = there & (1.0 + rank * top > sums)
    support = inside.sum(-1, keepdim=True).clamp(min=1)
    threshold = (sums.gather(-1, support - 1) - 1.0) / support
    return torch.where(inside, top - threshold, 0.0)
