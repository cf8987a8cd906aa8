"""Step sizes from how curved the components of a finite sum are, found by trial.

f is L-smooth only if f(w - g/L) <= f(w) - ||g||^2 / (2L), with g its gradient at w. SVRG's step needs an L over components, not
that of their average (Pillutla et al., section 7.3.1, *corrected*: with the average's L it diverges where one component is
much more curved than the rest).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, squared_norm

__all__ = ["ComponentSteps", "component_smoothness", "secant"]

TRIED = 32  # components that a guess is tried on, each pass


class ComponentSteps:
    """The step size of each pass: as given, or 1 / (L + curvature) with L found by backtracking on a few components.

    L never exceeds ``objective.smoothness(mu)``, where there is such a bound on every component's smoothness: it is safe, but may
    be a hundred times what the data ask for. A component that even twice ``objective.local_smoothness(mu)`` does not satisfy is at
    a kink, of the top-K strategy where ranks tie, and is left out of the search.

    Parameters
    ----------
    objective : object with ``value_and_gradient(w, batch, mu)``, and perhaps ``smoothness(mu)``
    mu : float or None
    curvature : float >= 0
        Of what is added to the objective, such as lam + kappa.
    given : float, optional
        The step size, if it is not to be found.

    Attributes
    ----------
    guessed : bool
        Whether the last step size is a guess: it holds where it was tried.
    calls : int
        Oracles of one example asked for so far.
    """

    def __init__(self, objective: Any, mu: float | None, curvature: float, given: float | None = None) -> None:
        self.objective, self.given = objective, given
        self.aim(mu, curvature)
        self.L: float | None = None
        self.guessed = given is None
        self.calls = 0
        fused = getattr(objective, "fused_epoch", lambda name: None)("component_smoothness")
        self.find = fused or component_smoothness

    def aim(self, mu: float | None, curvature: float) -> None:
        """Find steps for this smoothing and this curvature from now on; L is kept as a guess."""
        self.mu, self.curvature = mu, curvature
        bound = getattr(self.objective, "smoothness", lambda mu: None)(mu) if self.given is None else None
        self.bound = np.inf if bound is None else float(bound)
        self.limit = 2 * getattr(self.objective, "local_smoothness", lambda mu: np.inf)(mu)

    def at(self, w: Array, order: np.ndarray) -> float:
        """The step size for a pass from w (d,); a guess is tried on the first examples of its order.

        Raises
        ------
        ValueError
            There is no curvature at all to take a step size from.
        """
        if self.given is not None:
            return self.given
        batch = order[:TRIED]
        if self.L is None:
            self.L, calls = secant(self.objective, w, self.mu, batch)
            self.calls += calls
        if self.bound > self.L:
            least = max(self.L, self.curvature)
            self.L, calls = self.find(self.objective, w, self.mu, batch, least, self.limit)
            self.calls += calls
        self.L = min(self.L, self.bound)
        self.guessed = self.bound > self.L
        if not self.L + self.curvature > 0:
            raise ValueError("step_size: no curvature was found at the start and lam = 0; give a step size (and kappa)")
        return 1.0 / (self.L + self.curvature)

    def judge(self, accepted: bool) -> None:
        """Let the next guess start from half of this one, or from twice this one if its pass was taken back."""
        if self.L is not None:
            self.L = self.L / 2 if accepted else self.L * 2


def component_smoothness(
    objective: Any, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float = np.inf
) -> tuple[float, int]:
    """The smallest L = start * 2^j, j >= 0, that is enough at w for each example of a batch that is smooth there.

    f_i(w - g_i / L) <= f_i(w) - ||g_i||^2 / (2L) for all i, up to rounding

    Parameters
    ----------
    objective : object with ``value_and_gradient(w, batch, mu)``
    w : array (d,)
    mu : float or None
        Smoothing, handed to the objective.
    batch : int array (b,)
        Example numbers.
    start : float >= 0
        The least that comes into question; 0 is the answer to 0.
    limit : float
        An example that needs more is at a kink, and is left out.

    Returns
    -------
    L : float
    calls : int
        Oracles of one example asked for.

    Raises
    ------
    ValueError
        No finite L is enough for an example: its values are no numbers.

    Notes
    -----
    A condition at w only: an L that passes may be too small elsewhere. An objective may bring a compiled loop, with this
    signature, as its ``fused_epoch("component_smoothness")``.
    """
    L, calls = start, 0
    temperature = (
        getattr(objective, "mu", 0.0) if mu is None else mu
    )  # a smoothed loss is no better known than to its rounding
    for i in range(len(batch)):
        one = batch[i : i + 1]
        value, g = objective.value_and_gradient(w, one, mu)
        square = squared_norm(g)
        slack = rounding(w) * (abs(value) + temperature)
        before = L
        calls += 1
        while square > 0 and L > 0:
            calls += 1
            if objective.value_and_gradient(w - g / L, one, mu)[0] <= value - square / (2 * L) + slack:
                break
            L *= 2
            if max(limit, start) < L:
                L = before
                break
            if not np.isfinite(L):
                raise ValueError(f"objective: example {int(one[0])} of value {value} is smooth for no constant")
    return L, calls


def secant(objective: Any, w: Array, mu: float | None, batch: np.ndarray) -> tuple[float, int]:
    """A lower bound on the smoothness of a batch's components: their largest slope of the gradient over a unit step down.

    max_i ||g_i(w - u_i) - g_i(w)||, u_i = g_i / ||g_i||

    Returns
    -------
    bound : float
        0 where all gradients are zero or constant.
    calls : int
        Oracles of one example asked for.
    """
    largest, calls = 0.0, 0
    for i in range(len(batch)):
        one = batch[i : i + 1]
        _, g = objective.value_and_gradient(w, one, mu)
        norm = squared_norm(g) ** 0.5
        calls += 1
        if norm > 0:
            calls += 1
            _, below = objective.value_and_gradient(w - g / norm, one, mu)
            largest = max(largest, squared_norm(below - g) ** 0.5)
    return largest, calls


def rounding(w: Array) -> float:
    """What an inequality between losses at weights like w may miss, as a share of the loss and the level of smoothing."""
    return 64 * float(array_namespace(w).finfo(w.dtype).eps)
