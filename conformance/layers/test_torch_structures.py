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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(("p", "q"), [(3, 4), (4, 3), (3, 3), (0, 2)])
def test_matchings_are_those_of_each(p, q, ragged, dtype):
    """Rows and columns past the lengths have scores of nan."""
    tol = 1e-12 if dtype == torch.float64 else 1e-5
    rng = np.random.default_rng(0)
    values = torch.tensor(rng.normal(size=(2, 3, p, q)), dtype=dtype)
    sizes = torch.tensor(rng.integers(0, [p + 1, q + 1], (2, 3, 2)) if ragged else np.full((2, 3, 2), (p, q)))
    rows, width = torch.arange(p)[:, None] < sizes[..., :1, None], torch.arange(q) < sizes[..., 1:, None]
    values = torch.where(rows & width, values, torch.nan).requires_grad_()
    where = {"lengths": sizes} if ragged else {}
    best, k_best = matching.best(values, **where), matching.topk(values, 3, **where)
    (slope,) = torch.autograd.grad(best.value.sum(), values)
    columns = matching.best(-values, **where).labels
    hinge = matching.hinge_loss(values, columns, 0.4, **where)
    for b in np.ndindex(2, 3):
        m, n = sizes[b].tolist()
        one = reference.Matching(values[b][:m, :n].detach().double().numpy())
        np.testing.assert_allclose(best.value[b].item(), one.best()[0], rtol=tol, atol=tol)
        np.testing.assert_allclose(k_best.scores[b].detach(), one.topk(3).scores, rtol=tol, atol=tol)
        parts = one.parts(best.labels[b][:m].numpy())
        np.testing.assert_array_equal(slope[b][:m, :n].double(), parts.values)
        assert slope[b].sum() == parts.values.sum() and torch.all(best.labels[b][m:] == -1)
        gold = one.parts(columns[b][:m].numpy())
        cost = reference.structures.matching.MatchingScores(0.4 * (1.0 - gold.values))
        expected = one.augment(cost).best()[0] - one.score(columns[b][:m].numpy())
        np.testing.assert_allclose(hinge[b].item(), expected, atol=10 * tol)


def test_programs_of_matchings():
    values, gold = torch.randn(3, 2, 3, 3, dtype=torch.float64), torch.tensor([[1, 0, 2], [2, 1, -1]])
    sizes = torch.tensor([[3, 3], [2, 3]])

    def loss(x: Any) -> Any:
        return matching.hinge_loss(x, gold, lengths=sizes).sum()

    each = torch.stack([torch.func.grad(loss)(x) for x in values])
    assert torch.allclose(torch.func.vmap(torch.func.grad(loss))(values), each) and each.abs().sum() > 0
    compiled, x = torch.compile(loss, fullgraph=True, backend="aot_eager"), values[0].clone().requires_grad_()
    compiled(x).backward()
    assert torch.allclose(x.grad, each[0])


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
    "columns: expected -1..1, got 7 at row 4 of example 0": lambda u, A, y: matching.score(
        u, 7 * (y + torch.tensor([0, 0, 0, 0, 1]))),
    "every matching of example 0 has a forbidden pair": lambda u, A, y: matching.best(u - torch.inf),
    r"lengths: expected shape \(3, 2\), got \(3,\)": lambda u, A, y: matching.best(u, lengths=torch.tensor([1, 1, 1])),
    "lengths: expected 0..2, got 1..3": lambda u, A, y: matching.best(u, lengths=torch.tensor([[5, 3]] + 2 * [[1, 1]])),
    r"columns: expected shape \(3, 5\), got \(3, 4\)": lambda u, A, y: matching.score(u, y[:, 1:]),
    "columns: expected int64, got torch.float64": lambda u, A, y: matching.score(u, y.double()),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    with pytest.raises((ValueError, TypeError), match=message):
        WRONG[message](*drawn())
