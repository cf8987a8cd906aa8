"""Dependency trees against Cayley's formula and determinants (Martins et al., section 4; the matrix-tree theorem), and
against enumeration in 60 digits where floats cannot tell trees apart."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from conformance.specimens.outputs import OUTPUTS, exact, listing
from conformance.tolerances import close

EPS = np.finfo(np.float64).eps
NONE = -np.inf
roots = pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])


@roots
@pytest.mark.parametrize("c", [0.0, -1e300, -1e16, 1e10, 1e300])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 45])
def test_cayleys_formula(backend, n, c, single_root):
    """(n + 1)^(n - 1) trees, n^(n - 1) of a single root, exactly; equally likely at every height of the scores."""
    structure = backend.Arborescence(np.full((n, n + 1), c), single_root)
    count = (n if single_root else n + 1) ** (n - 1)
    assert structure.count() == count
    value, marginals = structure.expectation()
    close(value, n * c + math.log(count))
    from_root = 1 / n if single_root else 2 / (n + 1)
    expected = np.full((n, n + 1), (1 - from_root) / max(n - 1, 1))
    expected[:, 0], expected[np.arange(n), np.arange(1, n + 1)] = from_root, 0.0
    np.testing.assert_allclose(marginals.values, expected, rtol=0, atol=64 * EPS)


def laplacian(values, single_root):
    """The matrix whose determinant is the sum over trees: root arcs on the diagonal, or in the place of column 0
    (Koo et al. 2007).
    """
    n = len(values)
    w = np.exp(values)
    w[np.arange(n), np.arange(1, n + 1)] = 0.0
    a = np.diag(w[:, 1:].sum(axis=1)) - w[:, 1:]
    if single_root:
        a[:, 0] = w[:, 0]
        return w, a
    return w, a + np.diag(w[:, 0])


@roots
@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_the_partition_is_a_determinant(backend, rng, n, scale, single_root):
    """Kirchhoff's and Tutte's theorem: log Z is a log-determinant, and the marginals come from the inverse."""
    values = scale * rng.normal(size=(n, n + 1))
    values[rng.random(values.shape) < 0.1] = NONE
    values[:, 0] = rng.normal(size=n)
    values[1:, 1] = rng.normal(size=n - 1)
    w, a = laplacian(values, single_root)
    sign, expected = np.linalg.slogdet(a)
    value, marginals = backend.Arborescence(values, single_root).expectation()
    assert sign == 1
    close(value, expected)
    inverse = np.linalg.inv(a)  # d log det / d a, transposed
    arcs = np.zeros_like(w)
    for i, j in itertools.product(range(n), range(n)):
        diagonal = 0.0 if single_root and i == 0 else inverse[i, i]
        aside = 0.0 if single_root and j == 0 else inverse[j, i]
        arcs[i, j + 1] = w[i, j + 1] * (diagonal - aside)
    arcs[:, 0] = w[:, 0] * (inverse[0] if single_root else np.diag(inverse))
    np.testing.assert_allclose(marginals.values, arcs, atol=1e-8)


@pytest.mark.parametrize("c", [1.0, 30.0, 600.0, 1e4])
@pytest.mark.parametrize("n", [2, 3, 20, 50])
def test_a_ring_that_hardly_anyone_leaves(backend, c, n):
    """Each token's head is the next one, or the root at e^-c: Z = (1 + e^-c)^n - 1, n e^-c with a single root.
    Products underflow.
    """
    values = np.full((n, n + 1), NONE)
    values[:, 0] = -c
    values[np.arange(n), np.roll(np.arange(1, n + 1), -1)] = 0.0
    value, marginals = backend.Arborescence(values, single_root=True).expectation()
    close(value, math.log(n) - c)
    close(np.asarray(marginals.values)[:, 0], np.full(n, 1 / n))
    value, marginals = backend.Arborescence(values).expectation()
    total = n * math.log1p(math.exp(-c))
    close(value, math.log(math.expm1(total)) if c < 100 else math.log(n) - c)
    leaving = math.exp(-c) * math.exp((n - 1) * math.log1p(math.exp(-c))) / math.expm1(total) if c < 100 else 1 / n
    close(np.asarray(marginals.values)[:, 0], np.full(n, leaving))
    assert backend.Arborescence(values).best()[0] == -c


def test_the_root_at_a_discount_is_no_single_root():
    """Root arcs made cheap by a finite constant: where scores are larger than it, two of them are still best."""
    values = np.array([[1e3, 0.0, -1e3], [1e3, -1e3, 0.0]])
    outputs, scores, _ = listing("Arborescence", {"values": np.where(np.arange(3) == 0, values - 100.0, values)})
    assert outputs[int(np.argmax(scores))] == (0, 0)


# sums at every size of the scores -------------------------------------------------------------------------------------


def tied(rng, n, scale):
    return scale * rng.integers(-2, 3, (n, n + 1))


def nearly_tied(rng, n, scale):
    return tied(rng, n, scale) + rng.normal(size=(n, n + 1))


def some_forbidden(rng, n, scale):
    return np.where(rng.random((n, n + 1)) < 0.3, NONE, nearly_tied(rng, n, scale))


def hard_to_leave(rng, n, scale):
    """Cycles of two tokens whose ways out are far below, and differ by little."""
    values = rng.integers(-2, 3, (n, n + 1)).astype(np.float64)
    for m in range(0, n - 1, 2):
        values[m, m + 2] = values[m + 1, m + 1] = scale
    return values


def root_far_below(rng, n, scale):
    """At 1e20 numbers are 16384 apart: of differences to the root's arcs, rounding takes all that counts, to either
    side."""
    values = rng.normal(size=(n, n + 1)) + 8191.3
    values[:, 0] -= scale
    return values


def constants_on_tokens(rng, n, scale):
    """They change no marginal, however far apart the heads of a token are beside them."""
    return nearly_tied(rng, n, 1.0) + scale * rng.integers(-3, 4, n)[:, None]


KINDS = (tied, nearly_tied, some_forbidden, hard_to_leave, root_far_below, constants_on_tokens)


def enumerated(values, mu, single_root):
    """The best score and mu log sum exp(score / mu) as Fractions, and the marginals; None if there is no tree."""
    trees = list(exact(OUTPUTS["Arborescence"], {"values": values, "single_root": single_root}))
    if not trees:
        return None
    top, marginals = max(tree.score for tree in trees), np.full(values.shape, Decimal(0))
    with localcontext() as context:
        context.prec = 60
        away = [max((tree.score - top) / Fraction(mu), Fraction(-10000)) for tree in trees]
        weights = [(Decimal(x.numerator) / Decimal(x.denominator)).exp() for x in away]
        total = sum(weights)
        for weight, tree in zip(weights, trees, strict=True):
            for m, h in enumerate(tree.output):
                marginals[m, h] += weight / total
        return top, top + Fraction(mu) * Fraction(total.ln()), marginals.astype(np.float64)


def agrees(backend, values, mu, single_root):
    """Best score, log-partition and marginals are those of the enumeration, to some units of the last place."""
    structure, expected = backend.Arborescence(values, single_root), enumerated(values, mu, single_root)
    if expected is None:
        with pytest.raises(backend.InfeasibleError):
            structure.expectation(mu)
        return
    top, total, means = expected
    value, marginals = structure.expectation(mu)
    size = Fraction(float(np.abs(values[values > NONE]).max()))
    assert abs(Fraction(float(structure.best()[0])) - top) <= 16 * Fraction(EPS) * size
    assert abs(Fraction(float(value)) - total) <= 16 * Fraction(EPS) * max(abs(total), Fraction(mu))
    np.testing.assert_allclose(marginals.values, means, rtol=0, atol=64 * EPS)
    is_distribution(np.asarray(marginals.values))


def is_distribution(marginals):
    assert np.all((marginals >= 0) & (marginals <= 1))
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=0, atol=8 * len(marginals) * EPS)


@roots
@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 1e5, 1e10, 1e13, 1e16, 1e20, 1e100, 1e300])
@pytest.mark.parametrize(
    "kind", [tied, nearly_tied, some_forbidden, hard_to_leave, root_far_below, constants_on_tokens]
)
def test_trees_that_floats_cannot_tell_apart(backend, rng, kind, scale, single_root):
    """Whatever is added up on the way, at every temperature."""
    for n, mu in ((1, 1.0), (2, 1.0), (3, 1e-3), (4, 1.0), (4, 30.0), (4, 0.3), (3, 1e-300), (3, 1e-10), (3, 1e300)):
        agrees(backend, kind(rng, n, scale), mu, single_root)


def faint():
    """Small pivots of which each alone is representable: two tokens in a cycle, the way out twice as deep, and a
    detour that counts; ways out that differ by little, or by more than 400; scores of very different sizes.
    """
    for d in (1e2, 3e2, 4.4e2, 7e2, 1e3):
        first, second = [-3 * d, NONE, 0, NONE, -d], [-3 * d, 0, NONE, -2 * d, NONE]
        yield [first, second, [-d, NONE, -1.5 * d, NONE, 0], [-2 * d, -d, NONE, 0, NONE]]
    for d in (100.0, 340.0, 357.0, 365.0, 375.0, 381.0, 385.0, 391.0, 399.0):
        yield from ([[-d, NONE, 0], [-other, 0, NONE]] for other in (400.5, d + 1.0))
    yield [[1e300, 0, 1e-300, -1e300], [-1e300, 1e300, 0, 0], [1, -1e300, 1e300, 0]]


@roots
@pytest.mark.parametrize("values", list(faint()))
def test_weights_that_underflow_on_the_way(backend, single_root, values):
    agrees(backend, np.array(values, float), 1.0, single_root)


# trees without crossing arcs (Eisner 1996) ---------------------------------------------------------------------------


def are_stretches(heads):
    """Whether the tokens under each token are neighbours."""
    for top in range(1, len(heads) + 1):
        under = {top}
        for _ in heads:
            under |= {m for m, h in enumerate(heads, 1) if h in under}
        if max(under) - min(under) >= len(under):
            return False
    return True


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_tokens_under_each_token_are_a_stretch(backend, n, single_root):
    """An arc that crosses one of the root leaves a gap, too."""
    trees = backend.Arborescence(np.zeros((n, n + 1)), single_root).enumerate()
    assert list(backend.Projective(np.zeros((n, n + 1)), single_root).enumerate()) == list(filter(are_stretches, trees))


@roots
@pytest.mark.parametrize("c", [0.0, -1e16, 1e300])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 45])
def test_the_number_of_projective_trees(backend, n, c, single_root):
    """binom(3 n, n) / (2 n + 1), binom(3 n - 2, n - 1) / n of a single root; equally likely at every height."""
    structure = backend.Projective(np.full((n, n + 1), c), single_root)
    count = math.comb(3 * n - 2, n - 1) // n if single_root else math.comb(3 * n, n) // (2 * n + 1)
    assert structure.count() == count
    value, marginals = structure.expectation()
    close(value, n * c + math.log(count))
    close(np.asarray(marginals.values).sum(axis=1), np.ones(n))


@roots
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e16])
def test_fewer_trees_than_arborescences(backend, rng, scale, single_root):
    """Best scores and sums are at most those of all trees, and equal where a projective tree is far ahead."""
    values = scale * rng.normal(size=(12, 13))
    ours, all_of_them = backend.Projective(values, single_root), backend.Arborescence(values, single_root)
    assert ours.best()[0] <= all_of_them.best()[0] + 1e-14 * scale
    assert ours.log_partition() <= all_of_them.log_partition() + 1e-14 * scale
    y = np.asarray(backend.Projective(np.zeros((12, 13)), single_root).sample(1, rng=rng))[0]
    planted = values + 100 * scale * np.asarray(ours.parts(y).values)
    for kind in (backend.Projective, backend.Arborescence):
        assert np.array_equal(kind(planted, single_root).best()[1], y)


@roots
@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_trees_are_drawn_as_often_as_they_are_likely(backend, rng, scale, single_root):
    values = scale * rng.integers(-1, 2, (4, 5))
    outputs = listing("Projective", {"values": values, "single_root": single_root})
    drawn, size = np.asarray(backend.Projective(values, single_root).sample(2500, 2.0, rng=0)).tolist(), 2500
    weights = np.exp((outputs.scores - outputs.scores.max()) / 2.0)
    for y, p in zip(outputs.outputs, weights / weights.sum(), strict=True):
        assert abs(drawn.count(list(y)) - size * p) <= 4 * math.sqrt(size * p)
