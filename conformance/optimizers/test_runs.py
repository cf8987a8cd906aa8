"""Runs that are cut in two, interrupted and gone on with: histories and weights are those of a run that nothing
happened to.
"""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest

import accelerated
import reference
from accelerated.counterparts import TABLE
from conformance.models.test_parsing import planted
from conformance.models.test_tree_model import make_trees
from conformance.tolerances import close
from reference.bounds import Corollary18

# optimiser, its options, the loss
RUNS = [
    ("sgd", {"average": "weighted"}, "log loss"),
    ("sgd", {"average": "last", "batch_size": 2, "step_size": 0.1}, "hinge"),
    ("svrg", {}, "log loss"),
    ("svrg", {"mu": 0.3, "average": "uniform"}, "entropy"),
    ("casimir", {}, "entropy"),
    ("casimir", {"mu": 0.5, "warm_start": "extrapolated"}, "entropy"),
    ("casimir", {"inner": "gradient"}, "log loss"),
    ("casimir", {"inner": "saga", "schedule": Corollary18(0.1, 0.2, 1.0)}, "entropy"),
    ("casimir_svrg_adapt", {}, "entropy"),
    ("bcfw", {"tol": None, "capacity": 2}, "hinge"),
    ("bcfw", {"tol": None, "average": "weighted", "cached_passes": 0}, "hinge"),
    ("exponentiated_gradient", {"tol": None}, "log loss"),
    ("exponentiated_gradient", {"tol": None, "mu": 0.4, "sampling": "permutation"}, "entropy"),
    ("multisample", {"tol": None, "k": 2}, "hinge"),
    ("multisample", {"tol": None, "k": 2, "sampler": "gibbs", "update": "exact", "average": "uniform"}, "hinge"),
    ("multisample", {"tol": None, "k": 2, "online": True}, "hinge"),
    ("cutting_planes", {"tol": None, "capacity": 4}, "hinge"),
    ("online_proximal", {"step_size": 0.2, "average": "uniform"}, "log loss"),
    ("online_proximal", {"step_size": 0.1, "sigma": 0.2, "batch_size": 2}, "hinge"),
]


def run_of(panel, optimiser):
    """The optimiser, as a function of lam: the weight of the group lasso where it takes regularizers."""
    if optimiser != "online_proximal":
        return getattr(panel, optimiser)

    def run(objective, *, lam, **options):
        return panel.online_proximal(objective, panel.L21(lam, np.arange(objective.model.size) // 4), **options)

    return run


def chains(backend, like=None, seed=7):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in (2, 3, 1, 3, 2)]
    model = backend.SequenceModel(3, 3)
    return model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X], like=like)


def classes(backend):
    rng = np.random.default_rng(8)
    model = backend.MulticlassModel(n_features=4, labels=3)
    return model, model.pack(rng.normal(size=(7, 4)), rng.integers(0, 3, 7))


def trees(backend):
    X, Y, _ = make_trees(5, np.random.default_rng(9), largest=4)
    model = backend.TreeModel(4, 3)
    return model, model.pack(X, Y)


def sentences(backend):
    _, X, Y, _ = planted(np.random.default_rng(10), 5)
    model = backend.ParsingModel([("h.tag", "m.tag"), ("h.tag", "direction")], bits=7)
    return model, model.pack(X, Y)


def loss_of(backend, kind, model, data):
    if kind == "log loss":
        return backend.LogLoss(model, data)
    return backend.StructuralHinge(
        model, data, smoothing=backend.smoothings.Entropy() if kind == "entropy" else backend.smoothings.Max()
    )


def rows(result):
    """The history without its seconds, which are never the same."""
    return [{**row.as_dict(), "seconds": None} for row in result.history]


def same(one, two):
    assert rows(one) == rows(two) and np.array_equal(np.asarray(one.x), np.asarray(two.x))
    assert (one.fun, one.nit, one.certificate, one.message) == (two.fun, two.nit, two.certificate, two.message)
    assert (one.success, one.oracle_calls, one.iterate) == (two.success, two.oracle_calls, two.iterate)


def cut_in_two(backend, optimiser, objective, options, file, epochs=(3, 8)):
    run, first, whole = run_of(backend, optimiser), *epochs
    options = {"lam": 0.1, **options} | ({} if optimiser == "cutting_planes" else {"rng": 4})
    uncut = run(objective, epochs=whole, **options)
    before = run(objective, epochs=first, checkpoint=file, **options)
    after = run(objective, epochs=whole, resume=file, checkpoint=file, **options)
    same(uncut, after)
    assert rows(after)[: before.history[-1].epoch] == rows(before)
    seconds = [row.seconds for row in after.history]
    assert seconds == sorted(seconds) and seconds[: len(before.history)] == [row.seconds for row in before.history]
    same(after, run(objective, epochs=whole, resume=file, **options))  # nothing is left to do
    return before


