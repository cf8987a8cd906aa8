"""Finite sums over examples: the structural hinge loss, smoothed or not, and the CRF log loss.

F(w) = (1/n) sum_i [ max_y (score_i(y; w) + loss_i(y)) - score_i(y_i; w) ], with the max possibly smoothed (Pillutla et
al., equations (1), (3) and (13)). The regulariser belongs to the optimiser, and mu is an argument. One loop serves all
models and structures.

The gradient of any max, smoothed or not, is an average of outputs, and therefore a dual point: with u_i the weights of
the outputs of example i,

    D(u) = mean_i <u_i, loss_i> - ||g||^2 / (2 lam) <= min F + lam/2 ||w||^2,
    g = mean_i sum_y u_i(y) phi_i(y) - phi_i(y_i)

so a gradient and the mean task loss (:meth:`StructuralHinge.linearize`) give a certificate. With constraints w_N >= 0,
negative entries of -g on N count as 0 in the norm. The dual of the log loss has the entropies of the u_i besides, and
the task loss only if its scores are augmented by it (softmax-margin).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, number, real
from reference.models.base import all_of, check_weights, integer
from reference.models.partial import needs_all, unknown_positions
from reference.smoothings import Entropy, Max, Smoothed, SquaredL2, TopK, positive_mu
from reference.structures.base import KBest, UnsupportedError, at_most, check_offers, feasible
from reference.structures.proposals import Sampler, best_and_drawn, best_and_proposed
from reference.structures.sampling import generator
from reference.structures.scores import add, inner, mapped

__all__ = ["Corners", "Linearization", "LogLoss", "StructuralHinge"]

ROUNDING = 1e-5  # of a sum, beside the sum of absolute values


class Corners(NamedTuple):
    """The k best loss-augmented outputs of b examples, as affine functions of w whose maximum is the hinge.

    hinge_i(w) = max_y losses_i(y) + <directions_i(y), w>, with directions_i(y) = phi(x_i, y) - phi(x_i, y_i)

    directions (b, k, d); losses (b, k), the task losses; count (b,) int64, the number of outputs found, at most k. Past
    the count, directions are 0 and losses -inf.
    """

    directions: Array
    losses: Array
    count: Array


class Linearization(NamedTuple):
    """Means over a batch at w: the loss, its gradient (d,), the task loss averaged with the oracle's weights, and the
    share of exact calls.

    The loss at any v, smoothed or not, is at least task_loss + <gradient, v>.
    """

    value: float
    gradient: Array
    task_loss: float
    exact: float


class StructuralHinge:
    """The mean over examples of the structural hinge loss.

    mean_i  max_y [score_i(y; w) + loss_i(y)] - score_i(y_i; w), the max smoothed by ``smoothing`` at ``mu`` > 0.

    Parameters
    ----------
    model : model
    data : packed data
        From ``model.pack(X, Y)``.
    smoothing : callable
        ``smoothings.Max()`` (default), ``smoothings.Entropy()``, ``smoothings.SquaredL2()`` or ``smoothings.TopK(k)``.

    Raises
    ------
    UnsupportedError, IntractableError
        If the model's structure lacks the oracle that the smoothing needs, or that oracle is intractable.
    ValueError
        No examples; a task loss of yours that is not 0 for a true output.

    Source
    ------
    Pillutla et al., equations (1) to (3), Definition 6.
    """

    mu = 0.0  # what mu=None means
    loss_augmented = True
    unknown = 0  # positions whose labels are not known

    def __init__(self, model: Any, data: Any, *, smoothing: Any = None) -> None:
        self.model, self.data = model, data
        self.smoothing = Max() if smoothing is None else smoothing
        if isinstance(self.smoothing, type) or not (callable(self.smoothing) and hasattr(self.smoothing, "needs")):
            raise TypeError(f"smoothing: expected an object such as Entropy(), got {smoothing!r}")
        if not hasattr(model, "structure_type"):
            raise TypeError(f"model: expected a model such as SequenceModel, got {type(model).__name__}")
        model.check(data)
        if data.n == 0:
            raise ValueError("data: expected at least one example, got none")
        self.unknown = unknown_positions(data)
        if self.unknown and self.loss_augmented:  # a task loss needs the truth
            cost = "(cost=True)" if isinstance(self, LogLoss) else ""
            raise ValueError(f"data: {needs_all(f'{type(self).__name__}{cost}', self.unknown)}")
        self._like = self.zeros()  # namespace and dtype of weights
        for method in {"best", "parts", self.smoothing.needs}:
            check_offers(model.structure_type, method, f"{type(self).__name__} with {self.smoothing}")
        if self.loss_augmented:
            check_truth(model, data)

    def __repr__(self) -> str:
        """Sizes, and no arrays: ``StructuralHinge(n=120, model=SequenceModel(...), smoothing=Max())``."""
        return f"{type(self).__name__}(n={self.n}, model={self.model!r}, smoothing={self.smoothing!r})"

    @property
    def n(self) -> int:
        """Number of examples."""
        n: int = self.data.n
        return n

    @property
    def nonnegative(self) -> slice | None:
        """The weights that the model constrains to be >= 0; None: no constraint."""
        return getattr(self.model, "nonnegative", None)

    def zeros(self) -> Array:
        """Zero weights (d,), in the namespace, dtype and device in which the optimiser computes."""
        try:
            return self.model.zeros(self.data)
        except MemoryError as problem:
            raise MemoryError(f"model: no room for the weights of {self.model!r:.200}: {problem}") from None

    def value_and_gradient(self, w: Array, batch: Any = None, mu: float | None = None) -> tuple[float, Array]:
        """Mean loss over a batch and its (sub)gradient (d,), without regulariser.

        Parameters
        ----------
        w : array (d,)
        batch : int array (b,), optional
            Example numbers; None: all. A number that occurs twice counts twice.
        mu : float, optional
            Strength of the smoothing; None: the loss's own, 0 for the hinge and 1 for the log loss.

        Returns
        -------
        value : float
        gradient : array (d,)

        Raises
        ------
        ValueError, TypeError
            Weights of another size or dtype, a batch that is empty or out of range, mu out of range.
        InfeasibleError
            Every output of an example is forbidden.
        """
        batch = self._batch(w, batch)
        total, gradient = self._sum(w, batch, self._mu(mu))
        return total / len(batch), gradient / len(batch)

    def value(self, w: Array, batch: Any = None, mu: float | None = None) -> float:
        """The value of :meth:`value_and_gradient`, with the same arguments and errors, without the gradient."""
        if type(self).value_and_gradient is not StructuralHinge.value_and_gradient:  # a subclass's own loss
            return self.value_and_gradient(w, batch, mu)[0]
        batch = self._batch(w, batch)
        return self._total(w, batch, self._mu(mu)) / len(batch)

    def linearize(self, w: Array, batch: Any = None, mu: float | None = None) -> Linearization:
        """Value and gradient as by :meth:`value_and_gradient`, the task loss that a duality gap needs, and the share of
        exact values.

        Parameters
        ----------
        w, batch, mu
            As for :meth:`value_and_gradient`.

        Returns
        -------
        Linearization
            ``exact``: the share of examples whose smoothed max is certified (1 for the max, entropy and listed outputs;
            for the top-K strategy, where Proposition 4 of Pillutla et al. holds). The log loss has task loss 0,
            unless it has ``cost``.

        Raises
        ------
        ValueError, TypeError, InfeasibleError
            As for :meth:`value_and_gradient`.
        """
        batch = self._batch(w, batch)
        value, gradient, task_loss, exact = self._linearized(w, batch, self._mu(mu))
        n = len(batch)
        return Linearization(value / n, gradient / n, task_loss / n, exact / n)

    def smoothness(self, mu: float | None = None) -> float | None:
        """L such that the gradient of every example's loss, smoothed at mu, is L-Lipschitz in w. (For the mean loss a
        smaller L may hold.)

        Entropy: max_i diam_i^2 / (4 mu), with diam_i the diameter of the feature vectors of example i's outputs;
        squared l2 over listed outputs: max_i ||A_i||_2^2 / mu. None where no constant is known: for the max itself, for
        the top-K strategy, and for a model without bounds on its features.

        Source
        ------
        Pillutla et al., Lemma 40, sharpened for entropy: the covariance of outputs within a set of diameter diam is at
        most diam^2/4 in any direction (Popoviciu).
        """
        mu = self._mu(mu)
        return None if mu == 0 or self._curvature is None else self._curvature / mu

    def local_smoothness(self, mu: float | None = None) -> float:
        """L such that each example's gradient is L-Lipschitz where its K best outputs do not change; inf if none is
        known.

        Top-K strategy: (K - 1)/2 max_i diam_i^2 / mu, since ||A||_2^2 is at most the sum of the squared distances of
        the K feature vectors from their mean, and that is at most (K - 1)/2 times the square of the largest distance
        between two. The gradient jumps where the K-th and the next output tie.
        """
        mu = self._mu(mu)
        if mu == 0 or not isinstance(self.smoothing, TopK | SquaredL2) or self._squared_diameter is None:
            return np.inf
        k = self.smoothing.k if isinstance(self.smoothing, TopK) else self.smoothing.max_k
        return (k - 1) / 2 * self._squared_diameter / mu

    @cached_property
    def _squared_diameter(self) -> float | None:
        """The largest squared diameter of an example's feature vectors; None if the model has no bound."""
        bounds = self.model.squared_diameters(self.data)
        return None if bounds is None else float(np.max(bounds))

    @cached_property
    def _curvature(self) -> float | None:
        """The smoothness at mu = 1."""
        if isinstance(self.smoothing, Entropy):
            return None if self._squared_diameter is None else self._squared_diameter / 4
        if isinstance(self.smoothing, SquaredL2):
            bounds = self.model.squared_norms(self.data)
            return None if bounds is None else float(np.max(bounds))
        return None

    def corners(self, w: Array, batch: Any = None, k: int = 1) -> Corners:
        """The k best outputs of each example under scores plus task loss, as directions and losses.

        Parameters
        ----------
        w : array (d,)
        batch : int array (b,), optional
            Example numbers; None: all.
        k : int >= 1
            More than 1 needs a structure with ``topk``.

        Returns
        -------
        Corners
            Sorted by losses + <directions, w>, from high to low.

        Raises
        ------
        ValueError, TypeError
            As for :meth:`value_and_gradient`; k < 1.
        UnsupportedError
            The log loss, which is not a maximum of affine functions; k > 1 without ``topk``.

        Notes
        -----
        Memory O(b k d): the directions are dense.

        Source
        ------
        Pillutla et al., equation (3): the structural hinge is a maximum of affine functions of w.
        """
        k = integer("k", k, 1)
        return self._corners(w, batch, k, lambda space, _: [space.best()[1]] if k == 1 else _labels(space.topk(k)))

    def sampled_corners(
        self,
        w: Array,
        batch: Any = None,
        k: int = 1,
        mu: float = 1.0,
        rng: int | np.random.Generator | None = None,
        sampler: Sampler | None = None,
    ) -> Corners:
        """The best output of each example under scores plus task loss, and k - 1 drawn with probability proportional to
        exp of that over mu.

        Parameters
        ----------
        w, batch
            As :meth:`corners`.
        k : int >= 1
            More than 1 needs a structure with ``sample``.
        mu : float > 0
            Temperature.
        rng : int, numpy.random.Generator or None
            Random numbers are drawn on the host.
        sampler : callable, optional
            A function that proposes the k - 1 outputs instead, as for :func:`multisample`.

        Returns
        -------
        Corners
            The best output first, then the others as they were drawn, each once: ``count`` may be below k.

        Raises
        ------
        ValueError, TypeError, UnsupportedError
            As for :meth:`corners`; mu <= 0; a sampler that does not return a list of at most k - 1 possible outputs.

        Source
        ------
        Branson et al., section 1.2: the first sample is the best output, whose direction is the subgradient.
        """
        k, mu, rng = integer("k", k, 1), positive_mu(mu), generator(rng)
        if sampler is None:
            return self._corners(w, batch, k, lambda space, _: best_and_drawn(space, k, mu, rng))
        return self._corners(w, batch, k, lambda space, i: best_and_proposed(space, i, k, sampler, rng))

    def _corners(self, w: Array, batch: Any, k: int, choose: Callable[[Any, int], Iterable[Any]]) -> Corners:
        """The corners of the outputs, at most k, that ``choose`` takes from each example's loss-augmented space."""
        check_weights(self.model, w, self._like)
        at_most("k", k, self.model.size, "whose directions take")
        batch, place = all_of(self.n, batch), Place.of(w)
        xp = place.xp
        directions, losses, count = [], [], []
        for i in batch:
            planes = list(self._planes(w, i, choose))
            missing = k - len(planes)
            rows = [direction for direction, _ in planes] + [xp.zeros_like(w)] * missing
            directions.append(xp.stack(rows))
            losses.append([loss for _, loss in planes] + [-np.inf] * missing)
            count.append(len(planes))
        shape = (len(batch), k)
        together = xp.stack(directions) if directions else place.zeros((*shape, self.model.size))
        return Corners(together, xp.reshape(place.floats(losses), shape), place.integers(count))

    def _planes(self, w: Array, i: int, choose: Callable[[Any, int], Iterable[Any]]) -> Iterator[tuple[Array, float]]:
        """Direction and task loss of each output that ``choose`` takes from the loss-augmented space of example i."""
        model, data = self.model, self.data
        (piece,) = model.chunks(data, np.array([i]))
        task_loss, gold = model.task_loss(data, piece), model.gold(data, piece)
        structure = model.structure_type.unchecked(add(model.scores(data, piece, w), task_loss))
        for y in choose(structure, i):
            parts = structure.parts(y)
            yield model.pullback(data, piece, w, add(parts, gold, -1.0)), inner(task_loss, parts)

    def width(self) -> float:
        """D such that smoothing at mu changes any example's loss by at most mu D. The model counts the outputs."""
        if hasattr(self.smoothing, "width_of"):
            pieces = self._pieces(self.zeros(), np.arange(self.n))
            return max(float(self.smoothing.width_of(structure)) for *_, structure in pieces)
        return max(self.smoothing.width(m) for m in self.model.counts(self.data))

    def _batch(self, w: Array, batch: Any) -> np.ndarray:
        """The example numbers of a batch, checked, and w, as for :meth:`value_and_gradient`."""
        check_weights(self.model, w, self._like)
        numbers: np.ndarray = all_of(self.n, batch)
        if len(numbers) == 0:
            raise ValueError("batch: expected at least one example, got none")
        return numbers

    def _total(self, w: Array, batch: np.ndarray, mu: float) -> float:
        """The sum over the batch of losses."""
        total = 0.0
        for _, true, _, _, structure in self._pieces(w, batch):
            total += _total(structure.smooth_max(self.smoothing, mu)[0]) - true
        return total

    def _sum(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array]:
        """The sum over the batch of losses and gradients."""
        total, gradient = 0.0, self.zeros()
        for piece, true, gold, _, structure in self._pieces(w, batch):
            value, parts = structure.smooth_max(self.smoothing, mu)
            total += _total(value) - true
            gradient = gradient + self.model.pullback(self.data, piece, w, add(parts, gold, -1.0))
        return total, gradient

    def _linearized(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array, float, float]:
        """The sum over the batch of losses, gradients, task losses and exact calls."""
        total, gradient, task_loss, exact = 0.0, self.zeros(), 0.0, 0.0
        for piece, true, gold, loss, structure in self._pieces(w, batch):
            answer = _smoothed(self.smoothing, structure, mu)
            total += _total(answer.value) - true
            gradient = gradient + self.model.pullback(self.data, piece, w, add(answer.gradient, gold, -1.0))
            task_loss += 0.0 if loss is None else inner(loss, answer.gradient)
            exact += _total(answer.exact)
        return total, gradient, task_loss, exact

    def _pieces(self, w: Array, batch: np.ndarray) -> Iterator[tuple[np.ndarray, float, Any, Any, Any]]:
        """Each piece of the batch: example numbers, score and parts of the true outputs, task loss (or None), the
        loss-augmented space.
        """
        model, data = self.model, self.data
        one_by_one = getattr(self.smoothing, "one_by_one", False)
        for piece in batch[:, None] if one_by_one else model.chunks(data, batch):
            scores = model.scores(data, piece, w)
            true, gold = self._truth(piece, scores)
            loss = model.task_loss(data, piece) if self.loss_augmented else None
            augmented = scores if loss is None else add(scores, loss)
            yield piece, true, gold, loss, model.structure_type.unchecked(augmented)

    def _truth(self, piece: np.ndarray, scores: Any) -> tuple[float, Any]:
        """The sum of the scores of the true outputs of a piece, and their parts."""
        gold = self.model.gold(self.data, piece)
        return inner(scores, gold), gold

    def augmented(self, piece: np.ndarray, w: Array) -> Any:
        """The scores of a piece of the examples at w (d,), plus the task loss if the loss is augmented by it."""
        scores = self.model.scores(self.data, piece, w)
        return add(scores, self.model.task_loss(self.data, piece)) if self.loss_augmented else scores

    def over(self, model: Any, data: Any) -> Self:
        """The same loss over another model and other data."""
        return type(self)(model, data, smoothing=self.smoothing)

    def _mu(self, mu: float | None) -> float:
        mu = self.mu if mu is None else number("mu", mu)
        return positive_mu(mu) if mu > 0 else mu


