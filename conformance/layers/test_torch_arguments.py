"""Arguments of layers of PyTorch: wrong ones are named, right ones are not changed, in any layout and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.layers.minibatches import CASES
from conformance.layers.structures import elsewhere
from reference.smoothings import SquaredL2
from reference.structures.base import InfeasibleError

torch = pytest.importorskip("torch")

from conformance.layers.programs import Program  # noqa: E402
from diptych.layers.torch import DependencyCRF, arborescence, chain, matching, tree  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself
PARENTS = np.array([2, -1, 1, 2, -1])


def drawn(*sizes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=size)) for size in sizes]


# of chains: unary (3, 4, 3), pairwise (3, 3), labels (3, 4) of 0
OF_CHAINS = {
    "unary: expected a tensor, got ndarray": lambda u, A, y: chain.log_partition(u.numpy(), A),
    "unary: expected floating-point scores, got torch.int64": lambda u, A, y: chain.log_partition(u.long(), A),
    r"unary: expected shape \(..., n, L\)": lambda u, A, y: chain.log_partition(u[0, 0], A),
    r"pairwise: expected shape \(3, 3\)": lambda u, A, y: chain.best(u, A[:2]),
    "pairwise: expected torch.float64, as unary is, got torch.float32": lambda u, A, y: chain.best(u, A.float()),
    "mask: expected a boolean tensor, got torch.int64": lambda u, A, y: chain.best(u, A, mask=y),
    r"mask: expected shape \(3, 4\), got \(3, 3\)": lambda u, A, y: chain.best(u, A, mask=y[:, 1:] > 0),
    "mask and lengths: expected one of them, got both": lambda u, A, y: chain.best(u, A, mask=y > 0, lengths=y[:, 0]),
    r"lengths: expected 0..4, got 5..7": lambda u, A, y: chain.best(u, A, lengths=torch.tensor([5, 6, 7])),
    r"starts: expected shape \(3,\), got \(2,\)": lambda u, A, y: chain.best(u, A, starts=u[0, 0, :2]),
    r"labels: expected 0..2, got 7 at position 1 of example 2": lambda u, A, y: chain.crf_loss(u, A, _with(y, 7)),
    r"labels: expected 0..2, got -1 at position 1 of example 2": lambda u, A, y: chain.score(u, A, _with(y, -1)),
    r"labels: expected shape \(3, 4\), got \(3, 3\)": lambda u, A, y: chain.crf_loss(u, A, y[:, 1:]),
    "labels: expected a tensor of integers, got torch.float64": lambda u, A, y: chain.crf_loss(u, A, y.double()),
    r"unary: expected finite scores, or -inf for a forbidden part, got nan at \(2, 1, 0\)":
        lambda u, A, y: chain.log_partition(_with(u, torch.nan), A),
    r"unary: expected finite scores, or -inf for a forbidden part, got inf at \(2, 1, 0\)":
        lambda u, A, y: chain.best(_with(u, torch.inf), A),
    "pairwise: expected finite scores, or -inf": lambda u, A, y: chain.crf_loss(u, A + torch.inf, y),
    "every labelling of example 0 is forbidden": lambda u, A, y: chain.log_partition(u - torch.inf, A),
    "labels: those of example 0 are forbidden": lambda u, A, y: chain.crf_loss(u, _with(A, -torch.inf, 0), 0 * y),
    "mu: expected a finite number > 0, got 0": lambda u, A, y: chain.log_partition(u, A, mu=0),
    "k: expected an integer >= 1, got 0": lambda u, A, y: chain.topk(u, A, 0),
    r"cost: expected a number or shape \(3, 3\)": lambda u, A, y: chain.hinge_loss(u, A, y, torch.zeros(2)),
    "smoothing: expected Max, Entropy, TopK or SquaredL2, got str": lambda u, A, y: chain.smooth_max(u, A, "l2", 1.0),
}  # fmt: skip

# of labelled nodes and of matchings: unary (3, 5, 2), pairwise (2, 2), labels (3, 5) of 0
OF_TREES = {
    r"unary: expected shape \(..., n, L\) with L >= 1, got \(2,\)": lambda u, A, y: tree.best(u[0, 0], A, PARENTS),
    r"pairwise: expected shape \(2, 2\) or \(3, 5, 2, 2\), got \(2,\)": lambda u, A, y: tree.best(u, A[0], PARENTS),
    r"parents: expected integers of shape \(5,\)": lambda u, A, y: tree.best(u, A, PARENTS[1:]),
    "parents: ": lambda u, A, y: tree.best(u, A, np.array([1, 0, 0, 0, 0])),
    r"labels: expected 0..1, got 2 at position 0 of example 0": lambda u, A, y: tree.score(u, A, PARENTS, y + 2),
    r"other_unary: expected shape \(3, 5, 2\), got \(3, 5, 1\)": lambda u, A, y: tree.kl(
        u, A, PARENTS, u[..., :1], A[:1, :1]),
    "unary: expected .* got nan": lambda u, A, y: tree.log_partition(u * torch.nan, A, PARENTS),
    r"values: expected shape \(..., p, q\), got \(2,\)": lambda u, A, y: matching.best(u[0, 0]),
    "values: expected .* got inf": lambda u, A, y: matching.best(u + torch.inf),
    "columns: expected -1..1, got 7 at row 4 of example 0": lambda u, A, y: matching.score(
        u, 7 * (y + torch.tensor([0, 0, 0, 0, 1]))),
    "every matching of example 0 has a forbidden pair": lambda u, A, y: matching.best(u - torch.inf),
    r"lengths: expected shape \(3, 2\), got \(3,\)": lambda u, A, y: matching.best(u, lengths=torch.tensor([1, 1, 1])),
    "lengths: expected 0..2, got 1..3": lambda u, A, y: matching.best(u, lengths=torch.tensor([[5, 3]] + 2 * [[1, 1]])),
    r"columns: expected shape \(3, 5\), got \(3, 4\)": lambda u, A, y: matching.score(u, y[:, 1:]),
    "columns: expected a tensor of integers, got torch.float64": lambda u, A, y: matching.score(u, y.double()),
}  # fmt: skip

# of dependency trees: values (4, 4, 5), lengths, and heads that are trees of these lengths
OF_HEADS = {
    r"values: expected shape \(..., n, n \+ 1\), got \(4, 5, 4\)": lambda v, n, y: arborescence.best(v.mT),
    r"lengths: expected shape \(4,\), got \(3,\)": lambda v, n, y: arborescence.best(v, lengths=n[1:]),
    r"heads: expected 0..4, got 7 at token 1 of example 0": lambda v, n, y: arborescence.score(v, 0 * y + 7, lengths=n),
    r"heads: expected shape \(4, 4\), got \(4, 3\)": lambda v, n, y: arborescence.score(v, y[:, 1:]),
    r"values: expected finite scores, or -inf for a forbidden part": lambda v, n, y: arborescence.log_partition(
        v * torch.nan),
    "every tree of example 0 has a forbidden arc": lambda v, n, y: arborescence.log_partition(v - torch.inf),
    "heads: expected 0 or a token on the mask, got 1 at token 2 of example 1": lambda v, n, y: arborescence.score(
        v, 0 * y + 1, mask=y != 0),
    "heads: expected a tree, got a cycle above token 1 of example 0": lambda v, n, y: arborescence.score(
        v, torch.tensor([2, 1, 0, 0]).expand(4, 4)),
    "heads: expected a single token of head 0, got 4 in example 0": lambda v, n, y: arborescence.crf_loss(
        v, 0 * y, single_root=True),
    "single_root: expected True or False, got 1": lambda v, n, y: arborescence.sample(v, single_root=1),
    "other_values: expected torch.float64": lambda v, n, y: arborescence.kl(v, v.float()),
    r"other_values: expected shape \(4, 4, 5\), got \(1, 4, 5\)": lambda v, n, y: arborescence.kl(v, v[:1]),
    "cost: expected a finite number >= 0, got -1": lambda v, n, y: arborescence.hinge_loss(v, 0 * y, -1.0),
    "size: expected an integer >= 1": lambda v, n, y: arborescence.sample(v, 0),
    "mu: expected a finite number > 0": lambda v, n, y: arborescence.marginals(v, mu=-1.0),
    r"encodings: expected shape \(batch, n, 3\), got \(4, 4, 5\)": lambda v, n, y: DependencyCRF(3).scores(v),
    "size: expected an integer >= 1, got 0": lambda v, n, y: DependencyCRF(0),
    "reduction: expected one of": lambda v, n, y: DependencyCRF(5)(v.float(), y, n, "max"),
}  # fmt: skip


def _with(x: Any, value: float, place: int = -1) -> Any:
    """x with another value: at (2, 1, 0), or at the place given in a matrix."""
    x = x.clone()
    x[(2, 1, 0)[: x.ndim] if place < 0 else (0, place)] = value
    return x


@pytest.mark.parametrize("message", [*OF_CHAINS, *OF_TREES, *OF_HEADS])
def test_wrong_arguments_are_named(message):
    if message in OF_HEADS:
        heads = [[2, 0, 2, 1], [0, -7, 9, 9], [5, 5, 5, 5], [0, 3, 1, -1]]
        given, ask = [*drawn((4, 4, 5)), torch.tensor([4, 1, 0, 3]), torch.tensor(heads)], OF_HEADS[message]
    else:
        n, L, ask = (4, 3, OF_CHAINS[message]) if message in OF_CHAINS else (5, 2, OF_TREES[message])
        given = [*drawn((3, n, L), (L, L)), torch.zeros(3, n).long()]
    with pytest.raises((ValueError, TypeError), match=message):
        ask(*given)


def test_panels_send_tensors_with_gradients_to_the_layers():
    import accelerated

    unary, pairwise = drawn((4, 3), (3, 3))
    with pytest.raises(TypeError, match=r"unary: .* requires a gradient; diptych\.layers\.torch"):
        accelerated.Chain(unary.requires_grad_(), pairwise).best()


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
    """Also none; an example without positions has one output, of score 0. Lengths are masks of the first positions."""
    values, unary, pairs = drawn((2, 3, n, n + 1), (2, 3, n, 2), (2, 2))
    lengths = torch.tensor([[n, 0, 1], [0, n, n]]).clamp(max=n)
    for of, x, more in ((chain, unary, (pairs,)), (tree, unary, (pairs, np.arange(n) - 1)), (arborescence, values, ())):
        y = of.best(-x, *more).labels
        for name, extra in {"log_partition": (), "smooth_max": (SquaredL2(), 0.5), "hinge_loss": (y,)}.items():
            whole, ask = getattr(of, name)(x, *more, *extra), getattr(of, name)
            one = ask(x[1, 2], *more, *(e[1, 2] if isinstance(e, torch.Tensor) else e for e in extra))
            assert whole.shape == (2, 3) and one.shape == () and torch.allclose(whole[1, 2], one)
            assert n or torch.all(whole == 0)
        k_best = of.topk(x[1, 2], *more, 2)
        assert torch.equal(k_best.labels, of.topk(x, *more, 2).labels[1, 2]) and int(k_best.count) == (2 if n else 1)
        assert of.sample(x, *more, 4).shape == (2, 3, 4, n) and of.sample(x[1, 2], *more, 4).shape == (4, n)
        if of is not tree:
            found = [of.log_partition(x, *more, lengths=lengths),
                     of.log_partition(x, *more, mask=torch.arange(n) < lengths[..., None])]  # fmt: skip
            assert torch.equal(*found) and torch.all(found[0][lengths == 0] == 0)


@pytest.mark.parametrize("case", CASES)
def test_everything_forbidden_is_infeasible(case):
    """But for an example without positions, which has one output."""
    program = Program(case)
    none = [x - torch.inf for x in program.fields]
    for name in {"log_partition", "best", "sample", "entropy", "smooth_max"} & {*program.offered, "best"}:
        with pytest.raises(InfeasibleError, match="forbidden"):
            program.of(name)(*none)
    empty = [program.batch.row(b).labels.size == 0 for b in range(4)]
    assert torch.equal(torch.isfinite(program.of("topk", k=2)(*none)).sum(-1), torch.tensor(empty).long())


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