@pytest.mark.parametrize("case", RUNS, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[1].values()))}")
def test_a_run_that_goes_on_is_one_run(backend, tmp_path, case):
    """Epochs 1..3, then 4..8 by another process's means: bit for bit epochs 1..8 at once."""
    optimiser, options, kind = case
    before = cut_in_two(backend, optimiser, loss_of(backend, kind, *chains(backend)), options, tmp_path / "run.npz")
    assert before.history and sorted(os.listdir(tmp_path)) == ["run.npz"]


def test_a_last_subproblem_cut_short_is_of_these_epochs(backend, tmp_path):
    """Subproblems solved until (26) holds: with more epochs the last one would have gone on, so the number is one of
    the options.
    """
    objective, file = loss_of(backend, "entropy", *chains(backend)), tmp_path / "run.npz"
    options = {"lam": 0.1, "schedule": Corollary18(0.1, 0.2, 1.0), "stop": "gradient"}
    uncut = backend.casimir(objective, epochs=12, rng=4, **options)
    backend.casimir(objective, epochs=12, rng=4, checkpoint=file, callback=lambda row, w: row.epoch > 4, **options)
    same(uncut, backend.casimir(objective, epochs=12, rng=4, resume=file, **options))
    with pytest.raises(ValueError, match="run.npz is of a run with epochs = 12, this one has 20"):
        backend.casimir(objective, epochs=20, rng=4, resume=file, **options)


@pytest.mark.parametrize("make", [classes, trees, sentences])
@pytest.mark.parametrize("case", [RUNS[0], RUNS[9], RUNS[11], RUNS[13], RUNS[17]], ids=lambda case: case[0])
def test_so_it_is_over_other_structures(backend, tmp_path, case, make):
    """Whose states have other forms: scores of tables and trees as points, packed trees as working sets."""
    optimiser, options, kind = case
    cut_in_two(backend, optimiser, loss_of(backend, kind, *make(backend)), options, tmp_path / "run.npz", (2, 4))


@pytest.mark.parametrize("case", [RUNS[0], RUNS[2], RUNS[9], RUNS[11], RUNS[17]], ids=lambda case: case[0])
def test_arrays_come_back_where_they_were(space, tmp_path, case):
    """In the reference: in their namespace, device and dtype, bit for bit."""
    optimiser, options, kind = case
    model, data = chains(reference, like=space.put(np.zeros(0)))
    objective, options = loss_of(reference, kind, model, data), {"lam": 0.1, "rng": 4, **options}
    run, file = run_of(reference, optimiser), tmp_path / "run.npz"
    uncut, before = run(objective, epochs=4, **options), run(objective, epochs=2, checkpoint=file, **options)
    after = run(objective, epochs=4, resume=file, **options)
    assert rows(uncut) == rows(after) and rows(before) == rows(after)[:2]
    assert type(after.x) is type(uncut.x) and after.x.dtype == uncut.x.dtype and after.x.device == uncut.x.device
    assert np.array_equal(space.get(after.x), space.get(uncut.x))


@pytest.mark.parametrize("case", [RUNS[0], RUNS[2], RUNS[4], RUNS[17]], ids=lambda case: case[0])
def test_either_panel_goes_on_from_the_other(tmp_path, case):
    """Where the state has one form in both; where it has not, the error names the panel."""
    optimiser, options, kind = case
    options, found = {"lam": 0.1, "rng": 4, **options}, []
    for first, second in ((reference, accelerated), (accelerated, reference)):
        file = tmp_path / f"{first.__name__}.npz"
        run_of(first, optimiser)(loss_of(first, kind, *chains(first)), epochs=2, checkpoint=file, **options)
        found.append(
            run_of(second, optimiser)(loss_of(second, kind, *chains(second)), epochs=5, resume=file, **options)
        )
    close(found[0].x, found[1].x)
    reference.bcfw(loss_of(reference, "hinge", *chains(reference)), lam=0.1, checkpoint=tmp_path / "b.npz", epochs=1)
    with pytest.raises(
        ValueError, match=r"b.npz has the state of reference.optimizers.bcfw.BCFW, this run is acc.*panel"
    ):
        accelerated.bcfw(loss_of(accelerated, "hinge", *chains(accelerated)), lam=0.1, resume=tmp_path / "b.npz")