class LogLoss(StructuralHinge):
    """The mean over examples of the CRF negative log-likelihood, or, with ``cost``, of the softmax-margin.

    mean_i  log sum_y exp(score_i(y; w)) - score_i(y_i; w)
    mean_i  log sum_y exp(score_i(y; w) + loss_i(y)) - score_i(y_i; w), with cost

    The latter is an upper bound of the former and of the structural hinge. mu is always 1. Where labels are partly
    known (:mod:`reference.models.partial`), the second term is log sum_y exp(score_i(y; w)) over the allowed outputs
    of example i. The loss is then not convex: its gradient is the marginals minus those of the allowed outputs.

    Parameters
    ----------
    model : model
    data : packed data
        From ``model.pack(X, Y)``.
    cost : bool
        Whether the model's task loss, such as its ``cost``, is added to the scores. Without, it has no effect. It needs
        every label.

    Source
    ------
    Martins et al., equation (3); Pillutla et al., Lemma 7 (ii). With cost: Gimpel and Smith (2010), section 3. Partly
    known labels: Tsuboi et al. (2008).
    """

    mu = 1.0
    loss_augmented = False

    def __init__(self, model: Any, data: Any, *, cost: bool = False) -> None:
        if not isinstance(cost, bool):
            raise TypeError(f"cost: expected True or False, got {cost!r:.80}; the model has the costs")
        self.loss_augmented = cost
        super().__init__(model, data, smoothing=Entropy())

    def __repr__(self) -> str:
        cost = ", cost=True" if self.loss_augmented else ""
        return f"{type(self).__name__}(n={self.n}, model={self.model!r}{cost})"

    def over(self, model: Any, data: Any) -> Self:
        return type(self)(model, data, **({"cost": True} if self.loss_augmented else {}))

    def _truth(self, piece: np.ndarray, scores: Any) -> tuple[float, Any]:
        if not self.unknown:
            return super()._truth(piece, scores)
        allowed = self.model.structure_type.unchecked(self.model.within(self.data, piece, scores))
        value, parts = allowed.smooth_max(self.smoothing, 1.0)
        return _total(value), parts

    def _corners(self, *_: Any) -> Corners:
        raise UnsupportedError(
            f"{type(self).__name__} has no corners because it is not piecewise linear; use StructuralHinge"
        )

    def _mu(self, mu: float | None) -> float:
        if mu is not None and real("mu", mu) != 1.0:
            raise ValueError(
                f"mu: the log loss is defined at mu = 1, got {mu}; StructuralHinge(smoothing=Entropy()) takes any mu"
            )
        return 1.0


