"""The elastic-net CRF: primal, dual, duality gap, optimality, and the reduced problem without some weights.

    P(w) = F(w) + beta (alpha/2 ||w||^2 + ||w||_1),     F the log loss, alpha >= 0, beta > 0                        (P)
    -D(theta) = mean_i H(theta_i) - ||S_beta(G(theta))||^2 / (2 alpha beta) <= min P                                (D)

with theta_i a distribution over the outputs of example i, H its entropy (plus its mean task loss, if F is augmented by
it), S_beta the soft threshold, and

    G(theta) = mean_i E_theta_i phi_i - phi_i(y_i),     the paper's -(1/n) sum_i A_i o theta_i

which at theta_i = p(. | x_i; w) is the gradient of F at w. There mean_i H(theta_i) = F(w) - <G, w>: a certificate needs
only the gradient and the loss. Outputs need not be listed, so that chains, trees and parses work as well as classes.

The gap P(w) + D(theta(w)) is the sum over weights of the regulariser's Fenchel-Young losses

    alpha beta/2 (w_j - S_beta(u_j)/(alpha beta))^2 + |w_j| (beta - sign(w_j) clip(u_j, -beta, beta)),   u = -G

each >= 0. The sum is therefore accurate to 1e-15 even near the optimum, where P and D agree in all digits. With
alpha = 0 the dual is finite only if |G(theta)| <= beta, so the dual point is s theta + (1 - s) (the true outputs),
s = min(1, beta / ||G||_inf). This adds the divergence KL(s theta_i + (1 - s) e_{y_i} || theta_i), a function of
t_i = theta_i(y_i) = exp(-loss_i(w)), to the gap.

Source: Zhang and Qiu, equations (P) and (D), Theorems 1 and 2, Lemma 1. alpha = 0 is not in the paper.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, Place, floats, host, number, refuse_nan_and_inf
from reference.models.nonlinear import NonlinearModel
from reference.models.partial import needs_all
from reference.objectives import LogLoss
from reference.screening.registry import bound_of
from reference.screening.restricted import checked_columns, restrict
from reference.screening.scored import Answer, known_as_scores, scored_of
from reference.structures.base import UnsupportedError

__all__ = ["ElasticNetCRF", "State", "beta_max"]

ROUNDING = 4096  # the assumed error of sums, in machine epsilons


class State(NamedTuple):
    """Weights w (d,) of a problem with their evaluation; arrays are NumPy float64.

    y: weights (d,) with theta_i = p(. | x_i; y); w itself if both are the same point. loss: F(w). answer: the
    evaluation at y. fun: P(w). s: the dual point is s theta + (1 - s) (the true outputs), so that G there is
    ``s * gradient``; 1 unless alpha = 0. divergence: mean_i KL(dual point || p(. | x_i; w)). gap: P(w) + D(dual point),
    a bound on P(w) - min P. scores: those at w, in the form of ``problem.scored``; None: not kept. more_calls: oracle
    calls made because the answer did not have the losses.
    """

    problem: ElasticNetCRF
    w: np.ndarray
    y: np.ndarray
    loss: float
    answer: Answer
    fun: float
    gap: float
    s: float = 1.0
    divergence: float = 0.0
    scores: Any = None
    more_calls: int = 0

    @property
    def gradient(self) -> np.ndarray:
        """G(theta) (d,), the gradient of F at y."""
        return self.answer.gradient

    @property
    def entropy(self) -> float:
        """mean_i H(theta_i), plus the mean task loss of an augmented F."""
        return self.answer.loss - float(self.gradient @ self.y)

    @property
    def dual(self) -> float:
        """-D(theta), a lower bound on min P."""
        return self.fun - self.gap


class Features:
    """The bounds on the features of a problem that rules need, computed once for the original problem and on demand."""

    def __init__(
        self, problem: ElasticNetCRF, whole: Features | None = None, columns: np.ndarray | None = None
    ) -> None:
        self.problem, self.whole, self.columns = problem, whole, columns

    @cached_property
    def range(self) -> np.ndarray | None:
        """Bounds on sqrt(sum_i R_ij^2) (d,); None if the model has none."""
        if self.whole is not None:
            return None if self.whole.range is None else self.whole.range[self.columns]
        bound: np.ndarray | None = bound_of(self.problem.objective, "feature_range")
        return bound

    @cached_property
    def spread(self) -> Any:
        """The spread of the features over the outputs; None if outputs are not listed."""
        if self.whole is not None:
            spread = self.whole.spread
            return None if spread is None else type(spread)(*(x[self.columns] for x in spread))
        return bound_of(self.problem.objective, "listed_spread")

    @cached_property
    def farthest(self) -> np.ndarray | None:
        """Bounds on n |G_j(theta)| over all theta (d,), with slack for rounding; None if the model has none."""
        if self.whole is not None:
            return None if self.whole.farthest is None else self.whole.farthest[self.columns]
        totals = bound_of(self.problem.objective, "feature_totals")
        if totals is None:
            return None
        model, data = self.problem.objective.model, self.problem.objective.data
        w, gold = model.zeros(data), np.zeros(model.size)
        for piece in model.chunks(data, np.arange(data.n)):
            gold += host(model.pullback(data, piece, w, model.gold(data, piece))).astype(np.float64)
        slack = ROUNDING * self.problem.eps * (np.abs(totals.least) + np.abs(totals.most))
        farthest: np.ndarray = np.maximum(totals.most - gold, gold - totals.least) + slack
        return farthest

    def take(self, columns: np.ndarray) -> Features:
        """The bounds for the weights ``columns``."""
        if self.whole is None:
            return Features(self.problem, self, columns)
        return Features(self.problem, self.whole, self.columns[columns])  # type: ignore[index]


class ElasticNetCRF:
    """A log loss with the elastic net: P(w) = F(w) + beta (alpha/2 ||w||^2 + ||w||_1).

    Parameters
    ----------
    objective : LogLoss
        Over any model whose scores are linear in the weights.
    alpha : float >= 0
        Share of the squared norm; 0: the lasso.
    beta : float > 0
        Weight of the regulariser.

    Raises
    ------
    TypeError, ValueError
        An objective that is not a LogLoss; alpha or beta out of range; weights that must be >= 0.

    Examples
    --------
    >>> from reference import ElasticNetCRF, LogLoss, MulticlassModel, beta_max
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> objective = LogLoss(model, model.pack([[0], [0, 1], [1]], ["a", "b", "b"]))
    >>> problem = ElasticNetCRF(objective, alpha=1.0, beta=0.5 * beta_max(objective))
    >>> state = problem.evaluate([0.0, 0.0, 0.0, 0.0])
    >>> bool(state.dual <= 0.64 < state.fun)
    True

    Source
    ------
    Zhang and Qiu, equation (P).
    """

    def __init__(self, objective: LogLoss, *, alpha: float, beta: float) -> None:
        check_log_loss(objective)
        self.alpha, self.beta = number("alpha", alpha), number("beta", beta, positive=True)
        self.whole, self.columns = objective, np.arange(objective.model.size)
        self.features = Features(self)
        self.place = Place.of(objective.zeros())
        self.scored = scored_of(objective)

    @cached_property
    def objective(self) -> LogLoss:
        """The log loss of the weights of this problem; for a reduced problem it is made on first use."""
        if self.size == self.whole.model.size:
            return self.whole
        model = restrict(self.whole.model, self.columns)
        return self.whole.over(model, model.narrow(self.whole.data))

    @property
    def size(self) -> int:
        """Number of weights d."""
        return len(self.columns)

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.whole.n

    @property
    def eps(self) -> float:
        """Machine epsilon of the gradient's dtype."""
        return float(self.place.xp.finfo(self.place.dtype).eps)

    def loss_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F(w) and its gradient (d,) as NumPy float64: one oracle call an example."""
        answer = self.scored.loss_and_gradient(self.scored.forward(w))
        return answer.loss, answer.gradient

    def evaluate(self, w: Array, scores: Any = None) -> State:
        """The state at w (d,): one oracle call an example and ``more_calls``; ``scores``: those at w, if known.

        Raises
        ------
        ValueError
            Weights of another size.
        """
        (given,) = floats(w=w)
        w = np.array(host(given), np.float64)
        if w.shape != (self.size,):
            raise ValueError(f"w: expected {self.size} weights, got shape {tuple(w.shape)}")
        refuse_nan_and_inf("w", w, forbidden=False)
        scores = self.scored.forward(w) if scores is None else scores
        answer = self.scored.loss_and_gradient(scores)
        return self.state(w, answer.loss, w, answer, scores)

    def state(self, w: np.ndarray, loss: float, y: np.ndarray, answer: Answer, scores: Any = None) -> State:
        """The state from F at w (d,) and the answer at y (d,): if y is not w, without the gradient at w.

        KL(theta || p(. | w)) = F(w) - F(y) - <G(y), w - y>, plus a bound on its rounding error.
        """
        gradient = answer.gradient
        s, divergence, more_calls = self.shrinkage(gradient), 0.0, 0
        if s < 1:
            each = answer.losses
            if each is None:
                each, more_calls = self.scored.losses(y), self.n
                answer = answer._replace(losses=each)
            divergence = float(np.mean(_divergence(each, s)))
        if y is not w:
            divergence += loss - answer.loss - s * float(gradient @ (w - y)) + 64 * self.eps * (1 + abs(loss))
            divergence = max(divergence, 0.0)
        fun = loss + self.regulariser(w)
        gap = float(np.sum(self.fenchel_young(w, s * gradient))) + divergence
        return State(self, w, y, loss, answer, fun, gap, s, divergence, scores, more_calls)

    def resumed(self, state: State) -> tuple[State, int]:
        """The state of this problem at the weights of ``state``, and the oracle calls made.

        ``state`` belongs to this problem with another beta or alpha, or reduced. If its gradient is that at its
        weights, no calls are needed, only a product back for the weights that had left.
        """
        w, inside = np.zeros(self.size), np.searchsorted(self.columns, state.problem.columns)
        w[inside] = state.w
        if state.y is not state.w or state.answer.moment is None:
            resumed = self.evaluate(w, state.scores if self.scored.keeps else None)
            return resumed, self.n + resumed.more_calls
        gradient, missing = np.zeros(self.size), np.ones(self.size, dtype=bool)
        gradient[inside], missing[inside] = state.gradient, False
        if np.any(missing):
            rest = np.flatnonzero(missing)
            scored: Any = self.reduced(rest).scored  # a class that keeps moments has ``back``
            gradient[rest] = scored.back(state.answer.moment) / self.n
        resumed = self.state(w, state.loss, w, state.answer._replace(gradient=gradient), state.scores)
        return resumed, resumed.more_calls

    def regulariser(self, w: np.ndarray) -> float:
        """beta (alpha/2 ||w||^2 + ||w||_1)."""
        return self.beta * (0.5 * self.alpha * float(w @ w) + float(np.sum(np.abs(w))))

    def shrinkage(self, gradient: np.ndarray) -> float:
        """s in (0, 1] such that the dual is finite at s theta + (1 - s) (the true outputs): 1 unless alpha = 0."""
        steepest = float(np.max(np.abs(gradient), initial=0.0))
        return 1.0 if self.alpha > 0 or steepest <= self.beta else self.beta / steepest

    def fenchel_young(self, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """r(w_j) + r*(-G_j) + G_j w_j >= 0 for each weight (d,), r the regulariser of one weight.

        alpha = 0 needs |G| <= beta.
        """
        u = -gradient
        clipped = np.clip(u, -self.beta, self.beta)
        bend: np.ndarray = np.abs(w) * (self.beta - np.sign(w) * clipped)
        if self.alpha == 0:
            return bend
        lam = self.alpha * self.beta
        result: np.ndarray = 0.5 * lam * (w - (u - clipped) / lam) ** 2 + bend
        return result

    def primal_weights(self, gradient: np.ndarray) -> np.ndarray:
        """w(theta) = S_beta(-G(theta)) / (alpha beta) (d,), which is w at the optimum.

        Raises
        ------
        UnsupportedError
            alpha = 0: the gradient does not determine the weights.

        Source
        ------
        Zhang and Qiu, Theorem 1 (KKT-1).
        """
        if self.alpha == 0:
            raise UnsupportedError("alpha: KKT-1 gives the weights only with alpha > 0")
        u = -gradient
        w: np.ndarray = (u - np.clip(u, -self.beta, self.beta)) / (self.alpha * self.beta)
        return w

    def residual(self, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The distance (d,) of -G_j from the subdifferential of the regulariser at w_j; all 0 only at the optimum.

        |G_j + alpha beta w_j + beta sign(w_j)|; max(|G_j| - beta, 0) if w_j = 0. With r the norm of these distances,
        ||w - w*|| <= r / (alpha beta).
        """
        off = np.abs(gradient + self.alpha * self.beta * w + self.beta * np.sign(w))
        distance: np.ndarray = np.where(w == 0, np.maximum(np.abs(gradient) - self.beta, 0.0), off)
        return distance

    def reduced(self, columns: Any) -> ElasticNetCRF:
        """The problem of only the weights ``columns`` (k,), with 0 for the others. Source: Zhang and Qiu, Lemma 1."""
        columns = checked_columns(columns, self.size)
        smaller = self._copy()
        smaller.columns = self.columns[columns]
        smaller.features = self.features.take(columns)
        smaller.scored = self.scored.narrow(smaller, columns)
        return smaller

    def with_beta(self, beta: float, alpha: float | None = None) -> ElasticNetCRF:
        """The same problem with another beta, and another alpha if given; it shares the bounds on the features."""
        problem = self._copy()
        problem.beta = number("beta", beta, positive=True)
        problem.alpha = self.alpha if alpha is None else number("alpha", alpha)
        return problem

    def _copy(self) -> ElasticNetCRF:
        problem = copy.copy(self)
        problem.__dict__.pop("objective", None)
        return problem

    def narrowed(self, state: State, columns: np.ndarray) -> tuple[State, int]:
        """The state of :meth:`reduced` at the weights ``columns``, and the oracle calls made.

        No calls are needed if the weights that leave are 0 in w and in y.
        """
        smaller, w = self.reduced(columns), state.w[columns]
        y = w if state.y is state.w else state.y[columns]
        if _any_leave(state.w, w) or (y is not w and _any_leave(state.y, y)):
            evaluated = smaller.evaluate(w)
            return evaluated, self.n + evaluated.more_calls
        answer = state.answer._replace(gradient=state.gradient[columns])
        gap = float(np.sum(smaller.fenchel_young(w, state.s * answer.gradient))) + state.divergence
        scores = None if state.scores is None else self.scored.taken(state.scores, columns)
        return state._replace(problem=smaller, w=w, y=y, answer=answer, gap=gap, scores=scores), 0


