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
from conformance.optimizers.table import (
    OPTIMISERS,
    RUNS,
    chains,
    flat,
    kernels,
    loss_of,
    objective_of,
    run,
    short,
    takes,
    unit,
    value,
)
from conformance.sines import sines
from conformance.tolerances import close
from reference.bounds import Corollary18


def problem_of(backend, case, made=None):
    """The objective of a case: over sequences, or scores that are not linear, or kernels."""
    name, _, kind = case
    if name == "prox_linear":
        made = sines(backend, np.random.default_rng(5), n=4, amplitude=4.0)
    return kernels(backend) if name == "mkl" else loss_of(backend, kind, *(made or chains(backend)))


def called(backend, case, objective, passes, **more):
    """The result of so many passes, with the options of the case and more."""
    name, options, _ = case
    start = [np.random.default_rng(5).normal(size=3)] if name == "prox_linear" else []
    options = {unit(name): passes, **({"rng": 4} if "rng" in takes(name) else {}), **options, **more}
    return run(backend, name, objective, *start, **options)


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


def rows(result):
    """The history without its seconds, which are never the same."""
    return [{**row.as_dict(), "seconds": None} for row in result.history]


def same(one, two):
    assert rows(one) == rows(two) and np.array_equal(flat(one.x), flat(two.x))
    assert (one.fun, one.nit, one.certificate, one.message) == (two.fun, two.nit, two.certificate, two.message)
    assert all(np.array_equal(getattr(one, name, 0), getattr(two, name, 0)) for name in ("norms", "beta"))
    assert (one.success, one.oracle_calls, one.iterate) == (two.success, two.oracle_calls, two.iterate)


def cut_in_two(backend, case, objective, file, passes=(3, 8)):
    first, whole = passes
    uncut = called(backend, case, objective, whole)
    before = called(backend, case, objective, first, checkpoint=file)
    after = called(backend, case, objective, whole, resume=file, checkpoint=file)
    same(uncut, after)
    assert rows(after)[: before.history[-1].epoch] == rows(before)
    seconds = [row.seconds for row in after.history]
    assert seconds == sorted(seconds) and seconds[: len(before.history)] == [row.seconds for row in before.history]
    same(after, called(backend, case, objective, whole, resume=file))  # nothing is left to do
    for other in ({"lam": 0.2}, *([{"eta": 0.125}] if case[0] == "prox_linear" else [])):
        with pytest.raises(ValueError, match="npz is of a run with (lam|penalty|regularizer|eta) = "):
            called(backend, case, objective, whole, resume=file, **other)
    return before


@pytest.mark.parametrize("case", RUNS, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[1].values()))}")
def test_a_run_that_goes_on_is_one_run(backend, tmp_path, case):
    """Passes 1..3, then 4..8 by another process's means: bit for bit passes 1..8 at once."""
    before = cut_in_two(backend, case, problem_of(backend, case), tmp_path / "run.npz")
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
    cut_in_two(backend, case, problem_of(backend, case, make(backend)), tmp_path / "run.npz", (2, 4))


@pytest.mark.parametrize("case", [RUNS[0], RUNS[2], RUNS[9], RUNS[11], RUNS[17]], ids=lambda case: case[0])
def test_arrays_come_back_where_they_were(space, tmp_path, case):
    """In the reference: in their namespace, device and dtype, bit for bit."""
    objective = problem_of(reference, case, chains(reference, like=space.put(np.zeros(0))))
    file, uncut = tmp_path / "run.npz", called(reference, case, objective, 4)
    before = called(reference, case, objective, 2, checkpoint=file)
    after = called(reference, case, objective, 4, resume=file)
    assert rows(uncut) == rows(after) and rows(before) == rows(after)[:2]
    assert type(after.x) is type(uncut.x) and after.x.dtype == uncut.x.dtype and after.x.device == uncut.x.device
    assert np.array_equal(space.get(after.x), space.get(uncut.x))