def check_truth(model: Any, data: Any) -> None:
    """Raise ValueError unless each true output has task loss 0; models whose loss is so by construction pass."""
    if getattr(type(model).task_loss, "zero_at_truth", False):
        return
    for i in range(data.n):
        (piece,) = model.chunks(data, np.array([i]))
        try:
            task_loss, gold = model.task_loss(data, piece), model.gold(data, piece)
        except ValueError:  # no true output, or a wrong one: evaluations say so
            continue
        check_own_loss(task_loss, gold, i)


def check_own_loss(task_loss: Any, gold: Any, i: int) -> None:
    """Raise ValueError unless the true output of example i has task loss 0, up to rounding in float32."""
    own = inner(task_loss, gold)
    if own != 0 and not abs(own) < ROUNDING * inner(mapped(abs, task_loss), mapped(abs, gold)):
        raise ValueError(f"task_loss: expected 0 for the true output, got {own} in example {i}")


def _smoothed(smoothing: Any, structure: Any, mu: float) -> Smoothed:
    """The smoothed max, and whether it is exact; a user's smoothing without ``smoothed`` counts as exact."""
    if hasattr(smoothing, "smoothed"):
        answer: Smoothed = smoothing.smoothed(structure, mu)
    else:
        value, gradient = smoothing(structure, mu)
        answer = Smoothed(value, gradient, np.ones(getattr(value, "shape", ()), dtype=bool))
    if hasattr(answer.value, "ndim"):
        feasible(answer.value, "linearize")
    return answer


def _total(value: Any) -> float:
    """The sum of a number, or of an array of numbers or booleans, as a float."""
    if getattr(value, "ndim", 0) == 0:
        return float(value)
    xp = array_namespace(value)
    return float(xp.sum(xp.astype(value, xp.int64) if value.dtype == xp.bool else value))


def _labels(k_best: KBest) -> Iterator[Any]:
    """The outputs of a single example (no batch, or a batch of one), from the best on."""
    batch = (slice(None),) * k_best.count.ndim
    for j in range(int(array_namespace(k_best.count).sum(k_best.count))):
        yield k_best.labels[(*batch, j, ...)]