def beta_max(objective: LogLoss) -> float:
    """The least beta at which all weights are 0: ||G(0)||_inf = (1/n) ||sum_i A_i 1/m_i||_inf, for any alpha.

    Parameters
    ----------
    objective : LogLoss

    Returns
    -------
    float
        0 if no feature separates the true outputs from the others; then w = 0 is optimal for every beta.

    Source
    ------
    Zhang and Qiu, Theorem 2.
    """
    check_log_loss(objective)
    scored = scored_of(objective)
    gradient = scored.loss_and_gradient(scored.forward(np.zeros(objective.model.size))).gradient
    return float(np.max(np.abs(gradient), initial=0.0))


def check_log_loss(objective: Any) -> None:
    """Raise unless the objective is a log loss with linear scores and unconstrained weights."""
    if not isinstance(objective, LogLoss) and not known_as_scores(objective):
        raise TypeError(f"objective: expected LogLoss(model, data), got {type(objective).__name__}")
    if isinstance(objective.model, NonlinearModel):
        raise UnsupportedError(
            f"objective: the scores of {type(objective.model).__name__} are not linear in the weights"
        )
    if unknown := getattr(objective, "unknown", 0):
        raise ValueError(f"objective: {needs_all('the elastic net', unknown)}")
    if objective.nonnegative is not None:
        raise ValueError(f"objective: {type(objective.model).__name__} has weights that must be >= 0: no elastic net")


