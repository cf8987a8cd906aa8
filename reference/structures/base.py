"""The structure protocol: the methods of every scored output space.

A structure is a view of scores. A structural SVM needs only ``best`` and ``parts``. ``topk`` adds top-K smoothing and
multi-sample updates, ``expectation`` adds conditional random fields. Source: Pillutla et al., Definition 6 (the max,
top-K and exp oracles) and Lemma 7 (their gradients).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj

from reference.arrays import Array, Place, concrete, floats, host, integers, refuse_nan_and_inf, seen, shown, unmasked
from reference.smoothings import positive_mu
from reference.structures.scores import Scores, add, finite, inner, mapped, score_fields

__all__ = ["InfeasibleError", "IntractableError", "KBest", "Structure", "UnsupportedError", "positive_mu"]


MOST = 2**28  # the most numbers in the outputs of one call: 2 GiB


class InfeasibleError(ValueError):
    """Every output is forbidden: each has the score -inf."""


class IntractableError(ValueError):
    """The problem is #P-complete for this structure; the message names the proposition."""


class UnsupportedError(TypeError):
    """The structure lacks a method that the caller needs; the message names the method."""


class KBest(NamedTuple):
    """The k best distinct outputs: scores (..., k) from high to low, padded with -inf; labels; count (...,) int64.

    ``labels`` are (..., k) for listed outputs and (..., k, n) for chains, padded with -1.
    """

    scores: Array
    labels: Array
    count: Array


