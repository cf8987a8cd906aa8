"""Projections and proxes, drawn, with exact answers: a support is right where it is that of the point it leads to.

All supports are tried. Arithmetic is on rationals; an irrational norm is computed to 90 digits.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from conformance.export.draws import HUGE, TINY, Draws
from conformance.export.numbers import RELATIVE, Array, array, root

__all__ = ["POINTS", "PROXES", "Prox", "drawn", "simplex", "solved"]

Vector = list[Fraction]
ZERO = Fraction(0)
VANISHING = Fraction(1, 10**60)  # below it, relative to the largest |x|, a number is rounding of norms


class Prox(NamedTuple):
    """A projection or prox: its formula, and its exact value as a function of x and of random parameters."""

    formula: str
    answer: Callable[..., Vector]
    ledger: str

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters, in the order in which they are drawn."""
        return list(inspect.signature(self.answer).parameters)[1:]

    @property
    def norms(self) -> bool:
        """Whether answers hold l2 norms, and are digits for that."""
        return self.answer is l2_ball or "groups" in self.parameters


def simplex(x: Vector, radius: Fraction) -> Vector:
    """The nearest point of {u >= 0, sum u = radius}: the support has all numbers that are at least as large as one of
    its members.
    """
    for least in sorted(set(x), reverse=True):
        support = [v for v in x if v >= least]
        theta = (sum(support, ZERO) - radius) / len(support)
        if all((v > theta) == (v >= least) for v in x):
            return [max(v - theta, ZERO) for v in x]
    raise AssertionError("a projection has a support")


def l1_ball(x: Vector, radius: Fraction) -> Vector:
    """x, or the simplex's point with the signs of x."""
    if sum(map(abs, x), ZERO) <= radius:
        return x
    if not radius:
        return [ZERO] * len(x)
    return _signed(x, simplex([abs(v) for v in x], radius))


def weighted(x: Vector, weights: Vector, lam: Fraction) -> Vector:
    """sign(x_m) max(|x_m| - tau d_m, 0), tau = lam sum d |x| / (1 + lam sum d^2) over the coordinates left positive."""
    y, d = [abs(v) for v in x], weights
    for inside in itertools.product((False, True), repeat=len(y)):
        support = [m for m in range(len(y)) if inside[m]]
        tau = lam * sum((d[m] * y[m] for m in support), ZERO) / (1 + lam * sum((d[m] ** 2 for m in support), ZERO))
        if all((y[m] > tau * d[m]) == inside[m] for m in range(len(y))):
            return _signed(x, [max(y[m] - tau * d[m], ZERO) for m in range(len(y))])
    raise AssertionError("a prox has a support")


def squared_l1(x: Vector, lam: Fraction) -> Vector:
    """All weights 1."""
    return weighted(x, [Fraction(1)] * len(x), lam)


def soft(x: Vector, tau: Fraction) -> Vector:
    """sign(x) max(|x| - tau, 0)."""
    return _signed(x, [max(abs(v) - tau, ZERO) for v in x])


def grouped(x: Vector, groups: Array, of_norms: Callable[[Vector], Vector]) -> Vector:
    """Each group scaled so that its norm becomes the one that ``of_norms`` gives; coordinates in no group stay."""
    label = groups.values
    norms = [_norm([v for v, own in zip(x, label, strict=True) if own == k]) for k in range(max(label, default=-1) + 1)]
    factors = [b / n if n else ZERO for b, n in zip(of_norms(norms), norms, strict=True)]
    return [v if k < 0 else v * factors[k] for v, k in zip(x, label, strict=True)]


def l2_ball(x: Vector, radius: Fraction) -> Vector:
    """x min(1, radius / ||x||)."""
    norm = _norm(x)
    return x if norm <= radius else [v * radius / norm for v in x]


def cubes(norms: Vector, half: Fraction) -> Vector:
    """The roots of u + 3 half u^2 = n."""
    return [2 * n / (1 + root(1 + 12 * half * n)) for n in norms]


def _signed(x: Vector, sizes: Vector) -> Vector:
    return [-u if v < 0 else u for v, u in zip(x, sizes, strict=True)]


def _norm(x: Vector) -> Fraction:
    return root(sum((v * v for v in x), ZERO))


