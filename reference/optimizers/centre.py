"""The proximal point algorithm around a dual method: a centre y that follows the weights.

    min_w  P(w) = F(w) + l1 ||w||_1 + lam/2 ||w||^2
    y <- argmin_w  P(w) + kappa/2 ||w - y||^2,   not to the end: some passes of the dual method, then y <- w

The inner problem is strongly convex with lam + kappa, however small lam is, so that its dual is smooth and the dual
method fast. Only the link from the dual's vector v, the mean of phi(x_i, y_i) less its expectation under alpha_i, to
weights changes:

    max_w [<v, w> - l1 ||w||_1 - lam/2 ||w||^2 - kappa/2 ||w - y||^2]
        = max_w [<v + kappa y, w> - l1 ||w||_1 - (lam + kappa)/2 ||w||^2] - kappa/2 ||y||^2

This is the link of the elastic net without a centre, in x = (v + kappa y) / (lam + kappa), with lam + kappa in the
place of lam. A pass of the dual method is its usual pass at that x; when y moves, x moves by kappa/(lam + kappa) of it.

Every alpha bounds P itself, by v = (lam + kappa) x - kappa y: with V = (1/n) sum_i value_i(alpha_i),

    P(w) >= V - sum_j soft(|v_j|, l1)^2 / (2 lam)
    P(w) >= s V,   s = min(1, l1 / max_j |v_j|)

The second also holds for lam = 0: for alpha' = (1 - s) truth + s alpha, v' = s v has no entry beyond l1, and
value_i(alpha'_i) >= s value_i(alpha_i), as value_i is concave and 0 at the truth.

Source: Rockafellar (1976), "Monotone operators and the proximal point algorithm". The number of passes between moves of
y, and kappa and its decrease are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, Rows, host, squared_norm
from reference.optimizers.base import Algorithm, traits
from reference.optimizers.bcfw import BCFW, BCFWState
from reference.optimizers.exponentiated_gradient import EGState, ExponentiatedGradient
from reference.optimizers.nonnegative import clipped, shrunk

__all__ = ["Centred", "CentredState", "default_kappa"]

FOLLOWS = 3  # epochs from one move of the centre to the next
# for lam = 0, kappa is divided by DECREASE at each multiple of DECREASES epochs from FIRST_DECREASE on
FIRST_DECREASE, DECREASES, DECREASE = 30, 12, 1.5
LEAST = 0.01  # the least kappa, as a share of the first one
CHOICE = 0.5  # the factor of :func:`default_kappa`


def default_kappa(objective: Any, l1: float) -> float:
    """CHOICE s^(3/2) sqrt(l1/n), s the root mean square of the features' nonzero values (1 where all are binary).

    In the scale of sums, with c1 = n l1 and kappa' ||w - y||^2: kappa' = CHOICE/2 s^(3/2) sqrt(c1). A change of the
    features' unit changes nothing: w, y and 1/l1 scale like 1/s, kappa like s^2. The factor was measured: on text and
    on images, for l1 over two decades, runs take the fewest epochs near it, and not many more at half and at twice.
    """
    data = getattr(objective, "data", None)
    given = getattr(data, "features", getattr(data, "rows", ()))
    rows = [each for each in (given if isinstance(given, tuple) else (given,)) if isinstance(each, Rows)]
    values = [host(each.data).astype(np.float64) for each in rows]
    count = sum(np.count_nonzero(x) for x in values)
    square = sum(float(x @ x) for x in values) / count if count else 1.0
    return float(CHOICE * square**0.75 * np.sqrt(l1 / objective.n))


class CentredState(NamedTuple):
    """dual: the state of the dual method, whose x is (v + kappa y) / (lam + kappa). y (d,): the centre.

    epochs: number so far. best: the weights (d,) of the lowest objective so far, that objective, and the highest dual.
    """

    dual: EGState | BCFWState
    y: Array
    kappa: float
    epochs: int
    best: tuple[Array, float, float]


@dataclass(frozen=True)
class Centred(Algorithm):
    """A dual method with a centre, BCFW of the last iterate or exponentiated gradient; its own lam is replaced by
    lam + kappa.
    """

    lam: float
    kappa: float
    dual: ExponentiatedGradient | BCFW

    def init(self, objective: Any, w0: Array | None = None) -> CentredState:
        """All weight is on the true outputs; for other weights w0 than 0, exponentiated gradient has their alpha."""
        y, box = objective.zeros() if w0 is None else w0, self.inner(self.kappa)
        dual = box.init(objective)
        if np.any(host(y)) and isinstance(box, ExponentiatedGradient):
            dual = box.from_weights(objective, dual, y)
        dual = box.moved_to(dual, dual.x + self.kappa / box.lam * y)
        return CentredState(dual, y, self.kappa, 0, (y, np.inf, -np.inf))

    def weights(self, objective: Any, state: CentredState) -> Array:
        """w (d,): the centre if it has just moved, else those of the inner problem's x."""
        if state.epochs % FOLLOWS == 0:
            return state.y
        return self.inner(state.kappa).weights(objective, state.dual.x)

    def inner(self, kappa: float) -> Any:
        """The dual method of the inner problem."""
        return replace(self.dual, lam=self.lam + kappa)

    def epoch(self, objective: Any, state: CentredState, rng: np.random.Generator) -> CentredState:
        """An epoch of the dual method; after every third one the centre moves to the weights."""
        box, k = self.inner(state.kappa), state.epochs + 1
        dual = box.epoch(objective, state.dual, rng)
        state = state._replace(dual=dual, epochs=k)
        if k % FOLLOWS != 0:
            return state
        kappa = state.kappa
        if self.lam == 0 and k >= FIRST_DECREASE and k % DECREASES == 0:
            kappa = max(kappa / DECREASE, LEAST * self.kappa)
        y = box.weights(objective, dual.x)
        x = (self.gradient(state) + kappa * y) / (self.lam + kappa)
        return state._replace(dual=box.moved_to(dual, x), y=y, kappa=kappa)

    def gradient(self, state: CentredState) -> Array:
        """v (d,)."""
        return (self.lam + state.kappa) * state.dual.x - state.kappa * state.y

    def bound(self, objective: Any, state: CentredState) -> float:
        """The larger of the two lower bounds on P; a negative v_j does not count where w_j must be >= 0."""
        v = clipped(self.gradient(state), traits(objective).nonnegative)
        return self.bound_of(float(self.inner(state.kappa).value(state.dual)), v)

    def bound_of(self, value: float, v: Array) -> float:
        """The same from V and v (d,)."""
        l1 = self.dual.l1
        largest = float(np.max(np.abs(host(v)), initial=0.0))
        scaled = value * min(1.0, l1 / largest) if largest > 0 else value
        if self.lam == 0:
            return scaled
        return max(scaled, value - squared_norm(shrunk(v, l1)) / (2.0 * self.lam))
