"""Finite sums over examples: the structural hinge loss, smoothed or not, and the CRF log loss.

F(w) = (1/n) sum_i [ max_y (score_i(y; w) + loss_i(y)) - score_i(y_i; w) ], with the max possibly smoothed
(Pillutla et al., equations (1), (3) and (13)). Neither lam nor mu lives here: the regulariser is the optimiser's, and
mu is an argument. One loop serves every model and structure.

Whatever the (smoothed) max, its gradient is an average of outputs, so it is a dual point: with u_i the weights of
example i,

    D(u) = mean_i <u_i, loss_i> - ||g||^2 / (2 lam) <= min F + lam/2 ||w||^2,
    g = mean_i sum_y u_i(y) phi_i(y) - phi_i(y_i)

and a gradient and the mean task loss (:meth:`StructuralHinge.linearize`) are a certificate. Where some weights must
be >= 0, the norm is that of -g with 0 for what is below 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, number, real
from reference.models.base import all_of, check_weights, integer
from reference.smoothings import Entropy, Max, Smoothed, SquaredL2, TopK, positive_mu
from reference.structures.base import IntractableError, KBest, UnsupportedError, at_most, feasible
from reference.structures.proposals import Sampler, best_and_drawn, best_and_proposed
from reference.structures.sampling import generator
from reference.structures.scores import add, inner

__all__ = ["Corners", "Linearization", "LogLoss", "StructuralHinge"]


class Corners(NamedTuple):
    """The k best loss-augmented outputs of b examples, as the planes that make up the hinge.

    hinge_i(w) = max_y losses_i(y) + <directions_i(y), w>, with directions_i(y) = phi(x_i, y) - phi(x_i, y_i)

    directions (b, k, d); losses (b, k), the task losses; count (b,) int64, how many of the k there are. Past the count,
    directions are 0 and losses -inf.
    """

    directions: Array
    losses: Array
    count: Array


class Linearization(NamedTuple):
    """Means over a batch at w: the loss, its gradient (d,), the task loss under the oracle's weights, the share of
    exact calls.

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

    Source
    ------
    Pillutla et al., equations (1) to (3), Definition 6.
    """

    mu = 0.0  # what mu=None means
    loss_augmented = True

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
        self._like = self.zeros()  # namespace and dtype of weights
        for method in {"best", "parts", self.smoothing.needs}:
            if method in getattr(model.structure_type, "intractable", {}):
                raise IntractableError(
                    f"{type(self).__name__} with {self.smoothing} needs {method}(): "
                    f"{model.structure_type.intractable[method]}"
                )
            if not model.structure_type.supports(method):
                raise UnsupportedError(
                    f"{type(self).__name__} with {self.smoothing} needs {method}(), which "
                    f"{model.structure_type.__name__} lacks"
                )

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
        """The weights that must be >= 0, as the model says; None: all are free."""
        return getattr(self.model, "nonnegative", None)

    def zeros(self) -> Array:
        """Weights of zero (d,): size, namespace, device and dtype of what the optimiser works on."""
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
            Smoothing; None: the class's own.

        Returns
        -------
        value : float
        gradient : array (d,)

        Raises
        ------
        ValueError, TypeError
            Weights of another size or dtype, a batch that is empty or out of range, mu out of range.
        InfeasibleError
            An example's every output is forbidden.
        """
        batch = self._batch(w, batch)
        total, gradient = self._sum(w, batch, self._mu(mu))
        return total / len(batch), gradient / len(batch)

    def value(self, w: Array, batch: Any = None, mu: float | None = None) -> float:
        """The value of :meth:`value_and_gradient` alone; arguments and errors as there."""
        if type(self).value_and_gradient is not StructuralHinge.value_and_gradient:  # a subclass's own loss
            return self.value_and_gradient(w, batch, mu)[0]
        batch = self._batch(w, batch)
        return self._total(w, batch, self._mu(mu)) / len(batch)

    def linearize(self, w: Array, batch: Any = None, mu: float | None = None) -> Linearization:
        """Value and gradient as :meth:`value_and_gradient`, with what a duality gap needs besides, and how exact they
        are.

        Parameters
        ----------
        w, batch, mu
            As there.

        Returns
        -------
        Linearization
            ``exact``: the share of examples whose smoothed max is certified (1 for the max, entropy and listed outputs;
            for the top-K strategy, where Proposition 4 of Pillutla et al. holds). The log loss has task loss 0.

        Raises
        ------
        ValueError, TypeError, InfeasibleError
            As there.
        """
        batch = self._batch(w, batch)
        value, gradient, task_loss, exact = self._linearized(w, batch, self._mu(mu))
        n = len(batch)
        return Linearization(value / n, gradient / n, task_loss / n, exact / n)

    def smoothness(self, mu: float | None = None) -> float | None:
        """L: the gradient of each example's loss, smoothed at mu, is L-Lipschitz in w. The largest over examples, not
        that of the mean.

        Entropy: max_i diam_i^2 / (4 mu), with diam_i the diameter of the feature vectors of example i's outputs;
        squared l2 over listed outputs: max_i ||A_i||_2^2 / mu. None where no usable constant is known: the max itself,
        the top-K strategy, a model that does not bound its features.

        Source
        ------
        Pillutla et al., Lemma 40, sharpened for entropy: the covariance of outputs within a set of diameter diam is at
        most diam^2/4 in any direction (Popoviciu).
        """
        mu = self._mu(mu)
        return None if mu == 0 or self._curvature is None else self._curvature / mu

    def local_smoothness(self, mu: float | None = None) -> float:
        """L: what each example's gradient obeys wherever its K best outputs stay the same; inf where nothing is known.

        Top-K strategy: (K - 1)/2 max_i diam_i^2 / mu, since ||A||_2^2 is at most the sum of the squared distances of
        the K feature vectors from their mean, and that is at most (K - 1)/2 times the square of the largest distance
        between two. The hinge has kinks where ranks tie.
        """
        mu = self._mu(mu)
        if mu == 0 or not isinstance(self.smoothing, TopK | SquaredL2) or self._squared_diameter is None:
            return np.inf
        k = self.smoothing.k if isinstance(self.smoothing, TopK) else self.smoothing.max_k
        return (k - 1) / 2 * self._squared_diameter / mu

    @cached_property
    def _squared_diameter(self) -> float | None:
        """The largest squared diameter of an example's feature vectors, where the model bounds it."""
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
            As :meth:`value_and_gradient`; k < 1; a true output whose own task loss is not 0
            (it would be no corner at 0).
        UnsupportedError
            On the log loss, which is not a maximum of affine functions; k > 1 without ``topk``.

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
            The numbers that decide, drawn on the host.
        sampler : callable, optional
            What proposes the k - 1 outputs in place of these draws, as :func:`multisample` takes it.

        Returns
        -------
        Corners
            The best output first, then the others as they were drawn, each once: ``count`` may be below k.

        Raises
        ------
        ValueError, TypeError, UnsupportedError
            As :meth:`corners`; mu not > 0; a sampler's answer that is no list of at most k - 1 possible outputs.

        Source
        ------
        Branson et al., section 1.2: the set of samples has the subgradient as its first.
        """
        k, mu, rng = integer("k", k, 1), positive_mu(mu), generator(rng)
        if sampler is None:
            return self._corners(w, batch, k, lambda space, _: best_and_drawn(space, k, mu, rng))
        return self._corners(w, batch, k, lambda space, i: best_and_proposed(space, i, k, sampler, rng))

    def _corners(self, w: Array, batch: Any, k: int, choose: Callable[[Any, int], Iterable[Any]]) -> Corners:
        """The planes of the outputs that ``choose`` takes from each example's loss-augmented space, at most k."""
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
        """Direction and task loss of the outputs that are chosen from the loss-augmented space of example i, one
        after another.
        """
        model, data = self.model, self.data
        (piece,) = model.chunks(data, np.array([i]))
        task_loss, gold = model.task_loss(data, piece), model.gold(data, piece)
        if (own := inner(task_loss, gold)) != 0:
            raise ValueError(f"task_loss: expected 0 for the true output, got {own} in example {i}")
        structure = model.structure_type.unchecked(add(model.scores(data, piece, w), task_loss))
        for y in choose(structure, i):
            parts = structure.parts(y)
            yield model.pullback(data, piece, w, add(parts, gold, -1.0)), inner(task_loss, parts)

    def width(self) -> float:
        """D: smoothing at mu adds at most mu D to any example's loss. Asks the model for numbers of outputs."""
        return max(self.smoothing.width(m) for m in self.model.counts(self.data))

    def _batch(self, w: Array, batch: Any) -> np.ndarray:
        """The example numbers of a batch. The errors of :meth:`value_and_gradient` for it and for w."""
        check_weights(self.model, w, self._like)
        numbers: np.ndarray = all_of(self.n, batch)
        if len(numbers) == 0:
            raise ValueError("batch: expected at least one example, got none")
        return numbers

    def _total(self, w: Array, batch: np.ndarray, mu: float) -> float:
        """The sum over the batch of losses."""
        total = 0.0
        for _, scores, gold, _, structure in self._pieces(w, batch):
            total += _total(structure.smooth_max(self.smoothing, mu)[0]) - inner(scores, gold)
        return total

    def _sum(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array]:
        """The sum over the batch of losses and gradients."""
        total, gradient = 0.0, self.zeros()
        for piece, scores, gold, _, structure in self._pieces(w, batch):
            value, parts = structure.smooth_max(self.smoothing, mu)
            total += _total(value) - inner(scores, gold)
            gradient = gradient + self.model.pullback(self.data, piece, w, add(parts, gold, -1.0))
        return total, gradient

    def _linearized(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array, float, float]:
        """The sum over the batch of losses, gradients, task losses and exact calls."""
        total, gradient, task_loss, exact = 0.0, self.zeros(), 0.0, 0.0
        for piece, scores, gold, loss, structure in self._pieces(w, batch):
            answer = _smoothed(self.smoothing, structure, mu)
            total += _total(answer.value) - inner(scores, gold)
            gradient = gradient + self.model.pullback(self.data, piece, w, add(answer.gradient, gold, -1.0))
            task_loss += 0.0 if loss is None else inner(loss, answer.gradient)
            exact += _total(answer.exact)
        return total, gradient, task_loss, exact

    def _pieces(self, w: Array, batch: np.ndarray) -> Iterator[tuple[np.ndarray, Any, Any, Any, Any]]:
        """Each piece of the batch: example numbers, scores, parts of the true outputs, task loss (or None), the
        loss-augmented space.
        """
        model, data = self.model, self.data
        for piece in model.chunks(data, batch):
            scores, gold = model.scores(data, piece, w), model.gold(data, piece)
            loss = model.task_loss(data, piece) if self.loss_augmented else None
            augmented = scores if loss is None else add(scores, loss)
            yield piece, scores, gold, loss, model.structure_type.unchecked(augmented)

    def _mu(self, mu: float | None) -> float:
        mu = self.mu if mu is None else number("mu", mu)
        return positive_mu(mu) if mu > 0 else mu


