"""Arguments of layers of PyTorch: wrong ones are named, right ones are not changed, in any layout and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import accelerated
import reference
from conformance.layers.minibatches import CASES
from conformance.layers.structures import Program, elsewhere
from conformance.specimens.pages import check_refusals
from diptych.layers.spans import allowed_transitions
from reference.smoothings import TopK

torch = pytest.importorskip("torch")

import diptych.layers.torch as layers  # noqa: E402
from diptych.layers.torch import ChainCRF, arborescence, chain, tree  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself
PARENTS = np.array([2, -1, 1, 2, -1])


def drawn(*sizes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=size)) for size in sizes]


def changed(x: Any, value: float, place: int = -1) -> Any:
    """x with another value: at (2, 1, 0), or at the place given in a matrix."""
    x = x.clone()
    x[(2, 1, 0)[: x.ndim] if place < 0 else (0, place)] = value
    return x


def test_wrong_arguments_are_named():
    """Also by the panels, which send tensors with gradients to the layers. Heads are trees of the lengths given."""
    u, A, nodes, pairs, arcs, emissions = drawn((3, 4, 3), (3, 3), (3, 5, 2), (2, 2), (4, 4, 5), (6, 4, 5))
    names = {**vars(layers), "torch": torch, "np": np, "changed": changed, "PARENTS": PARENTS, "TopK": TopK}
    names |= {"accelerated": accelerated, "reference": reference, "u": u, "A": A, "y": torch.zeros(3, 4).long()}
    names |= {"nodes": nodes, "pairs": pairs, "zeros": torch.zeros(3, 5).long(), "arcs": arcs}
    names["heads"] = torch.tensor([[2, 0, 2, 1], [0, -7, 9, 9], [5, 5, 5, 5], [0, 3, 1, -1]])
    names |= {"lengths": torch.tensor([4, 1, 0, 3]), "crf": ChainCRF(5).double(), "emissions": emissions}
    names |= {"tags": torch.zeros(6, 4).long(), "kept": torch.ones(6, 4).bool()}
    names["BIO"] = allowed_transitions(["O", "B-A", "I-A", "B-B", "I-B"], "BIO")
    check_refusals("wrong_layers.txt", names)


@pytest.mark.beyond("compiles")
@pytest.mark.parametrize("case", CASES)
def test_scores_are_not_changed_and_may_be_strided_or_of_half_precision(case):
    """Half precision is computed in float32."""
    program = Program(case)
    turned = [x.mT.contiguous().mT if x.ndim > 1 else x for x in program.fields]
    before, halves = [x.clone() for x in program.fields], [x.bfloat16() for x in program.fields]
    assert not turned[0].is_contiguous()
    for name in program.offered:
        ask = program.of(name)
        assert torch.equal(ask(*turned), ask(*program.fields))
        half = ask(*halves)
        assert half.dtype == torch.float32
        if name != "kl":  # whose other scores are rounded, too
            assert torch.equal(half, ask(*(x.float() for x in halves)))
    assert all(map(torch.equal, before, program.fields))


@pytest.mark.parametrize("n", [3, 0])
def test_examples_have_any_number_of_leading_axes(n):
    """Also none: losses and samples; other answers obey the laws of batches."""
    values, unary, pairs = drawn((2, 3, n, n + 1), (2, 3, n, 2), (2, 2))
    for of, x, more in ((chain, unary, (pairs,)), (tree, unary, (pairs, np.arange(n) - 1)), (arborescence, values, ())):
        y = of.best(-x, *more).labels
        whole, one = of.hinge_loss(x, *more, y), of.hinge_loss(x[1, 2], *more, y[1, 2])
        assert whole.shape == (2, 3) and one.shape == () and torch.allclose(whole[1, 2], one)
        assert of.sample(x, *more, 4).shape == (2, 3, 4, n) and of.sample(x[1, 2], *more, 4).shape == (4, n)


# numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if "matchings" not in case])
def test_sums_are_exact_where_one_output_has_all_the_weight(case):
    """No score is lost next to others e^30000 as likely."""
    program = Program(case, scale=1e4)
    best = program.of("best")(*program.fields)
    for context in (elsewhere(), torch.enable_grad()):
        with context:
            assert torch.all(program.of("entropy")(*program.fields).abs() < 1e-6)
            assert torch.allclose(program.of("log_partition", mu=1.0)(*program.fields), best, rtol=1e-12)


@pytest.mark.parametrize("of", [chain, tree, arborescence], ids=["chain", "tree", "arborescence"])
def test_a_divergence_is_infinite_where_the_other_forbids_an_output(of):
    """And in the other direction, of P without some outputs from P, it is log Z of P less that of the rest."""
    x, *pairs = drawn((3, 4, 5)) if of is arborescence else drawn((3, 4, 2), (2, 2))
    rest, less = (*pairs, np.array([2, -1, 1, -1])) if of is tree else pairs, x.clone()
    less[0, 0, of.best(x, *rest).labels[0, 0]] = -torch.inf
    found = of.kl(x, *rest, less, *pairs)
    assert found[0] == torch.inf and torch.all(found[1:].abs() < 1e-12)
    apart = of.log_partition(x, *rest) - of.log_partition(less, *rest)
    assert torch.allclose(of.kl(less, *rest, x, *pairs), apart, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_an_inverse_that_loses_the_arc_of_the_root_is_not_taken(dtype):
    """Two tokens that are each other's best heads: 1 + e^-34 is rounded in the matrix."""
    values = torch.tensor([[[-34.0, 0.0, 0.0], [-34.0, 0.0, 0.0]]], dtype=dtype)
    expected, tol = np.logaddexp(np.log(2.0) - 34.0, -68.0), 1e-12 if dtype == torch.float64 else 1e-6
    with elsewhere():
        np.testing.assert_allclose(arborescence.log_partition(values), [expected], rtol=tol)
        np.testing.assert_allclose(arborescence.marginals(values).sum(), 2.0, rtol=1e-6)


def test_threads_give_the_same_bits():
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            u, A = (x.requires_grad_() for x in drawn((64, 40, 5), (5, 5)))
            chain.log_partition(u, A).sum().backward()
            found.append((u.grad, A.grad))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
