"""The convergence rates of the Casimir algorithm: Theorem 16 as a recursion, and the parameters of Corollaries 17 to
20.

Each corollary is a small object: ``alpha_0``, ``kappa_k(k)``, ``mu_k(k)``, ``delta_k(k)`` for k = 1, 2, ... are the
parameters of the algorithm (one row of Table 3 each), and ``bound`` is the bound on F(w_k) - min F. The bounds hold for
exact smoothings with a known D (``entropy_width``, ``squared_l2_width``). Source: Pillutla et al., section 5.2.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import NamedTuple, Protocol

from reference.bounds.arguments import of_floats, refuse_beyond_floats
from reference.bounds.sequences import next_alpha

__all__ = [
    "Choice",
    "Corollary17",
    "Corollary18",
    "Corollary19",
    "Corollary20",
    "Rate",
    "balanced",
    "casimir_rates",
    "start_gap",
]

GOLDEN = (sqrt(5) - 1) / 2  # the root of alpha^2 = 1 - alpha


class Choice(Protocol):
    """Parameters of the Casimir algorithm: delta_k in [0, 1), mu_k >= 0 not increasing, kappa_k > 0 not decreasing."""

    @property
    def lam(self) -> float: ...

    @property
    def alpha_0(self) -> float: ...

    def kappa_k(self, k: int) -> float: ...

    def mu_k(self, k: int) -> float: ...

    def delta_k(self, k: int) -> float: ...


class Rate(NamedTuple):
    """F(w_k) - min F <= start * Delta_0 + width * D."""

    start: float
    width: float

    def bound(self, delta_0: float, D: float) -> float:
        """start * Delta_0 + width * D, with Delta_0 from :func:`start_gap`."""
        return self.start * delta_0 + self.width * D


def casimir_rates(choice: Choice) -> Iterator[Rate]:
    """Theorem 16 for k = 1, 2, ...: the factors of Delta_0 and of D in the bound on F(w_k) - min F.

    c_k = c_{k-1} (1 - alpha_{k-1})/(1 - delta_k),  c_0 = 1
    R_k = ((1 - alpha_{k-1}) R_{k-1} + mu_{k-1} - (1 - delta_k) mu_k)/(1 - delta_k),  R_0 = 0, mu_0 = 2 mu_1
    F(w_k) - min F <= c_k Delta_0 + (mu_k + R_k) D

    Parameters
    ----------
    choice : Choice
        Any of the corollaries, or an object with the same members.

    Yields
    ------
    Rate

    Raises
    ------
    ValueError
        Parameters outside the theorem's conditions.

    Source
    ------
    Pillutla et al., Theorem 16, (30), as a recursion.
    """
    alpha, c, R = choice.alpha_0, 1.0, 0.0
    kappa, mu = choice.kappa_k(1), 2 * choice.mu_k(1)
    if not alpha * alpha >= choice.lam / (choice.lam + kappa) * (1 - 1e-12):
        raise ValueError(f"alpha_0: expected alpha_0^2 >= lam/(lam + kappa_1), got {alpha}")
    k = 0
    while True:
        k += 1
        delta, mu_k, kappa_next = choice.delta_k(k), choice.mu_k(k), choice.kappa_k(k + 1)
        if not (0 <= delta < 1 and 0 <= mu_k <= mu):
            raise ValueError(f"k = {k}: expected delta in [0, 1) and 0 <= mu_k <= mu_(k-1), got {delta} and {mu_k}")
        c = c * (1 - alpha) / (1 - delta)
        R = ((1 - alpha) * R + mu - (1 - delta) * mu_k) / (1 - delta)
        yield Rate(c, mu_k + R)
        alpha, kappa, mu = next_alpha(alpha, choice.lam, kappa, kappa_next), kappa_next, mu_k


@of_floats
def start_gap(choice: Choice, gap: float, distance: float) -> float:
    """Delta_0 of Theorem 16, the part of the bound that depends on the start.

    Delta_0 = gap + ((kappa_1 + lam) alpha_0^2 - lam alpha_0)/(2 (1 - alpha_0)) distance^2

    Parameters
    ----------
    choice : Choice
    gap : float
        F(w_0) - min F.
    distance : float
        ||w_0 - w*||.

    Returns
    -------
    float

    Source
    ------
    Pillutla et al., Theorem 16, (34).
    """
    a = choice.alpha_0
    gamma_0 = a * ((choice.kappa_k(1) + choice.lam) * a - choice.lam) / (1 - a)
    return gap + gamma_0 / 2 * distance * distance


@dataclass(frozen=True)
class _StronglyConvex:
    """lam, kappa > 0: q = lam/(lam + kappa), alpha_k = sqrt(q), delta_k = sqrt(q)/(2 - sqrt(q))."""

    lam: float
    kappa: float
    mu: float

    def __post_init__(self) -> None:
        refuse_beyond_floats(lam=self.lam, kappa=self.kappa, mu=self.mu)
        _check(self.kappa, self.mu)
        if not (self.lam > 0 and self.alpha_0 < 1):
            raise ValueError(f"lam: expected a number > 0 that does not dwarf kappa = {self.kappa}, got {self.lam}")

    @property
    def alpha_0(self) -> float:
        """sqrt(q), the value of every alpha_k."""
        return sqrt(self.lam / (self.lam + self.kappa))

    @property
    def eta(self) -> float:
        """1 - sqrt(q)/2, the factor of a step."""
        return 1 - self.alpha_0 / 2

    @property
    def _complement(self) -> float:
        """1 - sqrt(q), without cancellation."""
        return self.kappa / (self.lam + self.kappa) / (1 + self.alpha_0)

    def kappa_k(self, k: int) -> float:
        """kappa."""
        return self.kappa

    def delta_k(self, k: int) -> float:
        """sqrt(q)/(2 - sqrt(q))."""
        return self.alpha_0 / (2 - self.alpha_0)


@dataclass(frozen=True)
class Corollary17(_StronglyConvex):
    """Strongly convex, constant smoothing mu: a linear rate down to a multiple of mu D.

    kappa_k = kappa, mu_k = mu, alpha_0 = sqrt(q), delta_k = sqrt(q)/(2 - sqrt(q)), q = lam/(lam + kappa)

    Parameters
    ----------
    lam, kappa : float > 0
    mu : float >= 0

    Source
    ------
    Pillutla et al., Corollary 17.
    """

    @classmethod
    def for_svrg(cls, accuracy: float, *, lam: float, A: float, D: float, n: int) -> Corollary17:
        """The parameters for SVRG inside: mu = accuracy/(10 D), kappa = A/(mu n) - lam if that exceeds 3 lam, else lam.

        A is the largest squared norm of an example's map, max_i ||A_i||^2, and n the number of examples.
        Source: Pillutla et al., Proposition 29.
        """
        mu = accuracy / (10 * D)
        return cls(lam, balanced(A / mu, lam, n), mu)

    def mu_k(self, k: int) -> float:
        """mu."""
        return self.mu

    def bound(self, k: int, gap: float, distance: float, D: float) -> float:
        """Bound on F(w_k) - min F for k >= 1: (2 - sqrt(q))/(1 - sqrt(q)) mu D + 2 (1 - sqrt(q)/2)^k gap.

        gap = F(w_0) - min F; the distance ||w_0 - w*|| is not needed. The paper prints 3 - sqrt(q), because it bounds
        by 2 a bracket that equals 1 for every k.
        """
        return (1 + 1 / self._complement) * self.mu * D + 2 * self.eta**k * gap

    def iterations(self, accuracy: float, gap: float, D: float) -> float:
        """Outer iterations after which F(w_k) - min F <= accuracy: (2/sqrt(q)) log(2 gap/(accuracy - c_q mu D)).

        inf if the accuracy is not above c_q mu D = (2 - sqrt(q))/(1 - sqrt(q)) mu D.
        Source: Pillutla et al., proof of Proposition 29.
        """
        rest = accuracy - (1 + 1 / self._complement) * self.mu * D
        if rest <= 0:
            return inf
        return 2 / self.alpha_0 * log(2 * gap / rest) if 2 * gap > rest else 0.0


@dataclass(frozen=True)
class Corollary18(_StronglyConvex):
    """Strongly convex, smoothing that decreases geometrically: a linear rate to the minimum itself.

    kappa_k = kappa, mu_k = mu eta^{k/2}, alpha_0 = sqrt(q), delta_k = sqrt(q)/(2 - sqrt(q)), q = lam/(lam + kappa),
    eta = 1 - sqrt(q)/2

    Parameters
    ----------
    lam, kappa : float > 0
    mu : float >= 0

    Source
    ------
    Pillutla et al., Corollary 18.
    """

    def mu_k(self, k: int) -> float:
        """mu eta^{k/2}."""
        mu: float = self.mu * self.eta ** (k / 2)
        return mu

    def bound(self, k: int, gap: float, distance: float, D: float) -> float:
        """Bound on F(w_k) - min F, k >= 1: eta^{k/2} (2 gap + mu D/(1 - sqrt(q)) (2 - sqrt(q) +
        sqrt(q)/(1 - sqrt(eta)))).

        gap = F(w_0) - min F; the distance ||w_0 - w*|| is not needed. sqrt(q)/(1 - sqrt(eta)) = 2 (1 + sqrt(eta)).
        """
        width = 2 - self.alpha_0 + 2 * (1 + sqrt(self.eta))
        bound: float = self.eta ** (k / 2) * (2 * gap + self.mu * D / self._complement * width)
        return bound


@dataclass(frozen=True)
class _Convex:
    """lam = 0: alpha_0 = (sqrt(5) - 1)/2, delta_k = 1/(k + 1)^2."""

    kappa: float
    mu: float

    lam = 0.0
    alpha_0 = GOLDEN

    def __post_init__(self) -> None:
        refuse_beyond_floats(kappa=self.kappa, mu=self.mu)
        _check(self.kappa, self.mu)

    def delta_k(self, k: int) -> float:
        """1/(k + 1)^2; Tables 3 and 4 print k^-2, which is 1 at k = 1 and not allowed."""
        return 1 / (k + 1) ** 2


@dataclass(frozen=True)
class Corollary19(_Convex):
    """Convex (lam = 0), constant smoothing mu: the rate 1/k^2 down to mu D.

    kappa_k = kappa, mu_k = mu, alpha_0 = (sqrt(5) - 1)/2, delta_k = 1/(k + 1)^2

    Parameters
    ----------
    kappa : float > 0
    mu : float >= 0

    Source
    ------
    Pillutla et al., Corollary 19.
    """

    @classmethod
    def for_svrg(cls, accuracy: float, *, A: float, D: float, n: int) -> Corollary19:
        """The parameters for SVRG inside: mu = accuracy/(20 D), kappa = A/(mu (n + 1)).

        A is the largest squared norm of an example's map, max_i ||A_i||^2, and n the number of examples.
        Source: Pillutla et al., Proposition 31.
        """
        mu = accuracy / (20 * D)
        return cls(balanced(A / mu, 0.0, n), mu)

    def kappa_k(self, k: int) -> float:
        """kappa."""
        return self.kappa

    def mu_k(self, k: int) -> float:
        """mu."""
        return self.mu

    def bound(self, k: int, gap: float, distance: float, D: float) -> float:
        """Bound on F(w_k) - min F, k >= 1: 8/(k+2)^2 (gap + kappa/2 distance^2) + mu D (1 + 12/(k+2) + 30/(k+2)^2).

        gap = F(w_0) - min F, distance = ||w_0 - w*||.
        """
        start = gap + self.kappa / 2 * distance * distance
        return 8 / (k + 2) ** 2 * start + self.mu * D * (1 + 12 / (k + 2) + 30 / (k + 2) ** 2)


@dataclass(frozen=True)
class Corollary20(_Convex):
    """Convex (lam = 0), smoothing that decreases as 1/k: the rate log(k)/k to the minimum itself.

    kappa_k = kappa k, mu_k = mu/k, alpha_0 = (sqrt(5) - 1)/2, delta_k = 1/(k + 1)^2

    Parameters
    ----------
    kappa : float > 0
    mu : float >= 0

    Source
    ------
    Pillutla et al., Corollary 20.
    """

    def kappa_k(self, k: int) -> float:
        """kappa k."""
        return self.kappa * k

    def mu_k(self, k: int) -> float:
        """mu/k."""
        return self.mu / k

    def bound(self, k: int, gap: float, distance: float, D: float) -> float:
        """Bound on F(w_k) - min F, k >= 1: max(1, log(k+1))/(k+1) (2 gap + kappa distance^2 + 27 mu D).

        gap = F(w_0) - min F, distance = ||w_0 - w*||. At k = 1 the logarithm is below 1 and is replaced by 1.
        """
        return max(1.0, log(k + 1)) / (k + 1) * (2 * gap + self.kappa * distance * distance + 27 * self.mu * D)


def balanced(L: float, lam: float, n: int) -> float:
    """kappa of Proposition 29 (31 if lam = 0) for n components of smoothness L."""
    if lam == 0:
        return L / (n + 1)
    return L / n - lam if L / n > 4 * lam else lam


def _check(kappa: float, mu: float) -> None:
    if not 0 < kappa < inf:
        raise ValueError(f"kappa: expected a finite number > 0, got {kappa}")
    if not 0 <= mu < inf:
        raise ValueError(f"mu: expected a finite number >= 0, got {mu}")
