"""Dependency trees over scores of an encoder, as :class:`reference.Arborescence` has them.

values (..., n, n + 1): values[m, h] is the score of head h (0: the root) for token m + 1; -inf forbids an arc, and
values[m, m + 1] is ignored. Trees may have arcs that cross. All functions take by name

- mask (..., n) bool, or lengths (...,): the tokens of each sentence. Those off the mask are left out; heads still count
  all positions. A sentence may have no tokens.
- single_root: whether each tree has exactly one root.

Errors as in :mod:`diptych.layers.torch.chain`. On the CPU sums and best trees are one call of a kernel for the whole
batch. Elsewhere they are inverses of matrices in float64 (the matrix-tree theorem) where these are accurate. Where they
are not, and for second derivatives, :func:`entropy` and :func:`kl`, PyTorch eliminates token after token on the device,
in float64 and with logarithms, in time and memory O(n^3); trees are found on the host. Source: Koo et al. (2007) and
McDonald et al. (2005).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

import accelerated.structures.arborescence as kernels
from accelerated.structures import arborescence_batch
from diptych.layers.torch import formulas, sums
from diptych.layers.torch.arguments import beside, floating, label_tensor, mask_of, undifferentiated
from diptych.layers.torch.chain import Best, KBest
from diptych.layers.torch.operators import more_groups
from diptych.layers.torch.sums import Rule, Weighted, share, total, weighted
from reference.arrays import integer, number
from reference.smoothings import Max
from reference.structures.base import InfeasibleError, feasible

__all__ = [
    "best",
    "crf_loss",
    "entropy",
    "hinge_loss",
    "kl",
    "log_partition",
    "marginals",
    "max_marginals",
    "sample",
    "score",
    "smooth_hinge_loss",
    "smooth_max",
    "topk",
]

OF = sys.modules[__name__]  # what the formulas call


class Trees(NamedTuple):
    """values (B, n, n + 1) and lengths (B,), tokens first; mask (B, n) of the caller; places (B, n), that of each token
    there and then those off the mask, or None where tokens come first; and the leading axes of the caller.
    """

    values: Tensor
    lengths: Tensor
    single_root: bool
    mask: Tensor
    places: Tensor | None
    batch: tuple[int, ...]

    @property
    def scores(self) -> tuple[Tensor]:
        return (self.values,)

    def shaped(self, x: Tensor) -> Tensor:
        return x.reshape((*self.batch, *x.shape[1:]))

    def arcs(self, x: Tensor) -> Tensor:
        """Numbers of arcs (B, n, n + 1), by the positions of the caller."""
        return self.shaped(x if self.places is None else _moved(x, self.places.argsort(-1)))

    def heads(self, y: Tensor) -> Tensor:
        """Heads (B, k, n), by the positions of the caller."""
        return y if self.places is None else _renamed(y, self.places.argsort(-1), self.places)


def log_partition(values: Tensor, *, mu: float = 1.0, **where: Any) -> Tensor:
    """mu log sum_y exp(score(y) / mu) over trees, (...,); 0 for a sentence without tokens."""
    given = _trees(values, **where)
    return given.shaped(_value(given, number("mu", mu, positive=True)))


def marginals(values: Tensor, *, mu: float = 1.0, **where: Any) -> Tensor:
    """The probability of each arc, (..., n, n + 1), where P(y) is proportional to exp(score(y) / mu)."""
    given, mu = _trees(values, **where), number("mu", mu, positive=True)
    return given.arcs(sums.marginals(SUMS, given.values, given.lengths, given.single_root, mu)[0])


def best(values: Tensor, **where: Any) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best tree's arcs, and its heads (..., n), -1 off
    the mask.
    """
    given = _trees(values, **where)
    heads = best_trees(given.values.detach(), given.lengths, given.single_root)[:, None]
    return Best(given.shaped(_score(given, heads)[:, 0]), given.shaped(given.heads(heads)[:, 0]))


def topk(values: Tensor, k: int, **where: Any) -> KBest:
    """The k best distinct trees: scores (..., k), heads (..., k, n), count (...,)."""
    given = _trees(values, **where)
    heads, count = k_best_trees(given.values.detach(), given.lengths, given.single_root, integer("k", k, 1))
    there = torch.arange(k, device=heads.device) < count[:, None]
    scores = torch.where(there, _score(given, heads), -torch.inf)
    return KBest(given.shaped(scores), given.shaped(given.heads(heads)), given.shaped(count))


