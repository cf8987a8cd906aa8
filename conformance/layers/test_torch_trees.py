"""Trees of dependencies and of labelled nodes as layers of PyTorch: all outputs listed, derivatives by differences.

Where no GPU is at hand the path of other devices runs on the CPU as well.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import reference
from reference.smoothings import Entropy, Max, SquaredL2, TopK
from reference.structures.base import InfeasibleError

torch = pytest.importorskip("torch")

from diptych.layers.torch import DependencyCRF, arborescence, chain, tree  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself
LENGTHS, PARENTS = (4, 1, 0, 3), np.array([2, -1, 1, -1])
HEADS = [[2, 0, 2, 1], [0, -7, 9, 9], [5, 5, 5, 5], [0, 3, 1, -1]]  # trees with a single root, and padding
HOLES = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 1, 1]], bool)


KINDS = ["heads", "heads, single root", "heads, holes", "nodes", "nodes, a table each", "heads, holes, single root"]


@pytest.fixture(params=[*KINDS, "heads, elsewhere", "heads, holes, single root, elsewhere"])
def kind(request: Any, monkeypatch: Any) -> str:
    """Scores to draw; elsewhere: of them what other devices than the CPU run."""
    if "elsewhere" in request.param:
        monkeypatch.setattr(arborescence, "on_host", lambda values: False)
    return request.param


class Case(NamedTuple):
    """A module of layers, scores, what follows them, arguments by name, gold labels; all outputs (m, n) of each
    example, -1 off the mask.
    """

    of: Any
    scores: tuple[Any, ...]
    fixed: tuple[Any, ...]
    where: dict[str, Any]
    gold: Any
    outputs: list[Any]

    def parts(self, y: Any) -> list[Any]:
        """Booleans for each of the scores of an example: whether outputs (m, n) have the part."""
        nodes = y[..., None] == np.arange(self.scores[0].shape[-1])
        if self.of is arborescence:
            return [nodes]
        return [nodes, (nodes[:, PARENTS][..., None] & nodes[:, :, None]) & (PARENTS >= 0)[:, None, None]]

    def totals(self, b: int, scores: Any = None) -> Any:
        """The score (m,) of each output."""
        total = 0.0
        for x, has in zip(scores or self.scores, self.parts(self.outputs[b]), strict=True):
            each = x.detach().double().numpy()
            each = each[b] if each.ndim > 2 else each
            total = total + np.where(has, each, 0.0).sum(axis=tuple(range(1, has.ndim)))
        return total

    def ask(self, name: str, *more: Any, scores: Any = None, **options: Any) -> Any:
        return getattr(self.of, name)(*(scores or self.scores), *self.fixed, *more, **self.where, **options)


def drawn(kind: str, dtype: Any = None, scale: float = 1.0) -> Case:
    rng, dtype = np.random.default_rng(0), dtype or torch.float64
    if kind.startswith("nodes"):
        unary = torch.tensor(scale * rng.normal(size=(3, 4, 2)), dtype=dtype)
        pairwise = scale * rng.normal(size=(3, 4, 2, 2) if kind == "nodes, a table each" else (2, 2))
        pairwise[..., 0, 1] = -np.inf
        pairs = torch.tensor(pairwise, dtype=dtype)
        each = [reference.Tree(unary[b].double().numpy(), (pairs if pairs.ndim == 2 else pairs[b]).double().numpy(),
                               PARENTS) for b in range(3)]  # fmt: skip
        outputs = [np.array(list(one.enumerate())) for one in each]
        gold = torch.tensor(np.stack([all_y[len(all_y) // 2] for all_y in outputs]))
        return Case(tree, (unary, pairs), (PARENTS,), {}, gold, outputs)
    values = scale * rng.normal(size=(4, 4, 5))
    values[0, 2, 1] = -np.inf
    x, single_root = torch.tensor(values, dtype=dtype), "single" in kind
    kept, outputs, gold = HOLES if "holes" in kind else np.arange(4) < np.array(LENGTHS)[:, None], [], []
    where = {"mask": torch.tensor(kept)} if "holes" in kind else {"lengths": torch.tensor(LENGTHS)}
    for b in range(4):
        at = np.flatnonzero(kept[b])
        names = np.array([0, *(at + 1)])
        one = reference.Arborescence(x[b].double().numpy()[np.ix_(at, names)], single_root)
        heads = list(one.enumerate())
        outputs.append(np.full((len(heads), 4), -1))
        outputs[b][:, at] = names[np.array(heads, int).reshape(len(heads), len(at))]
        gold.append(np.where(kept[b], outputs[b][len(heads) // 2], -7))
    return Case(arborescence, (x,), (), where | {"single_root": single_root}, torch.tensor(np.stack(gold)), outputs)


def near(given: Any, expected: Any, tol: float) -> None:
    expected = np.asarray(expected, np.float64)
    size = max(1.0, float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)))
    np.testing.assert_allclose(given.detach().double().numpy(), expected, rtol=tol, atol=tol * size)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_answers_are_those_of_all_outputs(kind, dtype):
    case, tol, mu, cost = drawn(kind, dtype), 1e-9 if dtype == torch.float64 else 3e-5, 0.7, 0.4
    others = tuple(-0.5 * torch.where(x > -torch.inf, x, torch.inf) for x in case.scores)
    before = [x.clone() for x in case.scores]
    log_z, shares = case.ask("log_partition", mu=mu), case.ask("marginals", mu=mu)
    best, k_best, most = case.ask("best"), case.ask("topk", 30), case.ask("max_marginals")
    samples, gold, loss = case.ask("sample", 5), case.ask("score", case.gold), case.ask("crf_loss", case.gold)
    entropy, kl, same = case.ask("entropy"), case.ask("kl", *others), case.ask("kl", *case.scores)
    smooth = {each: (case.ask("smooth_max", each, mu), case.ask("smooth_hinge_loss", case.gold, each, mu, cost))
              for each in (Entropy(), TopK(3), SquaredL2())}  # fmt: skip
    smooth[Max()] = best.value, case.ask("hinge_loss", case.gold, cost)
    for b, outputs in enumerate(case.outputs):
        s, t, m = case.totals(b), case.totals(b, others), len(outputs)
        size = max(1.0, float(np.abs(s).max()))
        z, p = mu * np.logaddexp.reduce(s / mu), np.exp((s - s.max()) / mu)
        near(log_z[b], z, tol)
        for share, high, has in zip(_listed(shares), _listed(most), case.parts(outputs), strict=True):
            weights = (m, *(1,) * (has.ndim - 1))
            near(share[b], ((p / p.sum()).reshape(weights) * has).sum(0), 10 * tol)
            near(high[b], np.where(has, s.reshape(weights), -np.inf).max(0), tol)
        near(best.value[b], s.max(), tol)
        near(best.value[b], s[_row(outputs, best.labels[b])], tol)
        assert int(k_best.count[b]) == min(m, 30) and torch.all(k_best.labels[b, m:] == -1)
        near(k_best.scores[b], np.pad(np.sort(s)[::-1], (0, 30), constant_values=-np.inf)[:30], tol)
        rows = [_row(outputs, y) for y in k_best.labels[b, :m]]
        assert len(set(rows)) == min(m, 30)
        near(k_best.scores[b, :m], s[rows], tol)
        assert all(_row(outputs, y) >= 0 for y in samples[b])
        right = _row(outputs, torch.where(case.gold[b] == -7, -1, case.gold[b]))
        near(gold[b], s[right], tol)
        p, q = (np.exp(x - np.logaddexp.reduce(x)) for x in (s, t))
        near(loss[b], -np.log(p[right]), 5 * tol * size)
        near(entropy[b], -np.sum(p * np.log(p)), 30 * tol * size)
        near(kl[b], np.sum(p * np.log(p / q)), 30 * tol * size)
        assert kl[b] > -30 * tol * size and abs(float(same[b])) < 30 * tol * size
        wrong = (outputs != outputs[right]).sum(-1)
        for smoothing, (value, hinge) in smooth.items():
            strength = 0.0 if isinstance(smoothing, Max) else mu
            near(value[b], reference.Table(s).smooth_max(smoothing, strength)[0], tol * size)
            costly = reference.Table(s + cost * wrong).smooth_max(smoothing, strength)[0]
            near(hinge[b], costly - s[right], 3 * tol * size)
    assert log_z.dtype == entropy.dtype == (torch.float32 if dtype == torch.bfloat16 else dtype)
    assert all(map(torch.equal, before, case.scores))


def _listed(x: Any) -> list[Any]:
    return [x] if isinstance(x, torch.Tensor) else list(x)


def _row(outputs: Any, y: Any) -> int:
    """Where y is among outputs; there it is once."""
    (place,) = np.flatnonzero((outputs == y.numpy()).all(-1))
    return int(place)


def test_samples_have_the_distribution_of_their_scores(kind):
    """Pearson's statistic is below its mean by six deviations; it is above for samples at another temperature."""
    case, size = drawn(kind), 4000
    for mu, fits in ((0.8, True), (1.6, False)):
        labels = case.ask("sample", size, mu=mu, generator=torch.Generator().manual_seed(0))
        for b, outputs in enumerate(case.outputs):
            counts = np.bincount([_row(outputs, y) for y in labels[b]], minlength=len(outputs))
            s = case.totals(b) / 0.8
            expected, free = size * np.exp(s - np.logaddexp.reduce(s)), len(outputs) - 1
            statistic = np.sum((counts - expected) ** 2 / expected)
            assert (statistic <= free + 6.0 * math.sqrt(2.0 * free)) == (fits or not free)


