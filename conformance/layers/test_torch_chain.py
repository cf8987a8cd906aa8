"""Chains as layers of PyTorch: values of the reference's chains of the kept positions, and derivatives by differences.

Where no GPU is at hand the path of other devices runs on the CPU as well.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from conformance.layers.chains import CASES, Chains, drawn
from reference import smoothings
from reference.structures.base import InfeasibleError

torch = pytest.importorskip("torch")

import diptych.layers.torch as layers  # noqa: E402
from diptych.layers.torch import operators  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself

TOLERANCE = {torch.float64: 1e-9, torch.float32: 3e-5, torch.bfloat16: 3e-5}
MASKS = {
    "holes": {"mask": True},
    "a table for each edge": {"edges": True, "mask": True},
    "forbidden": CASES["forbidden"],
}


@pytest.fixture(params=["kernels", "elsewhere", "cuda"])
def path(request: Any, monkeypatch: Any) -> Iterator[str]:
    """The kernels of the CPU, or what other devices run: on the CPU, and on a GPU."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no GPU is at hand")
        torch.set_default_device("cuda")
    if request.param == "elsewhere":
        import reference
        from reference.structures import chain_scaled

        monkeypatch.setattr(operators, "fused", lambda unary, pairwise: False)
        monkeypatch.setattr("diptych.layers.torch.chain.fused", lambda unary, pairwise: False)
        monkeypatch.setattr(operators, "kernels", chain_scaled)
        monkeypatch.setattr("diptych.layers.torch.chain.accelerated", reference)
    yield request.param
    torch.set_default_device(None)


def tensors(chains: Chains, dtype: Any = torch.float64) -> tuple[Any, Any, dict[str, Any]]:
    scores = [torch.tensor(x, dtype=dtype) for x in (chains.unary, chains.pairwise, chains.starts, chains.ends)]
    mask = None if chains.mask is None else torch.tensor(chains.mask)
    return scores[0], scores[1], {"starts": scores[2], "ends": scores[3], "mask": mask}


def near(found: Any, expected: Any, tol: float) -> None:
    expected = np.asarray(expected, np.float64)
    size = max(1.0, float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)))
    np.testing.assert_allclose(found.detach().cpu().double().numpy(), expected, rtol=tol, atol=tol * size)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_the_chains_of_the_kept_positions(path, case, dtype):
    chains = drawn(**CASES[case])
    unary, pairwise, where = tensors(chains, dtype)
    exact = Chains(*(x.cpu().double().numpy() for x in (unary, pairwise)), chains.mask, *(
        where[name].cpu().double().numpy() for name in ("starts", "ends")), chains.labels)  # fmt: skip
    tol, y, mu = TOLERANCE[dtype], torch.tensor(chains.labels), 0.7
    log_z, (nodes, edges) = (ask(unary, pairwise, mu=mu, **where) for ask in (layers.log_partition, layers.marginals))
    best, k_best = layers.best(unary, pairwise, **where), layers.topk(unary, pairwise, 4, **where)
    most, drawn_ys = layers.max_marginals(unary, pairwise, **where), layers.sample(unary, pairwise, 3, **where)
    gold, loss = layers.score(unary, pairwise, y, **where), layers.crf_loss(unary, pairwise, y, **where)
    hinge, entropy = layers.hinge_loss(unary, pairwise, y, 0.5, **where), layers.entropy(unary, pairwise, **where)
    smooth = {name: layers.smooth_max(unary, pairwise, each, 0.5, **where)
              for name, each in (("top", smoothings.TopK(3)), ("l2", smoothings.SquaredL2()))}  # fmt: skip
    total = np.zeros(pairwise.shape)
    for b, (chain, at, labels) in enumerate(exact.rows()):
        value, marginals = chain.expectation(mu)
        off = np.setdiff1d(np.arange(chains.labels.shape[1]), at)
        near(log_z[b], value, tol)
        near(nodes[b, at], marginals.unary, 10 * tol)
        assert torch.all(nodes[b, off] == 0) and torch.all(best.labels[b, off] == -1)
        if total.ndim == 2:
            total += marginals.pairwise.sum(axis=0)
        else:
            total[b, at[1:] - 1] = marginals.pairwise
        near(best.value[b], chain.best()[0], tol)
        near(best.value[b], chain.score(best.labels[b, at].cpu().numpy()), tol)
        expected = chain.topk(4)
        assert int(k_best.count[b]) == expected.count
        near(k_best.scores[b, : expected.count], expected.scores[: expected.count], tol)
        near(most.unary[b, at], chain.max_marginals().unary, tol)
        assert all(np.isfinite(chain.score(y)) for y in drawn_ys[b][:, at].cpu().numpy())
        near(gold[b], chain.score(labels), tol)
        z, full = chain.expectation()[0], reference_table(chain)
        near(loss[b], z - chain.score(labels), 3 * tol * max(1.0, abs(z)))
        near(entropy[b], full.entropy, 30 * tol * max(1.0, abs(z)))
        near(hinge[b], full.augmented(labels, 0.5) - chain.score(labels), 3 * tol * max(1.0, abs(z)))
        near(smooth["top"][b], full.table.smooth_max(smoothings.TopK(3), 0.5)[0], tol)
        near(smooth["l2"][b], full.table.smooth_max(smoothings.SquaredL2(), 0.5)[0], tol)
    near(edges, total, 10 * tol)
    assert log_z.dtype == (torch.float32 if dtype == torch.bfloat16 else dtype)


