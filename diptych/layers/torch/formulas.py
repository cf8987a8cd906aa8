"""Answers that layers of all structures give in the same way: formulas of a batch, and functions of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from diptych.layers.torch.arguments import beside, label_tensor, operator, undifferentiated
from diptych.layers.torch.oracles import best_outputs, highest_scores, k_best_outputs, sampled
from diptych.layers.torch.projections import projected
from reference.arrays import integer, number
from reference.smoothings import Entropy, Max, SquaredL2, TopK
from reference.structures.base import InfeasibleError, KBest
from reference.structures.scores import finite

__all__ = ["LABELLED", "OUTPUTS", "SUMS", "Batch", "Best", "KBest", "Parts", "chosen", "functions"]


class Best(NamedTuple):
    """value (...,), the highest score; labels (..., n), -1 off the mask."""

    value: Tensor
    labels: Tensor


class Parts(NamedTuple):
    """Numbers of labels, unary (..., n, L), and of pairs of neighbours, pairwise."""

    unary: Tensor
    pairwise: Tensor


@dataclass
class Batch:
    """scores: tensors (B, ...), of chains (1, B, ...); shape: the leading axes of the caller; where: the mask or the
    lengths of each, or None. A structure has its kind, the names of its scores and outputs, and the methods named here.
    """

    kind: ClassVar[str]
    fields: ClassVar[tuple[str, ...]] = ("values",)
    output: ClassVar[str] = "labels"
    axes: ClassVar[int] = 1  # before those of an example
    of: ClassVar[Any]  # (arguments of a caller) -> Batch. Raises ValueError, TypeError
    checked: ClassVar[Any]  # (outputs of a caller) -> as scores count positions, -1 where none is needed. ValueError
    value: ClassVar[Any]  # (mu) -> the log-partitions
    mean: ClassVar[Any]  # (direction) -> <marginals, direction>
    marginals: ClassVar[Any]  # (mu) -> those of each field, with the axes of the caller
    scores: tuple[Tensor, ...]
    shape: tuple[int, ...]
    where: Any = None
    parents: Any = None
    single_root: bool = False

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

    def laid_out(self, y: Any) -> Tensor:
        """Outputs (..., n) of the caller beside the scores."""
        x = self.scores[0]
        return label_tensor(self.output, y, self.shaped(x)).reshape(x.shape[:-1])

    def costs(self, y: Tensor, cost: Any) -> Tensor:
        """The cost of each label beside outputs: a number for all but the right one, or a matrix (L, L) of (label,
        predicted label).
        """
        x, L = self.scores[0], self.scores[0].shape[-1]
        table = torch.as_tensor(cost, dtype=x.dtype, device=x.device)
        if table.ndim == 0:
            table = table * (1.0 - torch.eye(L, dtype=x.dtype, device=x.device))
        if tuple(table.shape) != (L, L):
            raise ValueError(f"cost: expected a number or shape {(L, L)}, got {tuple(table.shape)}")
        return torch.where((y >= 0)[..., None], table[y.clamp(min=0)], 0.0)

    def score(self, y: Tensor) -> Tensor:
        """The scores (..., k) of outputs (..., k, n), 0 where they are -1."""
        return chosen(self.scores[0], y).sum(-1)

    def gold(self, y: Tensor) -> Tensor:
        """The scores of outputs that are checked."""
        return self.score(y[..., None, :])[..., 0]

    def own(self) -> list[Tensor]:
        """The scores (B, ...) of each field, with one of its own for each part."""
        return [*self.scores]

    def of_own(self, parts: list[Tensor]) -> list[Tensor]:
        """Numbers of these parts with the axes of the caller."""
        return [*map(self.parts, parts)]

    def loss(self, y: Tensor) -> Tensor:
        """The log-partitions less the scores of outputs that are laid out."""
        return self.value(1.0) - self.gold(self.checked(y))


def chosen(x: Tensor, y: Tensor) -> Tensor:
    """Of numbers (B, n, K) those at y (B, k, n), 0 where y is -1."""
    each = x[:, None].expand(*y.shape, x.shape[-1]).gather(-1, y.clamp(min=0)[..., None])[..., 0]
    return torch.where(y >= 0, each, 0.0)


def functions(structure: type[Batch], formulas: Sequence[Callable[..., Any]]) -> list[Callable[..., Any]]:
    """Functions of the scores that ``structure.of`` takes, of what each formula takes, and of the options of both."""
    return [_function(structure, formula) for formula in formulas]


def _function(structure: type[Batch], formula: Callable[..., Any]) -> Callable[..., Any]:
    others = [f"other_{field}" for field in structure.fields]
    renamed = {"labels": [structure.output], "other": others}
    mine, (_, *own) = ([*inspect.signature(each).parameters.values()] for each in (structure.of, formula))
    own = [p.replace(name=name) for p in own for name in renamed.get(p.name, [p.name])]
    every = sorted([*mine, *own], key=lambda p: p.kind)  # those by name alone come last
    signature = inspect.signature(formula).replace(parameters=every)
    names, of_batch = [p.name for p in every], [p.name for p in mine]
    ordered = [p.name for p in every if p.kind is not p.KEYWORD_ONLY]
    needed = [p.name for p in every if p.default is p.empty]

    def function(*given: Any, **options: Any) -> Any:
        bound = {**options, **dict(zip(ordered, given, strict=False))}
        wrong = [name for name in needed if name not in bound] + [name for name in bound if name not in names]
        if wrong or len(bound) < len(given) + len(options):
            raise TypeError(f"{formula.__name__}: expected {signature}, got {len(given)} arguments and {[*options]}")
        batch = {name: bound.pop(name) for name in of_batch if name in bound}
        if formula is kl:
            other = {field: bound.pop(name) for field, name in zip(structure.fields, others, strict=True)}
            return kl(structure.of(**batch), structure.of(**{**batch, **other}))
        if structure.output in bound:
            bound["labels"] = bound.pop(structure.output)
        return formula(structure.of(**batch), **bound)

    function.__name__ = function.__qualname__ = formula.__name__
    function.__module__, function.__doc__ = (
        structure.__module__,
        (formula.__doc__ or "").replace("labels", structure.output),
    )
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def log_partition(given: Batch, *, mu: float = 1.0) -> Tensor:
    """mu log sum_y exp(score(y) / mu), (...,); 0 for an example without positions."""
    return given.shaped(given.value(number("mu", mu, positive=True)))


def marginals(given: Batch, *, mu: float = 1.0) -> Any:
    """The probability of each part, where P(y) is proportional to exp(score(y) / mu); shaped like the scores."""
    return _fields(given.marginals(number("mu", mu, positive=True)))


def best(given: Batch) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best output, and this (..., n), -1 off the mask;
    ties go to one of them.
    """
    labels = best_outputs(*given.asked)[..., None, :]
    value, labels = given.shaped(given.score(labels)), given.shaped(given.outputs(labels))
    return Best(value[..., 0], labels[..., 0, :])


