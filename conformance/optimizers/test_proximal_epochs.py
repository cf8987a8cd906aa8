"""Compiled epochs of the online proximal algorithm: what rows of weights make up for later is what a loop over all
weights does at once.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.models.test_tagging import sentences
from conformance.specimens.learners import loss_of
from conformance.tolerances import close
from reference.optimizers.online_proximal import OnlineProximal
from reference.prox.composite import as_regularizer
from reference.training.counterparts import counterpart

F, L = 5, 3  # and two features more, of the start and the end
D = (F + 2) * L + L * L
ROWS = np.concatenate([np.repeat(np.arange(F + 2), L) // 2, np.full(L * L, 4)])
LABELS = np.concatenate([np.tile(np.arange(L), F + 2), np.full(L * L, -1)])
MIXED = np.random.default_rng(0).integers(-1, 4, D)
EVEN, CROSSING = [np.arange(D // 2), np.arange(D // 2, D)], [np.arange(20), np.arange(10, D)]

KERNELS = {
    "l1": lambda panel: panel.L1(0.03),
    "l1, all zero": lambda panel: panel.L1(1e5),
    "ridge": lambda panel: panel.HalfSquaredL2(0.3),
    "elastic net": lambda panel: panel.ElasticNet(panel.L1(0.02), 0.2),
    "l1, ridge, l1": lambda panel: [panel.L1(0.01), panel.HalfSquaredL2(0.2), panel.L1(0.02)],
    "group lasso": lambda panel: panel.L21(0.05, ROWS),
    "group lasso, weighted": lambda panel: panel.L21(0.05, ROWS, weights=[0.0, 1.0, 2.0, 0.5, 1.0]),
    "group lasso, by label": lambda panel: panel.L21(0.1, LABELS),
    "group lasso, groups anyhow": lambda panel: panel.L21(0.1, MIXED),
    "group lasso, groups that come and go": lambda panel: panel.L21(0.6, ROWS),
    "squared mixed norm": lambda panel: panel.SquaredL21(0.02, ROWS),
    "squared mixed norm, by label": lambda panel: panel.SquaredL21(0.1, LABELS),
    "squared mixed norm, an empty group": lambda panel: panel.SquaredL21(0.3, [EVEN[0], [], EVEN[1][:9]]),
    "squared mixed norm, sigma in the prox": lambda panel: panel.ElasticNet(panel.SquaredL21(0.1, ROWS), 0.3),
    "projected": lambda panel: panel.L21Ball(0.7, ROWS),
    "projected, a point": lambda panel: panel.L21Ball(0.0, ROWS),
    "projected, l2": lambda panel: panel.L2Ball(0.5),
    "squared mixed norm in a ball": lambda panel: [panel.SquaredL21(0.05, ROWS), panel.L2Ball(0.3)],
    "elastic net of kernels": lambda panel: panel.ElasticNetMKL(0.02, 0.1, ROWS),
    "non-sparse kernels": lambda panel: panel.NonSparseMKL(0.1, 1.5, ROWS),
    "non-sparse kernels, q > 2": lambda panel: panel.NonSparseMKL(0.1, 3.0, MIXED),
    "groups that cross": lambda panel: [panel.L21(0.02, [CROSSING[0]]), panel.L21(0.03, [CROSSING[1]])],
    "a tree": lambda panel: panel.TreeGroupLasso([[0, 1], np.arange(12), np.arange(D)], weights=[0.05, 0.03, 0.02]),
}  # fmt: skip
LOOPS = {
    "sparse group lasso": lambda panel: panel.SparseGroupLasso(0.01, EVEN, 0.02),
    "l1 in a ball": lambda panel: [panel.L1(0.01), panel.L2Ball(0.3)],
    "squared l1": lambda panel: panel.SquaredL1(0.01),
    "l1 ball": lambda panel: panel.L1Ball(0.5),
}
REGULARIZERS = KERNELS | LOOPS
SCHEDULES = {
    "constant": lambda t, sigma: np.full(len(t), 0.2),
    "1/(sigma t)": lambda t, sigma: 1.0 / ((sigma or 0.3) * t),  # gamma sigma = 1 in the first round
    "1/sqrt(t)": lambda t, sigma: 0.5 / np.sqrt(t),
}


def chains(panel, loss, *, n=14, scale=1.0, integer=False, seed=3):
    """Sequences with sparse features, some of them empty; costs without ties, so that outputs have none where
    weights do.
    """
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for length in rng.integers(0, 6, n):
        x = rng.integers(-2, 3, (length, F)) if integer else rng.normal(size=(length, F))
        X.append(scale * (rng.random((length, F)) < 0.4) * x)
        Y.append(rng.integers(0, L, length))
    cost = scale * rng.uniform(0.5, 1.5, (L, L)) * (1 - np.eye(L))
    model = panel.SequenceModel(F, L, cost=cost)
    return loss_of(panel, loss, model, model.pack(X, Y))


def box_of(regularizer, steps, sigma, mu, average):
    return OnlineProximal(as_regularizer(regularizer), steps, sigma, mu, 1, average)


def epoch_of(objective, monkeypatch, kernel):
    """A pass of a box's counterpart, which must not be the loop where ``kernel``."""

    def refused(*arguments, **options):
        raise AssertionError("the loop was called")

    def run(box, state, order):
        ours = counterpart(box, objective)
        if ours is box:  # the reference runs the loop itself: there is nothing to hold against it
            pytest.skip("this backend has no epochs of its own")
        with monkeypatch.context() as patched:
            if kernel:
                patched.setattr(OnlineProximal, "sweep", refused)
            return ours.sweep(objective, state, order)

    return run


