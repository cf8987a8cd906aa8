"""Localisation by a score with one hidden layer: a 1x1 convolution of the features, exponential linear units, a linear
map.

    score(y; W1, W2) = < elu(phi_y * W1), W2 >,   elu(x) = x for x >= 0, exp(x) - 1 below

with phi_y (h, w, C) the features of candidate y, (phi * W1)_ij = W1' phi_ij, W1 (C, m) and W2 (m, h, w). elu has a
continuous slope, which is 1 for x >= 0 and 1 + elu(x) below. Source: Pillutla et al., section 7.1.2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host, integer
from reference.models.base import sound
from reference.models.candidate_data import CandidateData
from reference.models.localization import CandidateModel
from reference.models.nonlinear import NonlinearModel
from reference.structures.sampling import generator
from reference.structures.table import TableScores

__all__ = ["TwoLayerModel", "elu"]

REMEMBERED = 2**28  # bytes of hidden units kept for one point
WRITTEN = 2**29  # bytes of Jacobians kept
OWN = (  # only these models keep hidden units or write out Jacobians
    *("scores", "pushforward", "pullback", "value_and_pushforward", "value_and_pullback", "gold", "gold_scores"),
    *("task_loss", "split", "_both", "_units", "_mapped", "_outer", "_features"),
)


class TwoLayerModel(NonlinearModel, CandidateModel):
    """Finds the best candidate box of an image by a score with one hidden layer; for ``prox_linear`` or ``sgd``.

    score(y; W1, W2) = < elu(phi_y * W1), W2 >

    Data, outputs and task loss are those of ``CandidateModel``.

    Parameters
    ----------
    shape : sequence of int
        The shape (..., C) of one candidate's features, such as (3, 3, 64): C channels at each of P places.
    hidden : int >= 1
        Number m of hidden channels.
    max_candidates : int
        Bound on the candidates of one piece of a batch; a single image may have more.

    Attributes
    ----------
    size : int
        Number of weights C m + m P: W1 (C, m), then W2 (m, ...), each in C order.

    Raises
    ------
    ValueError, TypeError
        An invalid shape or number.

    Notes
    -----
    Scores cost C m P multiplications a candidate, and so do Jacobian-vector products at a point that was evaluated
    before (:meth:`cached_at` keeps hidden units, up to 256 MB). Gradients cost as much for each candidate with
    a weight. For a hinge over NumPy weights, ``prox_linear`` writes out the Jacobians at each of its points, if they
    take at most 512 MB in the features' dtype. Its subproblems then have linear scores. At w = 0 all slopes vanish, so
    that runs begin at :meth:`initial`.

    Source
    ------
    Pillutla et al., section 7.1.2 (h = w = 3, C = 256, m = 16).

    Examples
    --------
    >>> import numpy as np
    >>> from reference import StructuralHinge, TwoLayerModel, prox_linear, smoothings
    >>> model, rng = TwoLayerModel((2, 2, 3), hidden=2), np.random.default_rng(0)
    >>> boxes = [[0, 0, 4, 4], [2, 2, 6, 6], [4, 4, 8, 8]]
    >>> X, Y = [(boxes, rng.normal(size=(3, 2, 2, 3))) for _ in range(4)], [boxes[i % 3] for i in range(4)]
    >>> hinge = StructuralHinge(model, model.pack(X, Y), smoothing=smoothings.TopK(2))
    >>> result = prox_linear(hinge, lam=0.01, iterations=5, rng=0)
    >>> result.fun < result.history[0].objective
    True
    """

    linear = CandidateModel  # the linearised model with its Jacobians written out

    def __init__(self, shape: Any, hidden: int = 16, *, max_candidates: int = 2048) -> None:
        CandidateModel.__init__(self, shape, max_candidates=max_candidates)
        if not self.shape:
            raise ValueError("shape: expected the length of at least one axis, got ()")
        self.hidden = integer("hidden", hidden, 1)
        self.channels, self.places = self.shape[-1], math.prod(self.shape[:-1])
        self.size = self.hidden * (self.channels + self.places)

    def initial(self, data: CandidateData, rng: int | np.random.Generator | None = None) -> Array:
        """Weights (d,) to start from: normal, of variances 1/C and 1/(m P), drawn on the host."""
        draws, inputs = generator(rng).normal(size=self.size), self.channels * self.hidden
        draws[:inputs] /= math.sqrt(self.channels)
        draws[inputs:] /= math.sqrt(self.hidden * self.places)
        return data.place.floats(draws)

    def split(self, w: Array) -> tuple[Array, Array]:
        """W1 (C, m) and W2 (m, P) of weights w (d,)."""
        xp, inputs = array_namespace(w), self.channels * self.hidden
        return xp.reshape(w[:inputs], (self.channels, self.hidden)), xp.reshape(w[inputs:], (self.hidden, self.places))

    def scores(self, data: CandidateData, batch: np.ndarray, w: Array) -> TableScores:
        """The scores (b, k) of a piece (b,) of images of k candidates each, at weights w (d,)."""
        rows = data.candidates(batch)
        return sound(self._table(rows, self._outer(self._units(data, rows, w), w)), w)

    def pushforward(self, data: CandidateData, batch: np.ndarray, w: Array, dw: Array) -> TableScores:
        """sum_p <elu'(phi_p W1) (phi_p dW1), W2_p> + <elu(phi_p W1), dW2_p> (b, k)."""
        return self.value_and_pushforward(data, batch, w, dw)[1]

    def value_and_pushforward(
        self, data: CandidateData, batch: np.ndarray, w: Array, dw: Array
    ) -> tuple[TableScores, TableScores]:
        """The scores at w, and their Jacobian there times dw (d,)."""
        rows = data.candidates(batch)
        units, slopes = self._both(data, rows, w)
        xp, flat = array_namespace(w), (rows.size, self.places * self.hidden)
        inside = xp.vecdot(xp.reshape(slopes, flat), xp.reshape(self._mapped(data, rows, dw), flat))
        return self._table(rows, self._outer(units, w)), self._table(rows, inside + self._outer(units, dw))

    def pullback(self, data: CandidateData, batch: np.ndarray, w: Array, g: TableScores) -> Array:
        """The adjoint of :meth:`pushforward` at g (b, k), a gradient (d,), from the candidates where g is not 0."""
        rows, xp, place = data.candidates(batch).ravel(), array_namespace(w), Place.of(w)
        each = self.places * self.hidden
        flat = xp.reshape(g.values, (-1,))
        some = np.flatnonzero(host(flat))
        weights, rows = xp.take(flat, place.integers(some), axis=0), rows[some]
        units, slopes = self._both(data, rows, w)
        inside = slopes * weights[:, None, None]
        features = xp.reshape(self._features(data, rows), (-1, self.channels))
        outer = xp.reshape(weights @ xp.reshape(units, (len(rows), each)), (self.places, self.hidden))
        first = xp.reshape(features.T @ xp.reshape(inside, (-1, self.hidden)), (-1,))
        return xp.concat([first, xp.reshape(outer.T, (-1,))])

    def value_and_pullback(
        self, data: CandidateData, batch: np.ndarray, w: Array, g: TableScores
    ) -> tuple[TableScores, Array]:
        """The scores at w, and the adjoint of their Jacobian there at g, a gradient (d,)."""
        return self.scores(data, batch, w), self.pullback(data, batch, w, g)

    def gold_scores(self, data: CandidateData, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of the candidates that replace the true boxes, at weights w (d,)."""
        return self._outer(self._units(data, data.offsets[batch] + data.truth()[0][batch], w), w)

    def cached_at(self, data: CandidateData, w: Array) -> NonlinearModel:
        """A model that keeps the hidden units of the images that it evaluates, if those of all images fit into 256
        MB.
        """
        size = 2 * len(data.boxes) * self.places * self.hidden * host(w[:0]).dtype.itemsize
        return _Remembering(self) if self._is_plain() and size <= REMEMBERED else self

    def explicit(
        self, data: CandidateData, w: Array, center: Array
    ) -> tuple[CandidateModel, CandidateData, float] | None:
        """The linearised model as a linear model of candidates whose features are the Jacobians (N, d), if these fit
        into 512 MB on the host.
        """
        best, losses = data.truth()
        if (
            not self._is_plain()
            or len(data.boxes) * self.size * data.features.dtype.itemsize > WRITTEN
            or not isinstance(data.like, np.ndarray)
        ):
            return None
        jacobians = np.empty((len(data.boxes), self.size), data.features.dtype)
        constants, inputs, widest = np.empty(len(data.boxes)), self.channels * self.hidden, 0.0
        for i in range(data.n):
            own = slice(data.offsets[i], data.offsets[i + 1])
            rows = np.arange(own.start, own.stop)
            units, slopes = self._both(data, rows, w)
            features = np.reshape(self._features(data, rows), (len(rows), self.places, self.channels))
            first, second = jacobians[own, :inputs], jacobians[own, inputs:]  # views
            first.reshape(-1, self.channels, self.hidden)[...] = np.matmul(features.transpose(0, 2, 1), slopes)
            second.reshape(-1, self.hidden, self.places)[...] = units.transpose(0, 2, 1)
            constants[own] = self._outer(units, w) + jacobians[own] @ (center - w)
            constants[own] -= constants[own][best[i]]
            block = jacobians[own]
            true = block[best[i]]
            distances = np.einsum("kd,kd->k", block, block) - 2 * (block @ true) + true @ true
            widest = max(widest, float(np.max(distances)))
        written = data._replace(features=jacobians, losses=losses + constants)
        return self.linear((self.size,), max_candidates=self.max_candidates), written, 4 * widest

    def _is_plain(self) -> bool:
        """Whether scores and losses are those of this class, not overridden by a subclass."""
        return all(getattr(type(self), name) is getattr(TwoLayerModel, name) for name in OWN)

    def squared_norms(self, data: CandidateData) -> None:  # type: ignore[override]
        """None: there is no feature map."""

    def squared_diameters(self, data: CandidateData) -> None:  # type: ignore[override]
        """None: there is no feature map."""

    def _units(self, data: CandidateData, rows: np.ndarray, w: Array) -> Array:
        """elu(phi W1) (k, P, m) of candidates rows, of any shape with k entries."""
        return elu(self._mapped(data, rows, w))

    def _mapped(self, data: CandidateData, rows: np.ndarray, w: Array) -> Array:
        """phi W1 (k, P, m)."""
        xp = array_namespace(w)
        mapped = xp.reshape(self._features(data, rows), (-1, self.channels)) @ self.split(w)[0]
        return xp.reshape(mapped, (rows.size, self.places, self.hidden))

    def _both(self, data: CandidateData, rows: np.ndarray, w: Array) -> tuple[Array, Array]:
        """elu(phi W1) and elu'(phi W1) W2, each (k, P, m)."""
        units = self._units(data, rows, w)
        xp = array_namespace(units)
        one = xp.ones_like(units)
        return units, xp.where(units < 0, units + one, one) * self.split(w)[1].T

    def _outer(self, units: Array, w: Array) -> Array:
        """<units, W2> (k,)."""
        xp = array_namespace(w)
        return xp.reshape(units, (units.shape[0], self.places * self.hidden)) @ xp.reshape(self.split(w)[1].T, (-1,))

    def _features(self, data: CandidateData, rows: np.ndarray) -> Array:
        """The features (k, ...) of candidates rows where the weights are; neighbours are not copied on the host."""
        flat = rows.ravel()
        if len(flat) and flat[-1] - flat[0] == len(flat) - 1 and np.all(np.diff(flat) == 1):
            block = data.features[flat[0] : flat[-1] + 1]
            if isinstance(data.like, np.ndarray) and block.dtype == data.like.dtype:
                return np.asarray(block)
            return data.place.floats(block)
        return data.tensors(flat)

    def _table(self, rows: np.ndarray, values: Array) -> TableScores:
        return TableScores(array_namespace(values).reshape(values, rows.shape))


class _Remembering(TwoLayerModel):
    """A two-layer model evaluated at one point w. It keeps the result of :meth:`_both` for each image."""

    def __init__(self, model: TwoLayerModel) -> None:
        vars(self).update(vars(model))
        self.evaluations: dict[int, tuple[Array, Array]] = {}

    def _both(self, data: CandidateData, rows: np.ndarray, w: Array) -> tuple[Array, Array]:
        flat = rows.ravel()
        images = np.searchsorted(data.offsets, flat, side="right") - 1
        parts = []
        for i, inside in zip(*_runs(images, flat), strict=True):
            if i not in self.evaluations:
                self.evaluations[i] = super()._both(data, np.arange(data.offsets[i], data.offsets[i + 1]), w)
            own = inside - data.offsets[i]
            if len(own) == data.offsets[i + 1] - data.offsets[i] and np.all(np.diff(own) == 1):
                parts.append(self.evaluations[i])
            else:
                index, xp = data.place.integers(own), array_namespace(w)
                parts.append(tuple(xp.take(each, index, axis=0) for each in self.evaluations[i]))
        if not parts:
            return super()._both(data, rows, w)
        if len(parts) == 1:
            return parts[0]
        units, slopes = zip(*parts, strict=True)
        return array_namespace(w).concat(units), array_namespace(w).concat(slopes)


def _runs(images: np.ndarray, rows: np.ndarray) -> tuple[list[int], list[np.ndarray]]:
    """The images of ``rows`` (k,), without adjacent repetitions, and the rows of each."""
    starts = np.flatnonzero(np.diff(images, prepend=-1))
    return images[starts].tolist(), np.split(rows, starts[1:]) if len(starts) else []


def elu(x: Array) -> Array:
    """x where x >= 0, exp(x) - 1 below: its slope is continuous, and 1-Lipschitz."""
    xp = array_namespace(x)
    return xp.where(x >= 0, x, xp.expm1(xp.where(x < 0, x, 0.0)))