def best_labels(given: Batch) -> Tensor:
    """The output (..., n) of :func:`best` alone."""
    return given.shaped(given.outputs(best_outputs(*given.asked)[..., None, :]))[..., 0, :]


def topk(given: Batch, k: int) -> KBest:
    """The k best distinct outputs: scores (..., k) from high to low, then -inf; labels (..., k, n), -1 off the mask and
    beyond count (...,).
    """
    labels, count = k_best_outputs(*given.asked, integer("k", k, 1))
    there = torch.arange(k, device=labels.device) < count[..., None]
    each = given.score(labels)
    each = each + (each.detach().cummin(-1).values - each.detach())  # of ties, whose sums are rounded in another order
    scores = torch.where(there, each, -torch.inf)
    return KBest(given.shaped(scores), given.shaped(given.outputs(labels)), given.shaped(count))


def max_marginals(given: Batch) -> Any:
    """The highest score of an output with each part, -inf where there is none; no derivatives."""
    return _fields([given.parts(undifferentiated(x, *given.scores)) for x in highest_scores(*given.asked)])


def sample(given: Batch, size: int = 1, *, mu: float = 1.0, generator: Any = None) -> Tensor:
    """Outputs (..., size, n) drawn with probability proportional to exp(score / mu)."""
    seeds = torch.randint(2**62, (1,), generator=generator, device=None if generator is None else generator.device)
    drawn: Tensor = sampled(*given.asked, seeds, integer("size", size, 1), number("mu", mu, positive=True))
    return given.shaped(given.outputs(drawn))


def score(given: Batch, labels: Tensor) -> Tensor:
    """The score (...,) of labels (..., n); those off the mask are ignored."""
    return given.shaped(given.gold(given.checked(given.laid_out(labels))))


def entropy(given: Batch) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    return given.shaped(given.value(1.0) - given.mean([finite(torch, x) for x in given.scores]))


