"""SparseMAP in layers: its marginals are those of its loss, and its Jacobian is right where scores tie."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.layers.minibatches import CASES

torch = pytest.importorskip("torch")

from conformance.layers.programs import Program  # noqa: E402
from conformance.layers.structures import call, functions  # noqa: E402
from diptych.layers.torch import arborescence, chain, matching, tree  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself
TIED = {  # scores of 0
    "chain": (partial(chain.sparsemap, mu=0.7), [(2, 3, 2), (2, 2, 2, 2)]),
    "tree": (partial(tree.sparsemap, parents=[2, -1, 1], mu=0.7), [(2, 3, 2), (2, 2)]),
    "one root": (partial(arborescence.sparsemap, single_root=True, lengths=torch.tensor([3, 2])), [(2, 3, 4)]),
    "wide matchings": (partial(matching.sparsemap, mu=2.0), [(2, 2, 3)]),
    "tall matchings": (partial(matching.sparsemap, lengths=torch.tensor([[3, 2], [1, 1]])), [(2, 4, 2)]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_of_the_loss_is_the_marginals_less_the_parts(case):
    """It is >= 0, and 0 for the best output where this is better than others by mu of their parts."""
    program = Program(case)
    given = [x.clone().requires_grad_() for x in program.fields]
    loss = program.of("sparsemap_loss")(*given)
    assert torch.all(loss >= 0) and loss.sum() > 0
    slope = torch.autograd.grad(loss.sum(), given[0])[0]
    parts = torch.autograd.grad(program.of("score")(*given).sum(), given[0])[0]
    assert torch.allclose(slope, program.of("sparsemap")(*given) - parts, rtol=0, atol=1e-12)
    far = [1000.0 * x for x in program.fields]
    best = call(functions("torch-autograd", program.kind).best, far, **program.where)
    program.batch.labels[:] = best.labels.numpy()
    assert torch.all(program.of("sparsemap_loss")(*far).abs() < 1e-9)


@pytest.mark.parametrize("name", TIED)
def test_the_jacobian_is_right_where_all_scores_tie(name):
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
    with pytest.raises(ValueError, match="every output of example 1 is forbidden"):
        matching.sparsemap(torch.stack([torch.zeros(2, 2), torch.full((2, 2), -torch.inf)]))