class Structure:
    """A scored output space.

    A subclass defines ``best() -> (value, output)`` and ``parts(output) -> scores-shaped indicator``. The constructor
    takes the scores, a NamedTuple of arrays or a bare array. Any other method is derived from those that a subclass
    defines, or it raises UnsupportedError or IntractableError.

    JAX can trace (``jit``, ``vmap``, ``grad``) methods that compute in the namespace of the scores: in ``reference``
    all methods of :class:`Chain`, :class:`Segments`, :class:`Tree` and :class:`Table` except ``SquaredL2`` smoothing,
    ``count`` and ``enumerate``, and the oracles of :class:`Projective` except ``sample``. Traced values are not
    checked: a value of -inf stands for the InfeasibleError of a plain call. Methods that compute on the host raise
    JAX's own error.
    """

    scores: Any
    listed: int | None = None  # the number of outputs, if they are few enough to list
    variables: str | None = None  # the score field (..., p, states) with an entry for each state of each variable
    axes: ClassVar[tuple[str, ...]] = ()  # names of the last axes of the scores' first field, for the repr
    intractable: ClassVar[dict[str, str]] = {}  # methods without a polynomial-time algorithm, and the reason

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    @classmethod
    def unchecked(cls, scores: Scores) -> Self:
        """A structure of these scores without validation, for scores that a model has computed."""
        self = object.__new__(cls)
        self.scores = scores
        return self

    def __repr__(self) -> str:
        """Sizes instead of arrays: ``Chain(n=10, labels=26)``; for a batch, its axes come first."""
        fields = score_fields(self.scores) if hasattr(self, "scores") else []
        shape = tuple(getattr(fields[0], "shape", ())) if fields else ()
        cut = len(shape) - len(self.axes)
        batch = [f"batch={shape[:cut]}"] if self.axes and cut > 0 else []
        sizes = [f"{name}={size}" for name, size in zip(self.axes, shape[max(cut, 0) :], strict=False)]
        return f"{type(self).__name__}({', '.join([*batch, *sizes] if self.axes else [f'scores={shape}'])})"

    # methods that a structure provides -----------------------------------------------------------------------------

    def best(self) -> tuple[Any, Any]:
        """The highest score and an output with this score (the max oracle). Raises InfeasibleError."""
        raise self._lacks("best")

    def parts(self, y: Any) -> Scores:
        """The indicator of the parts of output ``y``, shaped like the scores: score(y) = <scores, parts(y)>."""
        raise self._lacks("parts")

    def topk(self, k: int) -> Any:
        """The k best distinct outputs (the top-K oracle). Raises ValueError if they take more than 2^28 numbers."""
        raise self._lacks("topk")

    def expectation(self, mu: float = 1.0) -> tuple[Any, Scores]:
        """mu log sum_y exp(score(y)/mu) and its gradient, the marginals (the exp oracle)."""
        raise self._lacks("expectation")

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Any:
        """``size`` independent outputs, drawn with probability proportional to exp(score / mu).

        The outputs are stored as by ``topk``. Raises ValueError if they take more than 2^28 numbers.
        """
        raise self._lacks("sample")

    def count(self) -> int:
        """The number of outputs that are not forbidden, as a Python int."""
        raise self._lacks("count")

    def max_marginals(self) -> Scores:
        """For each part the highest score of an output with this part; -inf if no possible output has it."""
        raise self._lacks("max_marginals")

    def enumerate(self) -> Iterator[Any]:
        """Every output that is not forbidden, one at a time."""
        raise self._lacks("enumerate")

    # methods derived from them -------------------------------------------------------------------------------------

    def score(self, y: Any) -> Any:
        """The score of output ``y``."""
        return inner(self.scores, self.parts(y))

    def expected_parts(self, outputs: Any, weights: Any) -> Scores:
        """sum_k weights[k] parts(outputs[k]), with outputs stored as by ``topk``; outputs of weight 0 are not read."""
        total = None
        for k in range(weights.shape[-1]):
            weight = float(weights[k])
            if weight != 0:
                parts = self.parts(outputs[k] if outputs.ndim == 1 else outputs[k, ...])
                total = add(parts, parts, weight - 1.0) if total is None else add(total, parts, weight)
        if total is None:
            raise InfeasibleError("expected_parts: no output has weight")
        return total

    def node_max_marginals(self) -> Any:
        """The highest score of an output in which variable v has state j: (..., p, states), -inf if there is none.

        Source: Pillutla et al., Definition 13.
        """
        if self.variables is None:
            raise self._lacks("node_max_marginals")
        return getattr(self.max_marginals(), self.variables)

    def first(self) -> Structure:
        """The first space of a batch along one axis; a single space itself."""
        return self

    def states(self, y: Any) -> np.ndarray:
        """The state of each variable in output ``y``: host int64 (p,), negative for a variable without a state.

        Default: y itself.
        """
        return host(y).astype(np.int64)

    def constrained(self, allowed: Any) -> Structure:
        """The structure whose variables are restricted to their allowed states: booleans ``allowed`` (p, states).

        Raises ValueError, TypeError.
        """
        if self.variables is None:
            raise self._lacks("constrained")
        field = limited(getattr(self.scores, self.variables), allowed)
        return self._with(self.scores._replace(**{self.variables: field}))

    def augment(self, loss: Scores) -> Structure:
        """The same space with ``loss``, of the type and shape of the scores, added to them; -inf forbids a part.

        Raises TypeError for another type, ValueError for another shape, nan and +inf.
        """
        return self._with(add(self.scores, checked_loss(self.scores, loss)))

    def _with(self, scores: Scores) -> Self:
        """The same space with other scores."""
        return self.unchecked(scores)

    def smooth_max(self, smoothing: Any, mu: float) -> tuple[Any, Scores]:
        """The smoothed max over outputs: value and gradient (Definition 6; mu = 0 is the max itself).

        Raises InfeasibleError.
        """
        value, gradient = smoothing(self, mu)
        return (feasible(value, "smooth_max") if hasattr(value, "ndim") else value), gradient

    def log_partition(self, mu: float = 1.0) -> Any:
        """mu log sum_y exp(score(y) / mu), never below the score of the best output, also after rounding.

        Therefore no log probability ``score(y) - log_partition()`` is above 0. For a JAX tracer the value is that of
        ``expectation``.
        """
        value = self.expectation(mu)[0]
        if not is_array_api_obj(value):
            return max(value, self.best()[0])
        if not concrete(value):
            return value
        best, y = self.best()
        xp = array_namespace(value)
        return xp.maximum(xp.maximum(value, best), self.score(y))

    def marginals(self, mu: float = 1.0) -> Scores:
        """The probability of each part when outputs have probability proportional to exp(score / mu)."""
        return self.expectation(mu)[1]

    @classmethod
    def supports(cls, method: str) -> bool:
        """Whether the structure implements ``method`` (``"topk"``, ``"expectation"``, ...)."""
        return getattr(cls, method, None) is not getattr(Structure, method, None)

    def _lacks(self, method: str) -> UnsupportedError | IntractableError:
        if method in self.intractable:
            return IntractableError(f"{type(self).__name__} has no {method}(): {self.intractable[method]}")
        return UnsupportedError(f"{type(self).__name__} does not implement {method}()")


def without_scores(structure: Any) -> Any:
    """The same space with scores of 0; what is forbidden stays so."""
    return structure.augment(mapped(lambda x: -finite(array_namespace(x), x), structure.scores))


def check_offers(structure: Any, method: str, user: str) -> None:
    """Raise unless this type of structure implements a method that ``user`` needs, and the method is tractable."""
    if method in getattr(structure, "intractable", {}):
        raise IntractableError(f"{user} needs {method}(): {structure.intractable[method]}")
    if not structure.supports(method):
        raise UnsupportedError(f"{user} needs {method}(), which {structure.__name__} lacks")