class reference_table:
    """All labellings of a small chain."""

    def __init__(self, chain: Any) -> None:
        import reference

        self.outputs = list(chain.enumerate())
        self.scores = np.array([float(chain.score(np.array(y, np.int64))) for y in self.outputs])
        self.table = reference.Table(self.scores)
        p = np.exp(self.scores - self.scores.max())
        p /= p.sum()
        self.entropy = -float(np.sum(p[p > 0] * np.log(p[p > 0])))

    def augmented(self, labels: np.ndarray, cost: float) -> float:
        wrong = np.array([np.sum(np.array(y, np.int64) != labels) for y in self.outputs])
        return float(np.max(self.scores + cost * wrong))


@pytest.mark.parametrize("case", MASKS)
def test_first_and_second_derivatives_are_those_of_differences(path, case):
    chains = drawn(**MASKS[case])
    unary, pairwise, where = tensors(chains)
    mask, y = where.pop("mask"), torch.tensor(chains.labels)
    given = [x.requires_grad_() for x in (unary, pairwise, where["starts"], where["ends"])]

    def ask(function: Any, *more: Any, **options: Any) -> Any:
        return lambda u, A, s, e: function(u, A, *more, mask=mask, starts=s, ends=e, **options)

    smooth = case != "forbidden"  # differences of -inf are nan
    if not smooth:
        given = [given[0].detach().where(given[0] > -torch.inf, torch.tensor(-2.0)).requires_grad_(), *given[1:]]
        given = [
            *given[:1],
            *(x.detach().where(x > -torch.inf, torch.tensor(-2.0)).requires_grad_() for x in given[1:]),
        ]
    for function in (ask(layers.log_partition, mu=0.6), ask(layers.crf_loss, y)):
        assert torch.autograd.gradcheck(function, given, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(function, given)
    others = [layers.entropy, layers.marginals, (layers.smooth_max, smoothings.TopK(3), 0.5), (layers.hinge_loss, y)]
    for each in others:
        function = ask(*each) if isinstance(each, tuple) else ask(each)
        assert torch.autograd.gradcheck(function, given)
    third = torch.autograd.grad(layers.log_partition(unary, pairwise).sum(), unary, create_graph=True)[0].square().sum()
    second = torch.autograd.grad(third, unary, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="chain_hessian"):
        second.sum().backward()
    with torch.autograd.forward_ad.dual_level():  # forward over reverse, without create_graph
        loss, along = ask(layers.log_partition), torch.ones_like(unary)
        dual = torch.autograd.forward_ad.make_dual(unary.detach().requires_grad_(), along)
        (gradient,) = torch.autograd.grad(loss(dual, *given[1:]).sum(), dual)
        tangent = torch.autograd.forward_ad.unpack_dual(gradient).tangent
    plain = torch.autograd.grad(loss(unary, *given[1:]).sum(), unary, create_graph=True)[0]
    (expected,) = torch.autograd.grad(plain.sum(), unary)
    assert torch.allclose(tangent, expected, rtol=1e-9, atol=1e-12)


def test_each_example_has_its_weight(path):
    """Weights that differ, and equal ones, for which the gradient of the forward pass is scaled."""
    chains = drawn(mask=True)
    unary, pairwise, where = tensors(chains)
    pairwise.requires_grad_()
    rows = torch.stack([torch.autograd.grad(layers.log_partition(unary, pairwise, **where).reshape(-1)[b], pairwise)[0]
                        for b in range(chains.mask.shape[0])])  # fmt: skip
    for weights in (torch.arange(len(rows), dtype=unary.dtype), torch.full((len(rows),), -0.5, dtype=unary.dtype)):
        value = (layers.log_partition(unary, pairwise, **where).reshape(-1) * weights).sum()
        (found,) = torch.autograd.grad(value, pairwise)
        assert torch.allclose(found, (weights[:, None, None] * rows).sum(0), rtol=1e-9, atol=1e-12)


def test_what_has_no_derivative_is_an_error_in_both_modes(path):
    """PyTorch's forward mode answers 0 for an operator without a rule."""
    unary, pairwise, where = tensors(drawn(mask=True))

    def ask(u: Any) -> Any:
        return layers.max_marginals(u, pairwise, **where).unary

    with pytest.raises(RuntimeError, match="this derivative is not there"):
        ask(unary.clone().requires_grad_()).sum().backward()
    with pytest.raises(RuntimeError, match="this derivative is not there"):
        torch.func.jvp(ask, (unary,), (torch.ones_like(unary),))


def test_transforms_give_the_same_derivatives():
    chains = drawn(mask=True)
    unary, pairwise, where = tensors(chains)
    func = torch.func

    def loss(u: Any, A: Any = pairwise) -> Any:
        return layers.crf_loss(u, A, torch.tensor(chains.labels), **where)

    plain = torch.autograd.functional.jacobian(loss, unary)
    assert torch.allclose(func.jacrev(loss)(unary), plain) and torch.allclose(func.jacfwd(loss)(unary), plain)
    best = torch.autograd.functional.jacobian(lambda u: layers.best(u, pairwise, **where).value, unary)
    assert torch.equal(func.jacrev(lambda u: layers.topk(u, pairwise, 2, **where).scores[:, 0])(unary), best)
    many = torch.stack([unary, 2 * unary, -unary])
    each = torch.stack([func.grad(lambda u: loss(u).sum())(u) for u in many])
    assert torch.allclose(func.vmap(func.grad(lambda u: loss(u).sum()))(many), each)
    tables = torch.stack([pairwise, 2 * pairwise])
    assert torch.allclose(func.vmap(lambda A: loss(unary, A))(tables)[1], loss(unary, 2 * pairwise))
    assert torch.equal(func.vmap(lambda u: layers.best(u, pairwise, **where).labels)(many)[1],
                       layers.best(2 * unary, pairwise, **where).labels)  # fmt: skip
    hessian = torch.autograd.functional.hessian(lambda u: loss(u).sum(), unary)
    assert torch.allclose(func.hessian(lambda u: loss(u).sum())(unary), hessian)


@pytest.mark.beyond("compiles")
def test_compiled_and_exported_programs_give_the_same():
    chains = drawn(mask=True)
    unary, pairwise, where = tensors(chains)
    y = torch.tensor(chains.labels)

    def both(u: Any, A: Any) -> Any:
        return layers.crf_loss(u, A, y, **where).sum(), layers.best(u, A, **where).labels

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    u, v = unary.clone().requires_grad_(), unary.clone().requires_grad_()
    (a, labels), (b, others) = compiled(u, pairwise), both(v, pairwise)
    a.backward(), b.backward()
    assert torch.allclose(a, b) and torch.equal(labels, others) and torch.allclose(u.grad, v.grad)
    alone = torch.compile(layers.entropy, fullgraph=True, backend="aot_eager")  # of scores without a gradient
    assert torch.allclose(alone(unary, pairwise, **where), layers.entropy(unary, pairwise, **where))

    class Program(torch.nn.Module):
        def forward(self, u: Any, A: Any) -> Any:
            return both(u, A)

    exported = torch.export.export(Program(), (unary, pairwise)).module()
    assert torch.allclose(exported(unary, pairwise)[0], b)


def test_arguments_of_callers_are_not_changed_and_need_not_be_contiguous():
    unary, pairwise, where = tensors(drawn(mask=True, n=5))
    turned, before = unary.transpose(1, 2).contiguous().transpose(1, 2), (unary.clone(), pairwise.clone())
    assert not turned.is_contiguous()
    for ask in (layers.log_partition, layers.entropy, lambda *a, **k: layers.best(*a, **k).value):
        assert torch.equal(ask(turned, pairwise.T.contiguous().T, **where), ask(unary, pairwise, **where))
    assert torch.equal(unary, before[0]) and torch.equal(pairwise, before[1])
    deep = unary[None, None].expand(2, 1, *unary.shape)
    masks = where["mask"][None, None].expand(2, 1, *where["mask"].shape)
    found = layers.log_partition(deep, pairwise, **where | {"mask": masks})
    assert torch.equal(found[1, 0], layers.log_partition(unary, pairwise, **where)) and found.shape == (2, 1, 3)
    lengths = torch.tensor([5, 0, 3])
    assert torch.equal(layers.log_partition(unary, pairwise, lengths=lengths),
                       layers.log_partition(unary, pairwise, mask=torch.arange(5) < lengths[:, None]))  # fmt: skip


def test_labels_off_the_mask_do_not_count():
    chains = drawn(mask=True)
    unary, pairwise, where = tensors(chains)
    y = torch.tensor(chains.labels)
    hostile = torch.where(where["mask"], y, torch.tensor(-100))
    for ask in (layers.crf_loss, layers.score, layers.hinge_loss):
        assert torch.equal(ask(unary, pairwise, hostile, **where), ask(unary, pairwise, y, **where))


WRONG = {
    "unary: expected a tensor, got ndarray": lambda u, A, y: layers.log_partition(u.numpy(), A),
    "unary: expected floating-point scores, got torch.int64": lambda u, A, y: layers.log_partition(u.long(), A),
    r"unary: expected shape \(..., n, L\)": lambda u, A, y: layers.log_partition(u[0, 0], A),
    r"pairwise: expected shape \(3, 3\)": lambda u, A, y: layers.best(u, A[:2]),
    "pairwise: expected torch.float64, as unary is, got torch.float32": lambda u, A, y: layers.best(u, A.float()),
    "mask: expected a boolean tensor, got torch.int64": lambda u, A, y: layers.best(u, A, mask=y),
    r"mask: expected shape \(3, 4\), got \(3, 3\)": lambda u, A, y: layers.best(u, A, mask=y[:, 1:] > 0),
    "mask and lengths: expected one of them, got both": lambda u, A, y: layers.best(u, A, mask=y > 0, lengths=y[:, 0]),
    r"lengths: expected 0..4, got 5..7": lambda u, A, y: layers.best(u, A, lengths=torch.tensor([5, 6, 7])),
    r"starts: expected shape \(3,\), got \(2,\)": lambda u, A, y: layers.best(u, A, starts=u[0, 0, :2]),
    r"labels: expected 0..2, got 7 at position 1 of example 2": lambda u, A, y: layers.crf_loss(u, A, _with(y, 7)),
    r"labels: expected 0..2, got -1 at position 1 of example 2": lambda u, A, y: layers.score(u, A, _with(y, -1)),
    r"labels: expected shape \(3, 4\), got \(3, 3\)": lambda u, A, y: layers.crf_loss(u, A, y[:, 1:]),
    "labels: expected a tensor of integers, got torch.float64": lambda u, A, y: layers.crf_loss(u, A, y.double()),
    r"unary: expected finite scores, or -inf for a forbidden part, got nan at \(2, 1, 0\)":
        lambda u, A, y: layers.log_partition(_with(u, torch.nan), A),
    r"unary: expected finite scores, or -inf for a forbidden part, got inf at \(2, 1, 0\)":
        lambda u, A, y: layers.best(_with(u, torch.inf), A),
    "pairwise: expected finite scores, or -inf": lambda u, A, y: layers.crf_loss(u, A + torch.inf, y),
    "every labelling of example 0 is forbidden": lambda u, A, y: layers.log_partition(u - torch.inf, A),
    "labels: those of example 0 are forbidden": lambda u, A, y: layers.crf_loss(u, _with(A, -torch.inf, 0), 0 * y),
    "mu: expected a finite number > 0, got 0": lambda u, A, y: layers.log_partition(u, A, mu=0),
    "k: expected an integer >= 1, got 0": lambda u, A, y: layers.topk(u, A, 0),
    r"cost: expected a number or shape \(3, 3\)": lambda u, A, y: layers.hinge_loss(u, A, y, torch.zeros(2)),
    "smoothing: expected Max, Entropy, TopK or SquaredL2, got str": lambda u, A, y: layers.smooth_max(u, A, "l2", 1.0),
}  # fmt: skip


def _with(x: Any, value: float, place: int = -1) -> Any:
    """x with another value: at (2, 1, 0), or at the place given in a matrix."""
    x = x.clone()
    x[(2, 1, 0)[: x.ndim] if place < 0 else (0, place)] = value
    return x


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    unary, pairwise, _ = tensors(drawn())
    with pytest.raises((ValueError, TypeError), match=message):
        WRONG[message](unary, pairwise, torch.tensor(drawn().labels))


def test_everything_forbidden_is_infeasible(path):
    unary, pairwise, _ = tensors(drawn())
    smooth = functools.partial(layers.smooth_max, smoothing=smoothings.TopK(2), mu=1.0)
    for ask in (layers.log_partition, layers.best, lambda *a: layers.sample(*a, 2), smooth):
        with pytest.raises(InfeasibleError, match="forbidden"):
            ask(unary - torch.inf, pairwise)


def test_panels_send_tensors_with_gradients_to_the_layers():
    import accelerated

    unary, pairwise, _ = tensors(drawn())
    with pytest.raises(TypeError, match=r"unary: .* requires a gradient; diptych\.layers\.torch"):
        accelerated.Chain(unary.requires_grad_(), pairwise).best()


def test_threads_give_the_same_bits():
    unary, pairwise, where = tensors(drawn(B=64, n=40, L=5, mask=True))
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            u, A = unary.clone().requires_grad_(), pairwise.clone().requires_grad_()
            layers.log_partition(u, A, **where).sum().backward()
            found.append((u.grad, A.grad))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