def _any_leave(w: np.ndarray, left: np.ndarray) -> bool:
    """Whether a nonzero weight of w is missing from ``left``."""
    return bool(np.count_nonzero(w != 0) > np.count_nonzero(left != 0))


def _divergence(loss: np.ndarray, s: float) -> np.ndarray:
    """KL(s theta_i + (1 - s) e_{y_i} || theta_i) (n,), with theta_i(y_i) = exp(-loss_i).

    Computed as sum_y theta f(p/theta), f(x) = x log x - x + 1 >= 0.
    """
    t, others = np.exp(-loss), -np.expm1(-loss)  # theta_i(y_i) and the rest
    q = t + (1 - s) * others  # p(y_i)
    near = (1 - s) * others < 0.01 * t
    e = np.where(near, (1 - s) * others / np.where(near, t, 1.0), 0.0)
    true = np.where(near, t * _excess(e), q * (np.log(np.where(q > 0, q, 1.0)) + loss) - q + t)
    divergence: np.ndarray = others * _excess(np.array(s - 1.0)) + true
    return divergence


def _excess(e: np.ndarray) -> np.ndarray:
    """(1 + e) log(1 + e) - e for e > -1, to full relative accuracy."""
    small = np.abs(e) < 0.01
    x = np.where(small, e, 0.0)
    series = np.zeros_like(x)
    for k in range(10, 1, -1):  # e^2/2 - e^3/6 + e^4/12 - ...
        series = 1.0 / (k * (k - 1)) - x * series
    far = np.where(small, 0.5, e)
    return np.where(small, x**2 * series, (1 + far) * np.log1p(far) - far)