def kl(p: Batch, other: Any) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,), P of the first scores and Q of the others; inf where Q forbids what P does
    not. All else belongs to both.
    """
    for name, a, b in zip(p.fields, p.scores, other.scores, strict=False):
        beside(f"other_{name}", b, a)
        if a.shape != b.shape or p.shape != other.shape:
            mine, theirs = (tuple(x.shape[p.axes - 1 :]) for x in (a, b))
            raise ValueError(f"other_{name}: expected shape {mine}, got {theirs}")
    pairs = list(zip(p.scores, other.scores, strict=True))
    apart = other.value(1.0) - p.value(1.0) + p.mean([finite(torch, a) - finite(torch, b) for a, b in pairs])
    lost = p.mean([((b == -torch.inf) & (a > -torch.inf)).to(a.dtype) for a, b in pairs])
    return p.shaped(torch.where(lost.detach() > 0, torch.inf, apart))


def smooth_max(given: Batch, smoothing: Any, mu: float) -> Tensor:
    """The smoothed max (...,) over outputs, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    if isinstance(smoothing, Max) or mu == 0:
        return best(given).value
    if isinstance(smoothing, Entropy):
        return log_partition(given, mu=mu)
    if isinstance(smoothing, (TopK, SquaredL2)):
        return _of_the_best(given, smoothing, number("mu", mu, positive=True))
    raise TypeError(f"smoothing: expected Max, Entropy, TopK or SquaredL2, got {type(smoothing).__name__}")


def sparsemap(given: Batch, *, mu: float = 1.0) -> Any:
    """The p of the hull of the outputs' parts with the highest <scores, p> - mu/2 ||p||^2, shaped like the scores: few
    outputs have a part in it. See :func:`reference.sparsemap`; each pair of neighbours is a part of its own.

    Source: Niculae et al. (2018), SparseMAP, with the norm of all parts.
    """
    marginals, own = _sparse(given, mu)[1:]
    return _fields([x.to(own.dtype) for x in given.of_own(marginals)])


def sparsemap_loss(given: Batch, labels: Tensor, *, mu: float = 1.0) -> Tensor:
    """max_p <scores, p> - mu/2 ||p||^2 less what the parts a of labels (..., n) have, (...,); >= 0, inf where they are
    forbidden. Its gradient is p - a. Source: Niculae et al. (2018); Blondel et al. (2020), Fenchel-Young losses.
    """
    y = given.checked(given.laid_out(labels))
    value, _, own = _sparse(given, mu)
    ones = [torch.full_like(x, i < len(given.fields)) for i, x in enumerate(given.scores)]
    norm = replace(given, scores=tuple(ones)).gold(y)
    return given.shaped(value.reshape(norm.shape).to(own.dtype) + 0.5 * mu * norm - given.gold(y))


def crf_loss(given: Batch, labels: Tensor) -> Tensor:
    """-log P(labels), (...,): the log-partition less the score of labels (..., n); those off the mask are ignored."""
    return given.shaped(given.loss(given.laid_out(labels)))


def hinge_loss(given: Batch, labels: Tensor, cost: float | Tensor = 1.0) -> Tensor:
    """max_y cost(y, labels) + score(y) - score(labels), (...,).

    cost: of each wrong part, or, of labels, a matrix (L, L) of (label, predicted label), summed over positions.
    """
    return smooth_hinge_loss(given, labels, Max(), 0.0, cost)


def smooth_hinge_loss(given: Batch, labels: Tensor, smoothing: Any, mu: float, cost: float | Tensor = 1.0) -> Tensor:
    """:func:`hinge_loss` with :func:`smooth_max` in place of the max. Source: Pillutla et al., Definition 1."""
    y = given.checked(given.laid_out(labels))
    given.scores = (given.scores[0] + given.costs(y, cost), *given.scores[1:])
    return smooth_max(given, smoothing, mu) - given.shaped(given.gold(y))


SUMS = log_partition, marginals, entropy, kl
OUTPUTS = best, best_labels, topk, max_marginals, sample, smooth_max, sparsemap
LABELLED = score, crf_loss, hinge_loss, smooth_hinge_loss, sparsemap_loss


def _sparse(given: Batch, mu: float) -> tuple[Tensor, list[Tensor], Tensor]:
    """The maxima (B,) and marginals of SparseMAP, in float64; and the scores of the first field."""
    own = given.own()
    kind, (n, L) = "labels" if given.kind == "chain" else given.kind, own[0].shape[1:]
    x = torch.cat([x.flatten(1) for x in own], 1).double()
    beside = None if given.where is None else given.where.reshape(len(x), *given.where.shape[given.axes :])
    rest = beside, given.parents, given.single_root, number("mu", mu, positive=True)
    return *projected(x, kind, n, L, *rest), own[0]


def _fields(numbers: Sequence[Tensor]) -> Any:
    return Parts(*numbers) if len(numbers) > 1 else numbers[0]


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


@operator("possible", torch.empty_like)
def possible(count: Tensor) -> Tensor:
    """The numbers of outputs, a copy. Raises InfeasibleError if one is 0."""
    if (count == 0).any():
        raise InfeasibleError(f"every output of example {torch.nonzero(count == 0)[0].tolist()} is forbidden")
    return count.clone()


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