def max_marginals(values: Tensor, **where: Any) -> Tensor:
    """The highest score of a tree with each arc, (..., n, n + 1), -inf where there is none; no derivatives."""
    given = _trees(values, **where)
    highest = tree_max_marginals(given.values.detach(), given.lengths, given.single_root)
    return given.arcs(undifferentiated(highest, given.values))


def sample(values: Tensor, size: int = 1, *, mu: float = 1.0, generator: Any = None, **where: Any) -> Tensor:
    """Heads (..., size, n) of trees drawn with probability proportional to exp(score / mu)."""
    given, mu = _trees(values, **where), number("mu", mu, positive=True)
    shape = (len(given.values), integer("size", size, 1), given.values.shape[-1])
    uniforms = torch.rand(shape, generator=generator, dtype=torch.float64, device=values.device)
    heads = tree_samples(given.values.detach(), given.lengths, uniforms, given.single_root, mu)
    return given.shaped(given.heads(heads))


def score(values: Tensor, heads: Tensor, **where: Any) -> Tensor:
    """The sum (...,) of the scores of heads (..., n) of trees; those off the mask are ignored."""
    given = _trees(values, **where)
    y = label_tensor("heads", heads, values).reshape(given.mask.shape)
    y = checked_heads(y, given.mask, given.single_root)[:, None]
    if given.places is not None:
        y = _renamed(y, given.places, given.places.argsort(-1))
    return given.shaped(_score(given, y)[:, 0])


def entropy(values: Tensor, **where: Any) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    return formulas.entropy(_trees(values, **where), _value, _mean)


def kl(values: Tensor, other_values: Tensor, **where: Any) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,), P of the first scores and Q of the others; inf where Q forbids what P
    does not.
    """
    p, other = _trees(values, **where), beside("other_values", other_values, floating("values", values))
    if tuple(other.shape) != tuple(values.shape):
        raise ValueError(f"other_values: expected shape {tuple(values.shape)}, got {tuple(other.shape)}")
    return formulas.kl(p, _trees(other, **where), _value, _mean)


def smooth_max(values: Tensor, smoothing: Any, mu: float, **where: Any) -> Tensor:
    """The smoothed max (...,) over trees, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    return formulas.smooth_max(OF, (values,), smoothing, mu, where)


def crf_loss(values: Tensor, heads: Tensor, **where: Any) -> Tensor:
    """-log P(heads), (...,): the log-partition less the score of heads (..., n)."""
    return log_partition(values, **where) - score(values, heads, **where)


def hinge_loss(values: Tensor, heads: Tensor, cost: float = 1.0, **where: Any) -> Tensor:
    """max_y cost * (number of wrong heads) + score(y) - score(heads), (...,)."""
    return smooth_hinge_loss(values, heads, Max(), 0.0, cost, **where)


def smooth_hinge_loss(
    values: Tensor, heads: Tensor, smoothing: Any, mu: float, cost: float = 1.0, **where: Any
) -> Tensor:
    """:func:`hinge_loss` with :func:`smooth_max` in place of the max. Source: Pillutla et al., Definition 1."""
    costly = formulas.augmented(values, heads, number("cost", cost), "heads")
    return smooth_max(costly, smoothing, mu, **where) - score(costly, heads, **where)


@torch.library.custom_op("diptych::tree_sums", mutates_args=())
def tree_sums(values: Tensor, lengths: Tensor, single_root: bool, mu: float) -> tuple[Tensor, Tensor]:
    """The log-partitions (B,) and the marginals (B, n, n + 1). Raises ValueError, InfeasibleError."""
    if not on_host(values):
        value, shares, exact = _by_inverse(values, lengths, single_root, mu)
        if not exact.all():
            value, shares = _by_elimination(values, lengths, single_root, mu)
    else:
        x, threads = values.detach().contiguous().numpy(), torch.get_num_threads()
        value, shares = map(torch.from_numpy, arborescence_batch.sums(x, lengths.numpy(), single_root, mu, threads))
    _check(value, values, lengths)
    return value.to(values.dtype), shares.to(values.dtype)