@pytest.mark.parametrize("case", [RUNS[0], RUNS[2], RUNS[4], RUNS[17]], ids=lambda case: case[0])
def test_either_panel_goes_on_from_the_other(tmp_path, case):
    """Where the state has one form in both; where it has not, the error names the panel."""
    found = []
    for first, second in ((reference, accelerated), (accelerated, reference)):
        file = tmp_path / f"{first.__name__}.npz"
        called(first, case, problem_of(first, case), 2, checkpoint=file)
        found.append(called(second, case, problem_of(second, case), 5, resume=file))
    close(found[0].x, found[1].x)
    reference.bcfw(loss_of(reference, "hinge", *chains(reference)), lam=0.1, checkpoint=tmp_path / "b.npz", epochs=1)
    with pytest.raises(ValueError, match=r"b.npz is of the panel reference in its own form: resume it there"):
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
    for name in ("value", "value_and_gradient", "linearize", "corners"):
        if hasattr(objective, name):
            setattr(objective, name, counted(getattr(objective, name)))
    return objective


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("case", [RUNS[i] for i in (0, 2, 4, 9, 11, 13, 16, 17)], ids=lambda case: case[0])
def test_an_interrupt_returns_the_best_iterate(backend, tmp_path, monkeypatch, case, after):
    """Wherever it lands: weights, objective and gap belong together, and the checkpoint goes on to where an uncut
    run comes.
    """
    objective = problem_of(backend, case)
    uncut, empty = called(backend, case, objective, 6), called(backend, case, objective, 0)
    fun = {row.objective: row for row in uncut.history}
    moments, rows_met = [1, 2, 3, 5, 8, 13, 17, 22, 40, 70, 130, 240], set()
    for at in moments:
        file = tmp_path / f"{at}.npz"
        with monkeypatch.context() as patched:
            watched = interrupted(problem_of(backend, case), at, after, patched)
            found = called(backend, case, watched, 6, checkpoint=file)
        if not found.interrupted:
            same(found, uncut)
            break
        assert not found.success and found.message.startswith("interrupted after ")
        assert rows(found) == rows(uncut)[: len(found.history)]
        rows_met.add(len(found.history))
        if found.history:
            assert found.fun == min(row.objective for row in found.history)
            row = fun[found.fun]
            close(found.fun, value(case[0], objective, found.x, case[1].get("mu")))
            assert isinstance(found.certificate, str) or found.certificate == row.gap
            same(uncut, called(backend, case, objective, 6, resume=file))
        else:
            assert np.array_equal(found.x, empty.x) and (np.isnan(found.fun) or found.fun == empty.fun)
            assert found.nit == 0
            if file.exists():  # the start has been evaluated
                same(uncut, called(backend, case, objective, 6, resume=file))
    assert len(rows_met) > 1, "interrupts should land in several epochs"


@pytest.mark.parametrize("case", [RUNS[i] for i in (0, 2, 4, 9, 11, 13, 16, 17)], ids=lambda case: case[0])
def test_a_run_of_no_epoch_has_a_checkpoint(backend, tmp_path, case):
    objective = problem_of(backend, case)
    called(backend, case, objective, 0, checkpoint=tmp_path / "run.npz")
    same(called(backend, case, objective, 3), called(backend, case, objective, 3, resume=tmp_path / "run.npz"))


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_best_row_and_not_the_last(backend, tmp_path, name):
    """Ctrl-C in a callback: the row is in the history, the weights are those of the lowest objective so far, and the
    run goes on from its checkpoint.
    """
    seen, objective = [], objective_of(backend, name)

    def callback(row, w):
        seen.append((row, flat(w)))
        later = name == "sgd" and row.objective <= min(before.objective for before, _ in seen)
        if len(seen) >= 3 and not later:
            raise KeyboardInterrupt

    options, passes = ({"step_size": 3.0, "average": "last"}, 20) if name == "sgd" else ({}, 5)  # sgd: up and down
    file = {"checkpoint": tmp_path / "run.npz"} if "checkpoint" in takes(name) else {}
    found = short(backend, name, objective, passes, callback=callback, **options, **file)
    best = min(seen, key=lambda each: each[0].objective)
    assert found.interrupted and not found.success and found.nit == len(seen)
    assert [row for row, _ in seen] == list(found.history) and found.fun == best[0].objective
    assert found.certificate == best[0].gap or isinstance(found.certificate, str)
    assert np.array_equal(flat(found.x), best[1])
    assert found.message.startswith(f"interrupted after {len(seen)} of {passes} {unit(name)}")
    if name == "sgd":
        assert best is not seen[-1] and "lowest objective" in found.message
    if file:
        after = short(backend, name, objective, passes, resume=file["checkpoint"], **options)
        same(short(backend, name, objective, passes, **options), after)
