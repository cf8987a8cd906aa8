"""Matchings as layers of PyTorch, and wrong arguments of trees of labelled nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reference

torch = pytest.importorskip("torch")

from diptych.layers.torch import matching, tree  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself
PARENTS = np.array([2, -1, 1, 2, -1])


@pytest.mark.parametrize(("p", "q"), [(3, 4), (4, 3), (3, 3), (0, 2)])
def test_matchings_are_those_of_each(p, q):
    values = torch.tensor(np.random.default_rng(0).normal(size=(2, 3, p, q)), requires_grad=True)
    best, k_best = matching.best(values), matching.topk(values, 3)
    (slope,) = torch.autograd.grad(best.value.sum(), values)
    columns = torch.stack([matching.best(-values[:, b]).labels for b in range(3)], 1)
    hinge = matching.hinge_loss(values, columns, 0.4)
    for b in np.ndindex(2, 3):
        one = reference.Matching(values[b].detach().numpy())
        np.testing.assert_allclose(best.value[b].item(), one.best()[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(k_best.scores[b].detach(), one.topk(3).scores, rtol=1e-12, atol=1e-12)
        parts = one.parts(best.labels[b].numpy())
        np.testing.assert_array_equal(slope[b], parts.values)
        gold = one.parts(columns[b].numpy())
        cost = reference.structures.matching.MatchingScores(0.4 * (1.0 - gold.values))
        expected = one.augment(cost).best()[0] - one.score(columns[b].numpy())
        np.testing.assert_allclose(hinge[b].item(), expected, atol=1e-12)


def drawn() -> tuple[Any, Any, Any]:
    """unary (3, 5, 2), pairwise (2, 2), labels (3, 5)."""
    rng = np.random.default_rng(0)
    return torch.tensor(rng.normal(size=(3, 5, 2))), torch.tensor(rng.normal(size=(2, 2))), torch.zeros(3, 5).long()


WRONG = {
    r"unary: expected shape \(..., p, L\)": lambda u, A, y: tree.best(u[0, 0], A, PARENTS),
    r"pairwise: expected shape \(2, 2\) or \(3, 5, 2, 2\), got \(2,\)": lambda u, A, y: tree.best(u, A[0], PARENTS),
    r"parents: expected integers of shape \(5,\)": lambda u, A, y: tree.best(u, A, PARENTS[1:]),
    "parents: ": lambda u, A, y: tree.best(u, A, np.array([1, 0, 0, 0, 0])),
    r"labels: expected 0..1, got 2 at position 0 of example 0": lambda u, A, y: tree.score(u, A, PARENTS, y + 2),
    r"other_unary: expected shape \(3, 5, 2\), got \(3, 5, 1\)": lambda u, A, y: tree.kl(
        u, A, PARENTS, u[..., :1], A[:1, :1]),
    "mu: expected a finite number > 0": lambda u, A, y: tree.sample(u, A, PARENTS, mu=0.0),
    "smoothing: expected Max, Entropy, TopK or SquaredL2": lambda u, A, y: tree.smooth_max(u, A, PARENTS, "l2", 1.0),
    r"cost: expected a number or shape \(2, 2\)": lambda u, A, y: tree.hinge_loss(u, A, PARENTS, y, torch.zeros(3)),
    "unary: expected .* got nan": lambda u, A, y: tree.log_partition(u * torch.nan, A, PARENTS),
    r"values: expected shape \(..., p, q\), got \(2,\)": lambda u, A, y: matching.best(u[0, 0]),
    "values: expected .* got inf": lambda u, A, y: matching.best(u + torch.inf),
    "columns: expected -1..1, got 0..7": lambda u, A, y: matching.score(
        u, 7 * (y + torch.tensor([0, 0, 0, 0, 1]))),
    r"columns: expected shape \(3, 5\), got \(3, 4\)": lambda u, A, y: matching.score(u, y[:, 1:]),
    "columns: expected int64, got torch.float64": lambda u, A, y: matching.score(u, y.double()),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    with pytest.raises((ValueError, TypeError), match=message):
        WRONG[message](*drawn())
