"""SGD over two-layer scores of candidates, on the unsmoothed hinge: an epoch without the dispatch and checks of a
general step.

A step costs a product of the image's features with W1, its hidden units, and the gradients of two candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelerated.arrays import like
from accelerated.optimizers.sgd import steps_of
from reference.optimizers import sgd
from reference.optimizers.sgd import SGDState

__all__ = ["SGD"]


class SGD(sgd.SGD):
    @classmethod
    def fits(cls, box: sgd.SGD, objective: Any) -> bool:
        """One image at a time, all weights free."""
        return box.batch_size == 1 and objective.nonnegative is None

    def sweep(self, objective: Any, state: SGDState, order: np.ndarray) -> SGDState:
        lam, mu, average, steps = self.lam, self.mu, self.average, steps_of(self, state, order, self.lam)
        data, model = objective.data, objective.model
        if objective._mu(mu) != 0 or data.losses is None or not isinstance(state.x, np.ndarray):
            return super().sweep(objective, state, order)
        C, P, m = model.channels, model.places, model.hidden
        w, mean, t = state.x.copy(), state.mean.copy(), state.t
        W1, W2 = w[: C * m].reshape(C, m), w[C * m :].reshape(m, P)  # views of w
        shares = {"last": lambda t: 1.0, "uniform": lambda t: 1.0 / t, "weighted": lambda t: 2.0 / (t + 1)}
        for i, gamma in zip(order.tolist(), steps.tolist(), strict=True):
            first, end, best = data.offsets[i], data.offsets[i + 1], data.best[i]
            X = np.asarray(data.features[first:end]).astype(w.dtype, copy=False).reshape(-1, C)
            units = hidden_units(X @ W1).reshape(end - first, P, m)
            scores = units.reshape(end - first, P * m) @ W2.T.reshape(-1)
            y = int(np.argmax(scores + data.losses[first:end]))
            both = [(y, -gamma), (best, gamma)] if y != best else []
            changes = [(slope_of(X[k * P : (k + 1) * P], units[k], W2), factor) for k, factor in both]
            w *= 1.0 - gamma * lam
            for (one, two), factor in changes:
                W1 += factor * one
                W2 += factor * two
            t += 1
            if average != "last":
                mean += shares[average](t) * (w - mean)
        return SGDState(like(w, state.x), like(w if average == "last" else mean, state.x), t)


def hidden_units(x: np.ndarray) -> np.ndarray:
    """elu(x), in place."""
    below = np.minimum(x, 0)
    np.expm1(below, out=below)
    np.maximum(x, 0, out=x)
    x += below
    return x


def slope_of(X: np.ndarray, units: np.ndarray, W2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of one candidate's score in W1 (C, m) and W2 (m, P), from its features (P, C) and hidden units
    (P, m).
    """
    return X.T @ (np.where(units < 0, units + 1, 1) * W2.T), units.T