@torch.library.custom_op("diptych::best_trees", mutates_args=())
def best_trees(values: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The heads (B, n) of the best trees. Raises ValueError, InfeasibleError."""
    x = values.detach().cpu().contiguous().numpy()
    value, heads = arborescence_batch.best(x, lengths.cpu().numpy(), single_root, torch.get_num_threads())
    _check(torch.from_numpy(value), values.cpu(), lengths.cpu())
    return torch.from_numpy(heads).to(values.device)


@torch.library.custom_op("diptych::k_best_trees", mutates_args=())
def k_best_trees(values: Tensor, lengths: Tensor, single_root: bool, k: int) -> tuple[Tensor, Tensor]:
    """The heads (B, k, n) of the k best trees, -1 beyond those there are, and their number (B,). Raises ValueError."""
    best = kernels.top_k_arborescences(_scores(values, lengths), k, single_root)
    heads, count = torch.from_numpy(best.labels), torch.from_numpy(best.count)
    return heads.to(values.device), count.to(values.device)


@torch.library.custom_op("diptych::tree_samples", mutates_args=())
def tree_samples(values: Tensor, lengths: Tensor, uniforms: Tensor, single_root: bool, mu: float) -> Tensor:
    """Heads (B, size, n) by uniform numbers (B, size, n + 1). Raises ValueError, InfeasibleError."""
    value, heads = kernels.sample(_scores(values, lengths), uniforms.cpu().numpy(), mu, single_root)
    feasible(value, "sample")
    return torch.from_numpy(heads).to(values.device)


@torch.library.custom_op("diptych::tree_max_marginals", mutates_args=())
def tree_max_marginals(values: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The highest score of a tree with each arc, (B, n, n + 1). Raises ValueError."""
    highest = kernels.max_marginals(_scores(values, lengths), single_root).values
    return torch.from_numpy(highest).to(values.device, values.dtype)


def _scores(values: Tensor, lengths: Tensor) -> kernels.ArborescenceScores:
    """On the host. Raises ValueError."""
    _check_scores(values, lengths)
    return kernels.ArborescenceScores(values.detach().cpu().double().numpy(), lengths.cpu().numpy())


tree_sums.register_fake(lambda values, *_: (values.new_empty(values.shape[:1]), values.new_empty(values.shape)))
best_trees.register_fake(lambda values, lengths, *_: lengths.new_empty(values.shape[:2]))
k_best_trees.register_fake(
    lambda values, lengths, _, k: (lengths.new_empty((len(values), k, values.shape[1])), torch.empty_like(lengths))
)
tree_samples.register_fake(
    lambda values, lengths, uniforms, *_: lengths.new_empty((*uniforms.shape[:2], values.shape[1]))
)
tree_max_marginals.register_fake(lambda values, *_: values.new_empty(values.shape))


@torch.library.custom_op("diptych::checked_heads", mutates_args=())
def checked_heads(heads: Tensor, mask: Tensor, single_root: bool) -> Tensor:
    """Heads (B, n), a copy, -1 off the mask. Raises ValueError if they are no tree of the tokens on the mask."""
    n, y = heads.shape[1], torch.where(mask, heads, 0)
    there = torch.nn.functional.pad(mask, (1, 0), value=True)
    outside = (y < 0) | (y > n) | ~there.gather(1, y.clamp(0, n))
    if outside.any():
        b, m = torch.nonzero(outside)[0].tolist()
        last, got = int(torch.nonzero(there[b]).max()), int(y[b, m])
        what = f"0..{last}" if not 0 <= got <= last else "0 or a token on the mask"
        raise ValueError(f"heads: expected {what}, got {got} at token {m + 1} of example {b}")
    above = torch.nn.functional.pad(y, (1, 0))
    for _ in range(n.bit_length()):
        above = above.gather(1, above)  # 2, 4, 8, ... arcs towards the root
    if above.any():
        b, m = torch.nonzero(above)[0].tolist()
        raise ValueError(f"heads: expected a tree, got a cycle above token {m} of example {b}")
    roots = (mask & (y == 0)).sum(1)
    wrong = mask.any(1) & (roots != 1)
    if single_root and wrong.any():
        b = int(torch.nonzero(wrong)[0])
        raise ValueError(f"heads: expected a single token of head 0, got {int(roots[b])} in example {b}")
    return torch.where(mask, heads, -1)


checked_heads.register_fake(lambda heads, *_: torch.empty_like(heads))
for each in (tree_sums, best_trees, k_best_trees, tree_samples, tree_max_marginals, checked_heads):
    more_groups(each)


def tree_mean(scores: Any, direction: Any, lengths: Tensor, single_root: bool, mu: float) -> Tensor:
    """<marginals, direction>, (B,)."""
    steps = _eliminated(scores[0], direction[0], lengths, single_root, mu)
    mean: Tensor = sum((z.mean[:, 0] for _, z, _, _ in steps), scores[0].new_zeros(len(lengths)))
    return mean.to(scores[0].dtype)


SUMS = Rule(tree_sums, tree_mean, 1)


def on_host(values: Tensor) -> bool:
    """Whether kernels take these scores."""
    return values.device.type == "cpu"


def _by_inverse(values: Tensor, lengths: Tensor, single_root: bool, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    """The log-partitions and the marginals by the matrix-tree theorem, and whether rounding changes them by less than
    1e-9, of float32 scores 1e-6: n^2 eps times the condition of the matrix bounds the change of its log-determinant.
    """
    n, top = values.shape[1], _highest(values, lengths)
    weights = torch.where(_arcs(values, lengths), ((values.double() - top) / mu).exp(), 0.0)
    absent = torch.arange(n, device=values.device) >= lengths[:, None]
    root, heads, first = weights[..., 0], weights[..., 1:], torch.arange(n, device=values.device) == 0
    matrix = torch.diag_embed(heads.sum(-1) + (0.0 if single_root else root)) - heads.mT  # [h, m]
    if single_root:  # in place of the first row, those of the roots
        matrix = torch.where(first[:, None], root[:, None, :], matrix)
    matrix = matrix + torch.diag_embed(absent.double())
    inverse = torch.linalg.inv_ex(matrix)[0]  # [m, h], the derivatives of the log-determinant
    size = matrix.abs().sum(-1).amax(-1) * inverse.abs().sum(-1).amax(-1) if n else lengths.double()
    own, of_heads = inverse.diagonal(dim1=-2, dim2=-1), inverse
    of_root = inverse[..., 0] if single_root and n else own
    if single_root:
        own, of_heads = own.masked_fill(first, 0.0), inverse.masked_fill(first, 0.0)
    slopes = torch.cat([of_root[..., None], own[..., None] - of_heads], -1)
    value = mu * torch.linalg.slogdet(matrix)[1] + top.sum((1, 2))
    most = 1e-9 if values.dtype == torch.float64 else 1e-6
    return value, (weights * slopes).clamp(min=0.0), n * n * torch.finfo(torch.float64).eps * size < most


def _by_elimination(values: Tensor, lengths: Tensor, single_root: bool, mu: float) -> tuple[Tensor, Tensor]:
    """The log-partitions, -inf where there is no tree, and the marginals."""
    steps = list(_eliminated(values, torch.zeros_like(values), lengths, single_root, mu))
    zero = values.new_zeros(len(values), dtype=torch.float64)
    log, order = (sum((z[i][:, 0] for _, z, _, _ in steps), zero) for i in range(2))
    shares = values.new_zeros((len(values), 0, 1), dtype=torch.float64)
    for out, z, around, x in reversed(steps):
        of_others = shares * share(around, x.log, x.order)
        into = of_others.sum(-1)
        own = share(out, z.log, z.order) * (1.0 - into.sum(-1, keepdim=True)) + of_others.sum(1)
        shares = torch.cat([shares - of_others, own[:, None]], 1)
        shares = torch.cat([shares, torch.nn.functional.pad(into, (0, 1))[..., None]], 2)
    shares = torch.where(_arcs(values, lengths), shares.clamp(min=0.0), 0.0)
    value = mu * log + _highest(values, lengths).sum((1, 2))
    return torch.where(order <= float(single_root), value, -torch.inf), shares


def _eliminated(
    values: Tensor, along: Tensor, lengths: Tensor, single_root: bool, mu: float
) -> Iterator[tuple[Weighted, Weighted, Weighted, Weighted]]:
    """The walk of each token to its heads, freed of the last token, then of the one before: the arcs out of it to those
    that are left, their sum, the arcs of others around it, and the arcs that are left. With a single root, an arc from
    the root is of order 1, so that of all trees those with the fewest count.

    Source: Grassmann, Taksar and Heyman (1985), as in :mod:`reference.structures.arborescence_sum`.
    """
    n, arcs = values.shape[1], _arcs(values, lengths)
    shifted = (values.double() - _highest(values, lengths)) / mu
    x = weighted(torch.where(arcs, shifted, -torch.inf), torch.where(arcs, along, 0.0))
    column = torch.arange(n + 1, device=values.device)
    order = x.order * (n + 2) + (column == 0) * float(single_root)
    x = x._replace(order=torch.where(arcs[..., :1], order, (column > 0) * (n + 2.0)))
    for k in reversed(range(n)):
        out = Weighted(*(y[:, k, : k + 1] for y in x))
        z = total(out)
        around = Weighted(*(y[:, :k, k + 1 :] + (a - b)[:, None] for y, a, b in zip(x, out, z, strict=True)))
        both = (torch.stack((y[:, :k, : k + 1], other), -1) for y, other in zip(x, around, strict=True))
        x = Weighted(*(y[..., 0] for y in total(Weighted(*both))))
        yield out, z, around, x


def _highest(values: Tensor, lengths: Tensor) -> Tensor:
    """Of each row, (B, n, 1), 0 if all are forbidden: what is left is exact where scores are large."""
    top = torch.where(_arcs(values, lengths), values.detach().double(), -torch.inf).amax(-1, keepdim=True)
    return torch.where(top > -torch.inf, top, 0.0)


def _arcs(values: Tensor, lengths: Tensor) -> Tensor:
    """Booleans (B, n, n + 1): from a token of the sentence to the root or to another."""
    place = torch.arange(values.shape[2], device=values.device)
    there = place <= lengths[:, None]
    return there[:, 1:, None] & there[:, None, :] & (place[1:, None] != place)


def _check(value: Tensor, values: Tensor, lengths: Tensor) -> None:
    """Say what is wrong where a value is not finite."""
    wrong = ~torch.isfinite(value)
    if wrong.any():
        _check_scores(values, lengths)
        raise InfeasibleError(f"every tree of example {torch.nonzero(wrong)[0].item()} has a forbidden arc")


def _check_scores(values: Tensor, lengths: Tensor) -> None:
    bad = ~(values < torch.inf) & _arcs(values, lengths)
    if bad.any():
        place, got = tuple(torch.nonzero(bad)[0].tolist()), float(values[bad][0])
        raise ValueError(f"values: expected finite scores, or -inf for a forbidden arc, got {got} at {place}")


def _value(given: Trees, mu: float) -> Tensor:
    return sums.log_partition(SUMS, given.values, given.lengths, given.single_root, mu)


def _mean(given: Trees, direction: list[Tensor]) -> Tensor:
    return tree_mean(given.scores, direction, given.lengths, given.single_root, 1.0)


def _score(given: Trees, heads: Tensor) -> Tensor:
    """The scores (B, k) of heads (B, k, n), -1 for none."""
    B, k, n = heads.shape
    each = given.values[:, None].expand(B, k, n, n + 1).gather(-1, heads.clamp(min=0)[..., None])[..., 0]
    return torch.where(heads >= 0, each, 0.0).sum(-1)


def _trees(values: Any, mask: Tensor | None = None, lengths: Tensor | None = None, single_root: bool = False) -> Trees:
    values = floating("values", values)
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] + 1:
        raise ValueError(f"values: expected shape (..., n, n + 1), got {tuple(values.shape)}")
    if not isinstance(single_root, bool):
        raise TypeError(f"single_root: expected True or False, got {single_root!r}")
    *batch, n, _ = values.shape
    B, kept = math.prod(batch), mask_of(mask, lengths, tuple(batch), n, values.device)
    kept = values.new_ones((B, n), dtype=torch.bool) if kept is None else kept.reshape(B, n)
    flat, places = values.reshape(B, n, n + 1), None
    if mask is not None:
        places = (~kept).long().argsort(stable=True, dim=-1)
        flat = _moved(flat, places)
    return Trees(flat, kept.sum(-1), single_root, kept, places, tuple(batch))


def _moved(x: Tensor, places: Tensor) -> Tensor:
    """Numbers of arcs (B, n, n + 1) whose tokens are those at places (B, n)."""
    heads = torch.nn.functional.pad(places + 1, (1, 0))
    return x.gather(1, places[..., None].expand_as(x)).gather(2, heads[:, None].expand_as(x))


def _renamed(heads: Tensor, places: Tensor, names: Tensor) -> Tensor:
    """Heads (B, k, n) of the tokens at places (B, n), where token m becomes names[m - 1] + 1."""
    B, k, n = heads.shape
    table = torch.nn.functional.pad(torch.nn.functional.pad(names + 1, (1, 0)), (1, 0), value=-1)
    moved = heads.gather(-1, places[:, None].expand(B, k, n))
    return table[:, None].expand(B, k, n + 2).gather(-1, moved + 1)