def checked_loss(scores: Scores, loss: Any) -> Scores:
    """``loss``, checked to have the type and the shape of the scores, without nan and +inf; of one dtype."""
    if isinstance(scores, tuple) and not isinstance(loss, type(scores)):
        raise TypeError(f"loss: expected {type(scores).__name__}, as the scores are, got {type(loss).__name__}")
    layout = getattr(scores, "layout", ())
    names = [name for name in getattr(scores, "_fields", ()) if name not in layout]
    given = {f"loss.{name}": getattr(loss, name) for name in names} or {"loss": loss}
    fields = score_fields(scores)
    terms = floats(**{f"scores[{i}]": field for i, field in enumerate(fields)}, **given)[len(fields) :]
    for name, field, term in zip(given, fields, terms, strict=True):
        if tuple(term.shape) != tuple(field.shape):
            raise ValueError(f"{name}: expected the shape of the scores, {tuple(field.shape)}, got {tuple(term.shape)}")
        refuse_nan_and_inf(name, term)
    return loss._replace(**dict(zip(names, terms, strict=True))) if names else terms[0]


def checked_edges(edges: Any, unary: Array, pairwise: Array) -> np.ndarray:
    """A copy of the edges (e, 2) between variables with scores unary (p, L), on the host. Raises unless ``pairwise`` is
    (e, L, L) and the two ends of each edge are different variables.
    """
    p, L = unary.shape
    given = host(integers("edges", edges, Place.of(None)))
    pairs: np.ndarray = given.reshape(0, 2) if given.size == 0 else given.copy()
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges: expected shape (e, 2), got {pairs.shape}")
    if tuple(pairwise.shape) != (len(pairs), L, L):
        raise ValueError(f"pairwise: expected shape {(len(pairs), L, L)}, got {tuple(pairwise.shape)}")
    if len(pairs) and not 0 <= pairs.min() <= pairs.max() < p:
        raise ValueError(f"edges: expected variables in 0..{p - 1}, got {pairs.min()}..{pairs.max()}")
    for e in np.flatnonzero(pairs[:, 0] == pairs[:, 1])[:1]:
        raise ValueError(f"edges: edge {e} joins variable {pairs[e, 0]} to itself")
    return pairs


def positive_k(k: int, numbers: int = 1) -> int:
    """``k`` as an int, checked to be an integer >= 1; :func:`at_most` checks the size of the k outputs."""
    try:
        number = operator.index(k)
    except TypeError:
        raise TypeError(f"k: expected an integer >= 1, got {k!r}") from None
    if isinstance(k, bool) or number < 1:
        raise ValueError(f"k: expected an integer >= 1, got {shown(k)}")
    return at_most("k", number, numbers)


def at_most(name: str, count: int, numbers: int, which: str = "which take") -> int:
    """``count``, the number of outputs. Raises ValueError if they take more than MOST numbers, ``numbers`` each; one
    may.
    """
    most = max(MOST // max(numbers, 1), 1)
    if count > most:
        raise ValueError(
            f"{name}: expected at most {most} outputs, {which} {max(numbers, 1)} numbers each where 2^28 are the "
            f"limit, got {shown(count)}"
        )
    return count


def k_best(scores: Array, labels: Array, k: int) -> KBest:
    """The KBest of sorted scores (..., j), j <= k, and labels (..., j) or (..., j, n).

    Scores are padded to k with -inf; labels beside -inf are -1.
    """
    xp = array_namespace(scores)
    rank = scores.ndim - 1  # the axis
    possible = scores > -xp.inf
    aligned = xp.reshape(possible, (*scores.shape, *(1,) * (labels.ndim - scores.ndim)))
    labels = xp.where(aligned, labels, -1)
    missing = k - scores.shape[rank]
    if missing > 0:
        shape, sizes = (*scores.shape[:rank], missing), labels.shape[rank + 1 :]
        no_scores = xp.full(shape, -xp.inf, dtype=scores.dtype, device=device(scores))
        no_labels = xp.full((*shape, *sizes), -1, dtype=labels.dtype, device=device(labels))
        scores, labels = xp.concat([scores, no_scores], axis=rank), xp.concat([labels, no_labels], axis=rank)
    return KBest(scores, labels, xp.sum(xp.astype(possible, xp.int64), axis=rank))


def limited(field: Array, allowed: Any) -> Array:
    """The scores ``field`` (..., p, states) with -inf where the booleans ``allowed`` (p, states) are False."""
    xp = array_namespace(field)
    allowed = unmasked("allowed", allowed)
    allowed = allowed if is_array_api_obj(allowed) else np.asarray(allowed)
    if tuple(allowed.shape) not in (tuple(field.shape[-2:]), tuple(field.shape)):
        raise ValueError(f"allowed: expected shape {tuple(field.shape[-2:])}, got {tuple(allowed.shape)}")
    if allowed.dtype != array_namespace(allowed).bool:
        raise TypeError(f"allowed: expected booleans, got {allowed.dtype}")
    if isinstance(allowed, np.ndarray):
        allowed = xp.asarray(allowed, device=device(field))
    return xp.where(allowed, field, -xp.inf)


def feasible(value: Array, where: str) -> Array:
    """``value`` if no entry is -inf; otherwise InfeasibleError. The values of a JAX tracer are not checked."""
    xp = array_namespace(value)
    if seen(xp.any(value == -xp.inf)):
        raise InfeasibleError(f"{where}: every output is forbidden (all scores are -inf)")
    return value