def both(objective, run, regularizer, steps, *, sigma=0.0, average="uniform", scale=1.0, repeat=1, rtol=1e-9):
    """Two epochs by either, from a start at random; weights and means must be the same, up to a share of the largest
    weight for those that cancel.
    """
    rng, mu = np.random.default_rng(5), 0.3 if type(objective.smoothing).__name__ == "TopK" else None
    box = box_of(regularizer, steps, sigma, mu, average)
    one = two = box.init(objective, scale * np.random.default_rng(1).normal(size=objective.zeros().shape))
    for _ in range(2):
        order = np.concatenate([rng.permutation(objective.n) for _ in range(repeat)])
        one = run(box, one, order)
        two = box.sweep(objective, two, order)
        for ours, theirs in ((one.x, two.x), (one.mean, two.mean)):
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-4 * rtol * np.max(np.abs(theirs), initial=0.0))
    assert one.t == two.t == 2 * objective.n * repeat
    return one


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("sigma", [0.0, 0.5])
@pytest.mark.parametrize("average", ["last", "uniform"])
def test_the_kernel_is_the_loop(backend, monkeypatch, kind, sigma, average):
    """By each schedule."""
    for steps in SCHEDULES.values():
        objective = chains(backend, "hinge")
        run = epoch_of(objective, monkeypatch, True)
        both(objective, run, KERNELS[kind](backend), steps, sigma=sigma, average=average)


@pytest.mark.parametrize("loss", ["log loss", "top-k"])
@pytest.mark.parametrize("kind", ["elastic net", "group lasso", "squared mixed norm, by label", "groups that cross"])
def test_so_it_is_of_other_losses(backend, monkeypatch, loss, kind):
    objective = chains(backend, loss)
    run = epoch_of(objective, monkeypatch, True)
    both(objective, run, KERNELS[kind](backend), SCHEDULES["constant"], sigma=0.2)


@pytest.mark.parametrize("kind", ["l1", "elastic net", "squared mixed norm", "group lasso, by label"])
def test_rows_that_wait_for_long(backend, monkeypatch, kind):
    """Rounds by the thousand, in which a row of weights is touched now and then; scales that fall by many orders."""
    objective = chains(backend, "hinge", n=3)
    run = epoch_of(objective, monkeypatch, True)
    for steps, sigma in ((lambda t, sigma: np.full(len(t), 1e-3), 0.0), (lambda t, sigma: np.full(len(t), 0.4), 1.5)):
        both(objective, run, KERNELS[kind](backend), steps, sigma=sigma, repeat=300)


