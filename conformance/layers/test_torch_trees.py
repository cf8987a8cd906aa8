"""Dependency trees as layers of PyTorch: the reference's trees sentence by sentence, derivatives by differences.

Where no GPU is at hand the path of other devices runs on the CPU as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reference
from reference.structures.base import InfeasibleError

torch = pytest.importorskip("torch")

from diptych.layers.torch import DependencyCRF, arborescence  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself
LENGTHS = (4, 1, 0, 3)


@pytest.fixture(params=["kernels", "elsewhere"])
def path(request: Any, monkeypatch: Any) -> str:
    """The kernels of the CPU, or what other devices run."""
    if request.param == "elsewhere":

        def sums(values: Any, lengths: Any, single_root: bool, mu: float) -> Any:
            with torch.enable_grad():
                x = values if values.requires_grad else values.detach().requires_grad_()
                value = arborescence._determinants(arborescence.Trees(x, lengths, ()), single_root, mu)
                return value, torch.autograd.grad(value.sum(), x, create_graph=True)[0]

        monkeypatch.setattr(arborescence, "tree_sums", sums)
        monkeypatch.setattr(arborescence._Sums, "apply", sums)
    return request.param


def drawn(dtype: Any = None, scale: float = 1.0) -> tuple[Any, Any, Any]:
    """values (4, 4, 5) with a forbidden arc, lengths, and heads of trees with a single root."""
    rng = np.random.default_rng(0)
    values = scale * rng.normal(size=(4, 4, 5))
    values[0, 2, 1] = -np.inf
    heads = np.array([[2, 0, 2, 1], [0, -7, 9, 9], [5, 5, 5, 5], [0, 3, 1, -1]])
    return torch.tensor(values, dtype=dtype or torch.float64), torch.tensor(LENGTHS), torch.tensor(heads)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("single_root", [False, True])
def test_answers_are_those_of_each_sentence(path, single_root, dtype):
    values, lengths, heads = drawn(dtype)
    tol, where = {torch.float64: 1e-9}.get(dtype, 3e-5), {"lengths": lengths, "single_root": single_root}
    value, shares = (ask(values, mu=0.7, **where) for ask in (arborescence.log_partition, arborescence.marginals))
    best, gold = arborescence.best(values, **where), arborescence.score(values, heads, lengths=lengths)
    loss, hinge = (ask(values, heads, **where) for ask in (arborescence.crf_loss, arborescence.hinge_loss))
    for b, n in enumerate(LENGTHS):
        tree = reference.Arborescence(values[b, :n, : n + 1].double().numpy(), single_root)
        z, marginals = tree.expectation(0.7)
        np.testing.assert_allclose(value[b].item(), z, rtol=tol, atol=tol)
        np.testing.assert_allclose(shares[b, :n, : n + 1].detach(), marginals.values, atol=10 * tol)
        assert torch.all(shares[b, n:] == 0) and torch.all(shares[b, :, n + 1 :] == 0)
        np.testing.assert_allclose(best.value[b].item(), tree.best()[0], rtol=tol, atol=tol)
        found, right = best.labels[b].numpy(), heads[b, :n].numpy()
        np.testing.assert_allclose(tree.score(found[:n]), tree.best()[0], rtol=tol, atol=tol)
        assert np.all(found[n:] == -1)
        np.testing.assert_allclose(gold[b].item(), tree.score(right), rtol=tol, atol=tol)
        np.testing.assert_allclose(loss[b].item(), tree.expectation()[0] - tree.score(right), rtol=tol, atol=5 * tol)
        cost = reference.structures.arborescence.ArborescenceScores(1.0 - tree.parts(right).values)
        np.testing.assert_allclose(hinge[b].item(), tree.augment(cost).best()[0] - tree.score(right), atol=5 * tol)


def test_derivatives_are_those_of_differences(path):
    values, lengths, heads = drawn()
    values = torch.where(values > -torch.inf, values, -2.0).requires_grad_()
    for ask in (
        lambda x: arborescence.log_partition(x, lengths=lengths, mu=0.6),
        lambda x: arborescence.crf_loss(x, heads, lengths=lengths, single_root=True),
        lambda x: arborescence.hinge_loss(x, heads, 0.3, lengths=lengths),
    ):
        assert torch.autograd.gradcheck(ask, values)
    if path == "kernels":
        first = torch.autograd.grad(arborescence.log_partition(values).sum(), values, create_graph=True)[0]
        with pytest.raises(RuntimeError, match="this derivative is not there"):
            first.sum().backward()
        with pytest.raises(RuntimeError, match="this derivative is not there"):
            arborescence.marginals(values).sum().backward()
        with pytest.raises(RuntimeError, match="this derivative is not there"):
            torch.func.jvp(arborescence.marginals, (values.detach(),), (torch.ones_like(values),))


def test_transforms_and_compiled_programs_give_the_same():
    values, lengths, heads = drawn()
    many = torch.stack([values, 2 * values])

    def loss(x: Any) -> Any:
        return arborescence.crf_loss(x, heads, lengths=lengths, single_root=True).sum()

    each = torch.stack([torch.func.grad(loss)(x) for x in many])
    assert torch.allclose(torch.func.vmap(torch.func.grad(loss))(many), each)
    best = torch.func.vmap(lambda x: arborescence.best(x, lengths=lengths).labels)(many)
    assert torch.equal(best[1], arborescence.best(2 * values, lengths=lengths).labels)
    compiled, x = torch.compile(loss, fullgraph=True, backend="aot_eager"), values.clone().requires_grad_()
    compiled(x).backward()
    assert torch.allclose(x.grad, each[0])


def test_a_dependency_crf_is_the_trees_of_its_scores():
    _, lengths, heads = drawn()
    crf, encodings = DependencyCRF(6, 5).double(), torch.randn(4, 4, 6, dtype=torch.float64)
    values = crf.scores(encodings)
    d = torch.nn.functional.pad(crf.dependents(encodings[0, 1]).relu(), (0, 1), value=1.0)
    e = torch.nn.functional.pad(crf.heads(encodings[0, 2]).relu(), (0, 1), value=1.0)
    assert torch.allclose(values[0, 1, 3], d @ crf.biaffine @ e)  # the third token as head of the second
    loss = arborescence.crf_loss(values, heads, lengths=lengths, single_root=True)
    for reduction, expected in (
        ("none", -loss), ("sum", -loss.sum()), ("mean", -loss.mean()), ("token_mean", -loss.sum() / 8),
    ):  # fmt: skip
        assert torch.allclose(crf(encodings, heads, lengths, reduction=reduction), expected)
    best = arborescence.best(values, lengths=lengths, single_root=True).labels
    assert crf.decode(encodings, lengths) == [row[row >= 0].tolist() for row in best]
    assert torch.allclose(crf.marginals(encodings, lengths).sum((1, 2)), lengths.double())
    crf(encodings, heads, lengths).backward()
    assert all(bool(torch.any(x.grad != 0)) for x in crf.parameters())


WRONG = {
    r"values: expected shape \(..., n, n \+ 1\), got \(4, 5, 4\)": lambda v, n, y: arborescence.best(v.mT),
    "values: expected floating-point scores, got torch.int64": lambda v, n, y: arborescence.best(v.long()),
    r"lengths: expected shape \(4,\), got \(3,\)": lambda v, n, y: arborescence.best(v, lengths=n[1:]),
    "lengths: expected 0..4, got 1..5": lambda v, n, y: arborescence.best(v, lengths=n + 1),
    r"heads: expected 0..4, got 7 at token 1 of example 0": lambda v, n, y: arborescence.score(v, 0 * y + 7, lengths=n),
    r"heads: expected shape \(4, 4\), got \(4, 3\)": lambda v, n, y: arborescence.score(v, y[:, 1:]),
    r"values: expected finite scores, or -inf for a forbidden arc, got nan": lambda v, n, y: arborescence.log_partition(
        v * torch.nan),
    "every tree of example 0 has a forbidden arc": lambda v, n, y: arborescence.log_partition(v - torch.inf),
    "mu: expected a finite number > 0": lambda v, n, y: arborescence.marginals(v, mu=-1.0),
    r"encodings: expected shape \(batch, n, 3\), got \(4, 4, 5\)": lambda v, n, y: DependencyCRF(3).scores(v),
    "size: expected an integer >= 1, got 0": lambda v, n, y: DependencyCRF(0),
    "reduction: expected one of": lambda v, n, y: DependencyCRF(5)(v.float(), y, n, "max"),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    with pytest.raises((ValueError, TypeError), match=message):
        WRONG[message](*drawn())


def test_everything_forbidden_is_infeasible(path):
    values, lengths, _ = drawn()
    for ask in (arborescence.log_partition, arborescence.best):
        with pytest.raises(InfeasibleError, match="forbidden"):
            ask(values - torch.inf, lengths=lengths)