def test_entropy_and_sums_are_exact_at_any_scale(kind):
    """Where one output has all the weight: no score is lost next to others e^30000 as likely."""
    case = drawn(kind, scale=1e4)
    assert torch.all(case.ask("entropy").abs() < 1e-6)
    best = case.ask("best").value
    near(case.ask("kl", *(0.5 * x for x in case.scores)), np.zeros(len(best)), 1e-6)
    near(case.ask("log_partition"), best.numpy(), 1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_an_inverse_that_loses_the_arc_of_the_root_is_not_taken(monkeypatch, dtype):
    """Two tokens that are each other's best heads: 1 + e^-34 is rounded in the matrix."""
    monkeypatch.setattr(arborescence, "on_host", lambda values: False)
    values = torch.tensor([[[-34.0, 0.0, 0.0], [-34.0, 0.0, 0.0]]], dtype=dtype)
    tol = 1e-12 if dtype == torch.float64 else 1e-6
    near(arborescence.log_partition(values), [np.logaddexp(np.log(2.0) - 34.0, -68.0)], tol)
    near(arborescence.marginals(values).sum((1, 2)), [2.0], 1e-6)


def test_a_divergence_is_infinite_where_the_other_forbids_an_output(kind):
    """And in the other direction, of P without some outputs from P, it is log Z of P less that of the rest."""
    case = drawn(kind)
    x, *rest = case.scores
    less = x.clone()
    less[0, 0, case.ask("best").labels[0, 0]] = -torch.inf
    assert case.ask("kl", less, *rest)[0] == torch.inf
    near(case.ask("kl", less, *rest)[1:], np.zeros(len(x) - 1), 1e-12)
    apart = case.ask("log_partition") - case.ask("log_partition", scores=(less, *rest))
    near(case.ask("kl", *case.scores, scores=(less, *rest)), apart.numpy(), 1e-12)


def test_derivatives_are_those_of_differences(kind):
    case = drawn(kind)
    given = tuple(torch.where(x > -torch.inf, x, -2.0).requires_grad_() for x in case.scores)
    others = tuple(0.5 * x.detach() for x in given)

    def ask(name: str, *more: Any, **options: Any) -> Any:
        return lambda *x: case.ask(name, *more, scores=x, **options)

    for function in (ask("log_partition", mu=0.6), ask("marginals"), ask("entropy"), ask("kl", *others)):
        assert torch.autograd.gradcheck(function, given, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, given, fast_mode=True)
    for name in ("crf_loss", "hinge_loss"):
        assert torch.autograd.gradcheck(ask(name, case.gold), given, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradcheck(ask("smooth_max", TopK(3), 0.5), given, fast_mode=True)
    assert torch.autograd.gradcheck(ask("smooth_hinge_loss", case.gold, SquaredL2(), 0.5), given, fast_mode=True)
    plain = _listed(case.ask("max_marginals", scores=given))[0]
    with pytest.raises(RuntimeError, match="this derivative is not there"):
        plain[plain > -torch.inf].sum().backward()
    with pytest.raises(RuntimeError, match="this derivative is not there"):
        torch.func.jvp(ask("max_marginals"), given, others)


FIRST = ["log_partition", "marginals", "best", "topk", "entropy", "kl", "smooth_max", "crf_loss", "hinge_loss"]


@pytest.mark.parametrize("kind", KINDS[-3:])
def test_transforms_and_compiled_programs_give_the_same(kind):
    case = drawn(kind)
    x, *rest = (torch.where(x > -torch.inf, x, -2.0) for x in case.scores)
    many = torch.stack([x, 2 * x])
    more = {"kl": (0.5 * x, *rest), "topk": (2,), "smooth_max": (TopK(2), 0.5), "crf_loss": (case.gold,),
            "hinge_loss": (case.gold,)}  # fmt: skip
    for name in (*FIRST, "max_marginals"):

        def ask(x: Any, name: str = name) -> Any:
            answer = case.ask(name, *more.get(name, ()), scores=(x, *rest))
            return answer if isinstance(answer, torch.Tensor) else answer[0]

        found = torch.func.vmap(ask)(many)
        assert torch.equal(found[1], ask(2 * x))
        if name in FIRST:
            slopes = torch.func.vmap(torch.func.jacrev(ask))(many)
            assert torch.allclose(slopes[1], torch.autograd.functional.jacobian(ask, 2 * x), equal_nan=False)
        if name in ("log_partition", "marginals", "entropy"):
            assert torch.allclose(torch.func.jacfwd(ask)(x), torch.func.jacrev(ask)(x))


@pytest.mark.beyond("compiles")
@pytest.mark.parametrize("kind", KINDS[-3:])
def test_compiled_programs_give_the_same(kind):
    torch.compiler.reset()
    case = drawn(kind)
    y, other = case.gold, tuple(0.5 * x for x in case.scores)

    def ask(*x: Any) -> Any:
        case_of = functools.partial(case.ask, scores=x)
        sums = case_of("kl", *other) + case_of("crf_loss", y) + case_of("hinge_loss", y)
        return sums + case_of("smooth_max", TopK(2), 0.5), case_of("best").labels, case_of("sample", 3)

    for grad in (True, False):
        given, plain = ([x.clone().requires_grad_(grad) for x in case.scores] for _ in range(2))
        a, labels, samples = torch.compile(ask, fullgraph=True, backend="aot_eager")(*given)
        b, others, _ = ask(*plain)
        assert torch.allclose(a, b) and torch.equal(labels, others) and samples.shape == (len(y), 3, 4)
        if grad:
            a.sum().backward(), b.sum().backward()
            assert all(torch.allclose(u.grad, v.grad) for u, v in zip(given, plain, strict=True))
    given = [x.clone().requires_grad_() for x in case.scores]
    shares = torch.compile(lambda *x: _listed(case.ask("marginals", scores=x))[0], fullgraph=True, backend="aot_eager")
    with pytest.raises(RuntimeError, match="this derivative is not there"):
        shares(*given).sum().backward()


@pytest.mark.parametrize("n", [3, 0])
def test_examples_have_any_number_of_leading_axes(n):
    """Also none; an example without positions has one output, of score 0."""
    draw = np.random.default_rng(0).normal
    values, unary, pairs = (torch.tensor(draw(size=size)) for size in ((2, 3, n, n + 1), (2, 3, n, 2), (2, 2)))
    for of, x, more in ((chain, unary, (pairs,)), (tree, unary, (pairs, np.arange(n) - 1)), (arborescence, values, ())):
        y = of.best(-x, *more).labels
        for name, extra in (
            ("log_partition", ()), ("entropy", ()), ("smooth_max", (SquaredL2(), 0.5)), ("crf_loss", (y,)),
            ("hinge_loss", (y,)), ("score", (y,)),
        ):  # fmt: skip
            whole, ask = getattr(of, name)(x, *more, *extra), functools.partial(getattr(of, name), x[1, 2], *more)
            one = ask(*(e[1, 2] if isinstance(e, torch.Tensor) else e for e in extra))
            assert whole.shape == (2, 3) and one.shape == () and torch.allclose(whole[1, 2], one)
            assert n or torch.all(whole == 0)
        k_best, samples = of.topk(x[1, 2], *more, 2), of.sample(x[1, 2], *more, 4)
        assert torch.equal(k_best.labels, of.topk(x, *more, 2).labels[1, 2]) and samples.shape == (4, n)
        assert int(k_best.count) == (2 if n else 1) and of.sample(x, *more, 4).shape == (2, 3, 4, n)


def test_a_dependency_crf_is_the_trees_of_its_scores():
    torch.manual_seed(1)  # rectified units may be 0 throughout, and then have no gradient
    lengths, heads = torch.tensor(LENGTHS), torch.tensor(HEADS)
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
    "heads: expected 0 or a token on the mask, got 1 at token 2 of example 1": lambda v, n, y: arborescence.score(
        v, 0 * y + 1, mask=y != 0),
    "heads: expected a tree, got a cycle above token 1 of example 0": lambda v, n, y: arborescence.score(
        v, torch.tensor([2, 1, 0, 0]).expand(4, 4)),
    "heads: expected a single token of head 0, got 4 in example 0": lambda v, n, y: arborescence.crf_loss(
        v, 0 * y, single_root=True),
    "single_root: expected True or False, got 1": lambda v, n, y: arborescence.sample(v, single_root=1),
    "mask and lengths: expected one of them, got both": lambda v, n, y: arborescence.topk(v, 2, mask=y > 0, lengths=n),
    "other_values: expected torch.float64": lambda v, n, y: arborescence.kl(v, v.float()),
    r"other_values: expected shape \(4, 4, 5\), got \(1, 4, 5\)": lambda v, n, y: arborescence.kl(v, v[:1]),
    "cost: expected a finite number >= 0, got -1": lambda v, n, y: arborescence.hinge_loss(v, 0 * y, -1.0),
    "size: expected an integer >= 1": lambda v, n, y: arborescence.sample(v, 0),
    "mu: expected a finite number > 0": lambda v, n, y: arborescence.marginals(v, mu=-1.0),
    r"encodings: expected shape \(batch, n, 3\), got \(4, 4, 5\)": lambda v, n, y: DependencyCRF(3).scores(v),
    "size: expected an integer >= 1, got 0": lambda v, n, y: DependencyCRF(0),
    "reduction: expected one of": lambda v, n, y: DependencyCRF(5)(v.float(), y, n, "max"),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    values = torch.tensor(np.random.default_rng(0).normal(size=(4, 4, 5)))
    with pytest.raises((ValueError, TypeError), match=message):
        WRONG[message](values, torch.tensor(LENGTHS), torch.tensor(HEADS))


def test_everything_forbidden_is_infeasible(kind):
    case = drawn(kind)
    none = [x - torch.inf for x in case.scores]
    for ask in (("log_partition",), ("best",), ("sample",), ("entropy",), ("smooth_max", TopK(2), 1.0)):
        with pytest.raises(InfeasibleError, match="forbidden"):
            case.ask(*ask, scores=none)
    empty = torch.tensor([len(y) == 1 and bool((y == -1).all()) for y in case.outputs])  # without tokens: one output
    assert torch.equal(case.ask("topk", 2, scores=none).count, empty.long())
    assert all(torch.all(x == -torch.inf) for x in _listed(case.ask("max_marginals", scores=none)))