@pytest.mark.parametrize("kind", ["l1", "group lasso", "squared mixed norm"])
@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e-150, 1e150])
def test_at_any_scale(backend, monkeypatch, kind, scale):
    """Features, costs and weights huge or tiny: where squares would leave the range, the loop runs."""
    objective = chains(backend, "log loss", scale=scale)
    run = epoch_of(objective, monkeypatch, False)
    steps = lambda t, sigma: np.full(len(t), min(0.01, 0.01 / scale / scale))  # noqa: E731
    both(objective, run, KERNELS[kind](backend), steps, average="last", scale=min(1.0, 1 / scale), rtol=1e-8)


def test_ties_and_groups_at_zero(backend, monkeypatch):
    """Features of whole numbers and steps of powers of 2: thresholds are met exactly, groups vanish and come back,
    in both alike.
    """
    objective = chains(backend, "hinge", integer=True)
    run = epoch_of(objective, monkeypatch, True)
    steps = lambda t, sigma: np.full(len(t), 0.25)  # noqa: E731
    for regularizer in (backend.L1(0.5), backend.L1(1.0), backend.L21(1.0, ROWS), backend.SquaredL21(4.0, ROWS)):
        found = both(objective, run, regularizer, steps)
        assert np.any(found.x == 0) and np.any(found.mean != 0)
    gone = both(objective, run, backend.L21(1e3, ROWS), steps, average="last")
    assert np.all(gone.x == 0)


def test_a_group_whose_weights_cancel(backend, monkeypatch):
    """One example, hinge and a step as long as the weights: the norm's recursion loses all digits, and the norm is 0
    all the same.
    """
    model = backend.SequenceModel(1, 2, start_stop=False)
    objective = backend.StructuralHinge(model, model.pack([np.ones((1, 1))], [[0]]))
    run = epoch_of(objective, monkeypatch, True)
    for scale in (1.0, 0.1, 1.0 / 3.0, 1.0 + 1e-9):
        start = scale * np.array([-1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
        group = [[0, 1]]
        for regularizer in (
            backend.L21(1e-12, group),
            backend.NonSparseMKL(1e-3, 1.5, group),
            backend.L21Ball(5.0, group),
        ):
            box = box_of(regularizer, lambda t, sigma, scale=scale: np.array([scale, 0.3]), 0.0, None, "last")
            state, order = box.init(objective, start), np.array([0, 0])
            close(run(box, state, order).x, box.sweep(objective, state, order).x)


@pytest.mark.parametrize("kind", LOOPS)
def test_what_rows_cannot_wait_for_runs_the_loop(backend, monkeypatch, kind):
    objective = chains(backend, "hinge")
    both(objective, epoch_of(objective, monkeypatch, False), LOOPS[kind](backend), SCHEDULES["constant"])
    with pytest.raises(AssertionError, match="the loop was called"):
        both(objective, epoch_of(objective, monkeypatch, True), LOOPS[kind](backend), SCHEDULES["constant"])


@pytest.mark.parametrize("kind", ["l1", "elastic net", "group lasso, weighted", "squared mixed norm in a ball"])
def test_taggers_with_the_pairs_of_their_data(backend, monkeypatch, kind):
    """Whose weights of single pairs lie beside rows, and whose transitions may be forbidden."""
    X, Y = sentences(np.random.default_rng(2), 5)
    model = backend.TaggingModel.of(X, Y, ["word", "tag[-1..1]"], transitions="bio")
    data = model.pack(X, Y)
    for loss in ("hinge", "log loss"):  # the labels' scores at the start have no ties, and no step makes all weights 0
        objective = loss_of(backend, loss, model, data)
        d = model.size
        numbers = np.random.default_rng(1).integers(-1, 5, d)
        numbers[:5] = np.arange(5)
        regularizer = {
            "l1": backend.L1(0.03),
            "elastic net": backend.ElasticNet(backend.L1(0.02), 0.2),
            "group lasso, weighted": backend.L21(0.05, numbers, weights=np.arange(5.0)),
            "squared mixed norm in a ball": [backend.SquaredL21(0.05, numbers), backend.L2Ball(0.8)],
        }[kind]
        run = epoch_of(objective, monkeypatch, True)
        for steps in (SCHEDULES["constant"], SCHEDULES["1/sqrt(t)"]):
            both(objective, run, regularizer, steps, sigma=0.5)