def interrupted(objective, at, after, patched):
    """The objective, which gets Ctrl-C at the given call of its functions and loops: before the call, or when it has
    changed what it changes.
    """
    calls = 0

    def counted(function):
        @functools.wraps(function)
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            mine = calls == at
            if mine and not after:
                raise KeyboardInterrupt
            answer = function(*arguments, **options)
            if mine:
                raise KeyboardInterrupt
            return answer

        return call

    for counterpart in {each for known in TABLE.values() for each in known if "sweep" in vars(each)}:
        patched.setattr(counterpart, "sweep", counted(counterpart.sweep))
    for name in ("value_and_gradient", "linearize", "corners"):
        setattr(objective, name, counted(getattr(objective, name)))
    return objective


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("case", [RUNS[i] for i in (0, 2, 4, 9, 11, 13, 16, 17)], ids=lambda case: case[0])
def test_an_interrupt_returns_the_best_iterate(backend, tmp_path, monkeypatch, case, after):
    """Wherever it lands: weights, objective and gap belong together, and the checkpoint goes on to where an uncut
    run comes.
    """
    optimiser, options, kind = case
    objective, run = loss_of(backend, kind, *chains(backend)), run_of(backend, optimiser)
    options = {"lam": 0.1, **options} | ({} if optimiser == "cutting_planes" else {"rng": 4})
    uncut, empty = run(objective, epochs=6, **options), run(objective, epochs=0, **options)
    fun = {row.objective: row for row in uncut.history}
    moments, rows_met = [1, 2, 3, 5, 8, 13, 17, 22, 40, 70, 130, 240], set()
    for at in moments:
        file = tmp_path / f"{at}.npz"
        with monkeypatch.context() as patched:
            watched = interrupted(loss_of(backend, kind, *chains(backend)), at, after, patched)
            found = run(watched, epochs=6, checkpoint=file, **options)
        if not found.interrupted:
            same(found, uncut)
            break
        assert not found.success and found.message.startswith("interrupted after ")
        assert rows(found) == rows(uncut)[: len(found.history)]
        rows_met.add(len(found.history))
        if found.history:
            assert found.fun == min(row.objective for row in found.history)
            row = fun[found.fun]
            close(found.fun, evaluated(backend, optimiser, kind, found.x, options))
            assert isinstance(found.certificate, str) or found.certificate == row.gap
            same(uncut, run(objective, epochs=6, resume=file, **options))
        else:
            assert np.array_equal(found.x, empty.x) and (np.isnan(found.fun) or found.fun == empty.fun)
            assert not file.exists() and found.nit == 0
    assert len(rows_met) > 1, "interrupts should land in several epochs"


def evaluated(backend, optimiser, kind, x, options):
    mu = 0.0 if optimiser == "casimir" and kind == "entropy" else options.get("mu")
    value = loss_of(backend, kind, *chains(backend)).value_and_gradient(x, None, mu)[0]
    if optimiser == "online_proximal":  # the group lasso of run_of
        return value + 0.1 * sum(np.linalg.norm(x[g : g + 4]) for g in range(0, len(x), 4))
    return value + 0.05 * x @ x


@pytest.mark.parametrize(
    "case", [*(RUNS[i] for i in (0, 2, 4, 9, 11, 13, 16, 17)), ("lbfgs", {}, "log loss")], ids=lambda case: case[0]
)
def test_the_best_row_and_not_the_last(backend, case):
    """Ctrl-C in a callback: the row is in the history, and the weights are those of the lowest objective so far."""
    optimiser, options, kind = case
    seen = []

    def callback(row, w):
        seen.append((row, w.copy()))
        later = optimiser == "sgd" and row.objective <= min(before.objective for before, _ in seen)
        if len(seen) >= 3 and not later:
            raise KeyboardInterrupt

    objective = loss_of(backend, kind, *chains(backend))
    if optimiser == "sgd":
        options = {"step_size": 3.0, "average": "last", "epochs": 50, "rng": 0}  # up and down
    found = run_of(backend, optimiser)(objective, lam=0.1, callback=callback, **options)
    best = min(seen, key=lambda each: each[0].objective)
    assert found.interrupted and [row for row, _ in seen] == list(found.history) and found.fun == best[0].objective
    assert np.array_equal(found.x, best[1]) and found.message.startswith(f"interrupted after {len(seen)} of")
    if optimiser == "sgd":
        assert best is not seen[-1] and "lowest objective" in found.message