PROXES = {
    "soft_threshold": Prox("sign(x) max(|x| - tau, 0)", soft, "M section 3.1"),
    "project_simplex": Prox("the nearest point of {u >= 0, sum u = radius}", simplex, "P section 2.3.1, squared l2"),
    "project_l1_ball": Prox("the nearest point of {||u||_1 <= radius}", l1_ball, "M section 3.1"),
    "prox_squared_l1": Prox("argmin (lam/2) ||u||_1^2 + ||u - x||^2 / 2", squared_l1, "M Algorithm 2"),
    "prox_weighted_squared_l1": Prox(
        "argmin (lam/2) (sum_m weights_m |u_m|)^2 + ||u - x||^2 / 2",
        weighted,
        "M supplement, Algorithm 4",
    ),
    "HalfSquaredL2": Prox(
        "argmin step_size (lam/2) ||u||^2 + ||u - x||^2 / 2",
        lambda x, lam, step_size: [v / (1 + step_size * lam) for v in x],
        "M section 3.1",
    ),
    "L2Ball": Prox("the nearest point of {||u|| <= radius}", l2_ball, "M section 3.1"),
    "L21": Prox(
        "argmin step_size tau sum_k ||u_k|| + ||u - x||^2 / 2, u_k the coordinates of group k",
        lambda x, tau, groups, step_size: grouped(x, groups, lambda n: soft(n, step_size * tau)),
        "M Proposition 1",
    ),
    "SquaredL21": Prox(
        "argmin step_size (lam/2) (sum_k ||u_k||)^2 + ||u - x||^2 / 2",
        lambda x, lam, groups, step_size: grouped(x, groups, lambda n: squared_l1(n, step_size * lam)),
        "M Algorithm 3, line 8",
    ),
    "L21Ball": Prox(
        "the nearest point of {sum_k ||u_k|| <= radius}",
        lambda x, radius, groups: grouped(x, groups, lambda n: l1_ball(n, radius)),
        "M Proposition 1",
    ),
    "SparseGroupLasso": Prox(
        "argmin step_size (tau ||u||_1 + group_tau sum_k ||u_k||) + ||u - x||^2 / 2",
        lambda x, tau, groups, group_tau, step_size: grouped(
            soft(x, step_size * tau), groups, lambda n: soft(n, step_size * group_tau)
        ),
        "M Algorithm 1, lines 6 to 8",
    ),
    "ElasticNetMKL": Prox(
        "argmin step_size (tau sum_k ||u_k|| + (sigma/2) ||u||^2) + ||u - x||^2 / 2",
        lambda x, tau, sigma, groups, step_size: [
            v / (1 + step_size * sigma) for v in grouped(x, groups, lambda n: soft(n, step_size * tau))
        ],
        "M Proposition 1",
    ),
    "NonSparseMKL": Prox(
        "argmin step_size (lam/2) sum_k ||u_k||^q + ||u - x||^2 / 2",
        lambda x, lam, q, groups, step_size: grouped(x, groups, lambda n: cubes(n, step_size * lam / 2)),
        "M section 3.2, non-sparse MKL",
    ),
}


class Points(NamedTuple):
    """The distribution of x; a radius and tau have the same scale. most: the largest number of coordinates."""

    what: str
    number: Callable[[Draws], float]
    scale: float = 1.0
    most: int = 6


POINTS = (
    Points("small integers: numbers tie", lambda draws: float(draws.between(-3, 3))),
    Points("quarters", lambda draws: draws.between(-30, 30) / 4),
    Points("zeros of both signs", lambda draws: draws.choice((0.0, -0.0))),
    Points("one coordinate", lambda draws: float(draws.between(-9, 9)), most=1),
    Points("one magnitude", lambda draws: draws.choice((-1.0, 1.0))),
    Points("tiny: integers times 2^-1000", lambda draws: draws.between(-9, 9) * TINY, TINY),
    Points("huge: integers times 2^990", lambda draws: draws.between(-9, 9) * HUGE, HUGE),
    Points("multiples of 0.1", lambda draws: draws.between(-30, 30) / 10, 0.1),
    Points(
        "scales mixed: integers times 2^-60, 1 or 2^60",
        lambda draws: draws.between(-9, 9) * draws.choice((2.0**-60, 1.0, 2.0**60)),
    ),
)


def drawn(prox: Prox, draws: Draws, points: Points) -> dict[str, Any]:
    """x and the parameters, by the names of the arguments."""
    p = draws.between(min(points.most, 2), points.most)
    inputs: dict[str, Any] = {"x": Array((p,), [points.number(draws) for _ in range(p)])}
    for name in prox.parameters:
        if name == "groups":
            inputs[name] = Array((p,), [draws.between(-1, 2) for _ in range(p)], "int64")
        elif name == "weights":
            inputs[name] = Array((p,), [draws.between(0, 12) / 4 for _ in range(p)])
        elif name in ("tau", "group_tau", "radius"):
            inputs[name] = draws.between(1, 8) * points.scale
        else:
            inputs[name] = draws.choice({"step_size": (0.5, 1.0, 2.0), "q": (3.0,)}.get(name, (0.25, 1.0, 3.0, 0.1)))
    return inputs


def solved(prox: Prox, inputs: dict[str, Any]) -> dict[str, Any]:
    """The exact answer as a file has it."""
    x = [Fraction(v) for v in inputs["x"].values]
    given = {name: _exact(name, inputs[name]) for name in prox.parameters}
    top = max(map(abs, x))
    tolerance = RELATIVE * float(max(top, given.get("radius", ZERO)))
    found = [ZERO if abs(v) <= VANISHING * top else v for v in prox.answer(x, **given)]
    return {"prox": array((len(x),), found, tolerance, "digits" if prox.norms else "rational")}


def _exact(name: str, given: Any) -> Any:
    if name == "groups":
        return given
    return [Fraction(v) for v in given.values] if isinstance(given, Array) else Fraction(given)
