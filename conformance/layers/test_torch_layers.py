"""Layers of PyTorch. Their arguments: wrong ones are named, right ones are not changed, in any layout and precision.

Layers inside programs: forward mode, derivatives of a second order, transformations, compiled and exported programs. By
the laws of layers first derivatives in reverse mode are right: these agree with them, or are errors. SparseMAP: its
marginals are those of its loss, and its Jacobian is right where scores tie.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
import reference
from conformance.layers.minibatches import CASES
from conformance.layers.structures import Program, elsewhere, functions, offered
from conformance.specimens.pages import check_refusals
from diptych.layers.spans import allowed_transitions
from reference.smoothings import TopK

torch = pytest.importorskip("torch")

import diptych.layers.torch as layers  # noqa: E402
from diptych.layers.torch import ChainCRF, arborescence, chain, matching, tree  # noqa: E402

pytestmark = [  # warnings of PyTorch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
]
FORWARD = ("log_partition", "crf_loss", "best", "hinge_loss", "score", "sparsemap", "sparsemap_loss")
NOT_THERE = "this derivative is not there|no autograd formula was registered|chain_hessian"
PARENTS = np.array([2, -1, 1, 2, -1])


# arguments ------------------------------------------------------------------------------------------------------------


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


# programs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["kernels", "elsewhere"])
def path(request: Any) -> Iterator[None]:
    """What the CPU runs, and what other devices do, on the CPU."""
    with elsewhere() if request.param == "elsewhere" else nullcontext():
        yield


@pytest.mark.beyond("every derivative of every case")
@pytest.mark.parametrize("case", CASES)
def test_forward_mode_and_second_derivatives_are_right_or_errors(path, case):
    program = Program(case)
    given = [x.clone().requires_grad_() for x in program.fields]
    second = ("sparsemap_loss", *(("log_partition", "crf_loss") if program.kind == "Chain" else ()))
    for name in program.offered:
        ask = program.of(name)
        if name in FORWARD or (program.kind, name) == ("Chain", "marginals"):
            assert torch.autograd.gradcheck(ask, given, check_forward_ad=name in FORWARD, fast_mode=True)
        if name in second:
            assert torch.autograd.gradgradcheck(ask, given, fast_mode=True)
    for name in {"log_partition", "entropy"} & set(program.offered) - set(second):
        slopes = torch.autograd.grad(program.of(name)(*given).sum(), given, create_graph=True)
        with pytest.raises(RuntimeError, match=NOT_THERE):
            torch.autograd.grad(sum(x.square().sum() for x in slopes), given)
    for name in {"max_marginals"} & set(offered("torch-autograd", program.kind)):
        ask = program.of(name)
        with pytest.raises(RuntimeError, match=NOT_THERE):
            ask(*given).nan_to_num(neginf=0.0).sum().backward()
        with pytest.raises(RuntimeError, match=NOT_THERE):
            torch.func.jvp(ask, program.fields, program.fields)


@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_a_third_order_are_errors_and_hessians_those_of_reverse_mode(path, case):
    program = Program(case)
    if program.kind == "Matching":
        return
    x, *rest = (x.clone() for x in program.fields)
    func, ask = torch.func, program.of("log_partition")

    def value(x: Any) -> Any:
        return ask(x, *rest).sum()

    if program.kind != "Chain":
        for other in (func.jacfwd, func.jacrev):
            with pytest.raises(RuntimeError, match=NOT_THERE):
                other(func.grad(value))(x)
        return
    hessian = torch.autograd.functional.hessian(value, x)
    assert torch.allclose(func.hessian(value)(x), hessian) and hessian.abs().sum() > 0
    x.requires_grad_()
    slope = torch.autograd.grad(value(x), x, create_graph=True)[0].square().sum()
    again = torch.autograd.grad(slope, x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match=NOT_THERE):
        again.sum().backward()


@pytest.mark.beyond("every case")
@pytest.mark.parametrize("case", CASES)
def test_transformations_are_loops(case):
    program = Program(case)
    x, *rest = program.fields
    many, func = torch.stack([x, 2 * x]), torch.func
    for name in (*program.offered, *({"max_marginals"} & set(offered("torch-autograd", program.kind)))):

        def ask(x: Any, name: str = name) -> Any:
            return program.of(name)(x, *rest)

        assert torch.equal(func.vmap(ask)(many)[1], ask(2 * x))
        if name != "max_marginals" and (program.kind == "Chain" or name != "marginals"):
            plain = torch.autograd.functional.jacobian(ask, 2 * x)
            assert torch.allclose(func.vmap(func.jacrev(ask))(many)[1], plain)
            if name in FORWARD:
                assert torch.allclose(func.jacfwd(ask)(2 * x), plain)
    if program.kind == "Chain":
        tables, ask = torch.stack([rest[0], 2 * rest[0]]), program.of("log_partition")
        assert torch.allclose(func.vmap(lambda A: ask(x, A, *rest[1:]))(tables)[1], ask(x, tables[1], *rest[1:]))


@pytest.mark.beyond("compiles")
@pytest.mark.parametrize("case", [case for case in CASES if "holes" in case or "each" in case or "tall" in case])
def test_compiled_and_exported_programs_give_the_same(case):
    torch.compiler.reset()
    program = Program(case)
    values = [program.of(name) for name in program.offered if name != "marginals"]
    module = functions("torch-autograd", program.kind)
    values += [program.of("sample", size=3)] if hasattr(module, "sample") else []

    def both(*fields: Any) -> Any:
        return sum(ask(*fields).sum() for ask in values if ask is not values[-1]), values[-1](*fields)

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    for grad in (True, False):
        given, plain = ([x.clone().requires_grad_(grad) for x in program.fields] for _ in range(2))
        (a, last), (b, other) = compiled(*given), both(*plain)
        assert torch.allclose(a, b) and last.shape == other.shape
        if grad:
            a.backward(), b.backward()
            assert all(torch.allclose(u.grad, v.grad) for u, v in zip(given, plain, strict=True))

    refused = () if program.kind == "Chain" else ("entropy", "kl")  # by export
    kept = [program.of(name) for name in program.offered if name not in ("marginals", *refused)]

    class Exported(torch.nn.Module):
        def forward(self, *fields: Any) -> Any:
            return sum(ask(*fields).sum() for ask in kept)

    found = torch.export.export(Exported(), program.fields).module()(*program.fields)
    assert torch.allclose(found, Exported()(*program.fields))
    if "marginals" in program.offered:
        shares = torch.compile(program.of("marginals"), fullgraph=True, backend="aot_eager")
        assert torch.allclose(shares(*program.fields), program.of("marginals")(*program.fields))
        if program.kind != "Chain":
            with pytest.raises(RuntimeError, match=NOT_THERE):
                shares(*(x.clone().requires_grad_() for x in program.fields)).sum().backward()


# SparseMAP ------------------------------------------------------------------------------------------------------------

TIED = {  # scores of 0
    "chain": (partial(chain.sparsemap, mu=0.7), [(2, 3, 2), (2, 2, 2, 2)]),
    "tree": (partial(tree.sparsemap, parents=[2, -1, 1], mu=0.7), [(2, 3, 2), (2, 2)]),
    "one root": (partial(arborescence.sparsemap, single_root=True, lengths=torch.tensor([3, 2])), [(2, 3, 4)]),
    "wide matchings": (partial(matching.sparsemap, mu=2.0), [(2, 2, 3)]),
    "tall matchings": (partial(matching.sparsemap, lengths=torch.tensor([[3, 2], [1, 1]])), [(2, 4, 2)]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_of_the_loss_of_sparsemap_is_the_marginals_less_the_parts(case):
    program = Program(case)
    x, *rest = (x.clone().requires_grad_() for x in program.fields)
    slope, parts = (torch.autograd.grad(program.of(f)(x, *rest).sum(), x)[0] for f in ("sparsemap_loss", "score"))
    assert torch.allclose(slope, program.of("sparsemap")(x, *rest) - parts, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", TIED)
def test_the_jacobian_of_sparsemap_is_right_where_all_scores_tie(name):
    """By differences, in both modes: the marginals are inside the hull, and the outputs of weight span less than it."""
    ask, shapes = TIED[name]
    given = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(ask, given, check_forward_ad=True)
    found = ask(*given)
    first = found[0] if isinstance(found, tuple) else found
    assert torch.autograd.grad(first[0, 0, 0], given[0])[0][0, 0, 0] > 0.1


@given(seed=st.integers(0, 999), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_forbidden_parts_and_constants_of_rows(seed, dtype):
    """A forbidden pair has no share and no derivative; a number added to a row changes nothing but the value."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 3, 4, generator=random, dtype=dtype)
    x[:, 0, 1] = -torch.inf
    p = matching.sparsemap(x.requires_grad_())
    assert torch.all(p[:, 0, 1] == 0) and torch.allclose(p.sum(-1), torch.ones(3, 3, dtype=dtype))
    weights = torch.randn(p.shape, generator=random, dtype=dtype)
    slope = torch.autograd.grad((weights * p).sum(), x)[0]
    assert torch.all(slope[:, 0, 1] == 0) and torch.allclose(slope.sum(-1), torch.zeros(3, 3, dtype=dtype), atol=1e-5)
    shift = torch.randn(3, 3, 1, generator=random, dtype=dtype)
    assert torch.allclose(matching.sparsemap(x.detach() + shift), p.detach(), atol=1e-5)