class LogLoss(StructuralHinge):
    """The mean over examples of the CRF negative log-likelihood.

    mean_i  log sum_y exp(score_i(y; w)) - score_i(y_i; w)

    No task loss; mu is 1 and nothing else.

    Source
    ------
    Martins et al., equation (3); Pillutla et al., Lemma 7 (ii).
    """

    mu = 1.0
    loss_augmented = False

    def __init__(self, model: Any, data: Any) -> None:
        super().__init__(model, data, smoothing=Entropy())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, model={self.model!r})"

    def _corners(self, *_: Any) -> Corners:
        raise UnsupportedError(f"{type(self).__name__} has no corners: it is no maximum of planes; StructuralHinge is")

    def _mu(self, mu: float | None) -> float:
        if mu is not None and real("mu", mu) != 1.0:
            raise ValueError(
                f"mu: the log loss is defined at mu = 1, got {mu}; StructuralHinge(smoothing=Entropy()) takes any mu"
            )
        return 1.0


def _smoothed(smoothing: Any, structure: Any, mu: float) -> Smoothed:
    """The smoothing's answer with its exactness; a smoothing of the user's that does not say is taken as exact."""
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
    """The outputs of the one example of a batch (or of no batch), from the best on."""
    batch = (slice(None),) * k_best.count.ndim
    for j in range(int(array_namespace(k_best.count).sum(k_best.count))):
        yield k_best.labels[(*batch, j, ...)]
