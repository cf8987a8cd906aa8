"""Runs that are cut in two, interrupted and gone on with: histories and weights are those of a run that nothing
happened to. Checkpoints: what differs, what is damaged, what writing costs, those of older versions.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import weakref
from pathlib import Path

import numpy as np
import pytest

import accelerated
import reference
from accelerated.counterparts import TABLE
from conformance.golden.problems import Problems
from conformance.specimens.learners import (
    LEARNERS,
    WAYS,
    case,
    chains,
    flat,
    loss_of,
    nonlinear,
    objective_of,
    run,
    seeded,
    short,
    takes,
    unit,
    value,
)
from conformance.tolerances import close
from reference.archives import read_npz
from reference.bounds import Corollary18
from reference.records import FORMAT
from reference.training.checkpoints import FORMER

ways = pytest.mark.parametrize(("name", "way"), WAYS, ids=map(case, WAYS))
FIRST = [
    name for name, learner in LEARNERS.items() if learner.ways and name not in ("mkl", "prox_linear", "solve_sparse")
]


def some(*names):
    """The first way of these learners."""
    return pytest.mark.parametrize(("name", "way"), [(name, LEARNERS[name].ways[0]) for name in names], ids=names)


def problem_of(backend, name, way, made=None):
    """The objective of a way: over sequences, or scores that are not linear, or kernels."""
    return objective_of(backend, name, None, way.loss, nonlinear(backend) if name == "prox_linear" else made)


def called(backend, name, way, objective, passes, **more):
    """The result of so many passes, with the options of the way and more."""
    start = [np.random.default_rng(5).normal(size=3)] if name == "prox_linear" else []
    return run(backend, name, objective, *start, **{unit(name): passes, **seeded(name, 4), **way.options, **more})


def rows(result):
    """The history without its seconds, which are never the same."""
    return [{**row.as_dict(), "seconds": None} for row in result.history]


def same(one, two):
    assert rows(one) == rows(two) and np.array_equal(flat(one.x), flat(two.x))
    assert (one.fun, one.nit, one.certificate, one.message) == (two.fun, two.nit, two.certificate, two.message)
    assert all(np.array_equal(getattr(one, name, 0), getattr(two, name, 0)) for name in ("norms", "beta"))
    assert (one.success, one.oracle_calls, one.iterate) == (two.success, two.oracle_calls, two.iterate)


def cut_in_two(backend, name, way, objective, file, passes=(3, 8)):
    go, (first, whole) = functools.partial(called, backend, name, way, objective), passes
    uncut, before = go(whole), go(first, checkpoint=file)
    after = go(whole, resume=file, checkpoint=file)
    same(uncut, after)
    assert rows(after)[: before.history[-1].epoch] == rows(before)
    seconds = [row.seconds for row in after.history]
    assert seconds == sorted(seconds) and seconds[: len(before.history)] == [row.seconds for row in before.history]
    same(after, go(whole, resume=file))  # nothing is left to do
    for other in (
        {"beta" if name == "solve_sparse" else "lam": 0.2},
        *([{"eta": 0.125}] if name == "prox_linear" else []),
    ):
        refusal = r"npz is of a run with (lam|beta|penalty|regularizer|eta) = |schedule: made for lam"
        with pytest.raises(ValueError, match=refusal):
            go(whole, resume=file, **other)
    return before


@ways
def test_a_run_that_goes_on_is_one_run(backend, tmp_path, name, way):
    """Passes 1..3, then 4..8 by another process's means: bit for bit passes 1..8 at once; so it is after none."""
    objective, file = problem_of(backend, name, way), tmp_path / "run.npz"
    if name in FIRST:
        called(backend, name, way, objective, 0, checkpoint=file)
        same(called(backend, name, way, objective, 3), called(backend, name, way, objective, 3, resume=file))
    before = cut_in_two(backend, name, way, objective, file)
    assert before.history and sorted(os.listdir(tmp_path)) == ["run.npz"]


def test_a_last_subproblem_cut_short_is_of_these_epochs(backend, tmp_path):
    """Subproblems solved until (26) holds: with more epochs the last one would have gone on, so the number is one of
    the options.
    """
    objective, file = objective_of(backend, "casimir"), tmp_path / "run.npz"
    options = {"lam": 0.1, "schedule": Corollary18(0.1, 0.2, 1.0), "stop": "gradient"}
    uncut = backend.casimir(objective, epochs=12, rng=4, **options)
    backend.casimir(objective, epochs=12, rng=4, checkpoint=file, callback=lambda row, w: row.epoch > 4, **options)
    same(uncut, backend.casimir(objective, epochs=12, rng=4, resume=file, **options))
    with pytest.raises(ValueError, match="run.npz is of a run with epochs = 12, this one has 20"):
        backend.casimir(objective, epochs=20, rng=4, resume=file, **options)


@pytest.mark.parametrize("model", ["classes", "trees", "parsing", "listed"])
@some("sgd", "bcfw", "exponentiated_gradient", "multisample", "lbfgs")
def test_so_it_is_over_other_structures(backend, tmp_path, name, way, model):
    """Whose states have other forms: scores of tables and trees as points, packed trees as working sets."""
    objective = problem_of(backend, name, way, Problems(backend).model(model))
    cut_in_two(backend, name, way, objective, tmp_path / "run.npz", (2, 4))


@some("sgd", "svrg", "bcfw", "exponentiated_gradient", "lbfgs")
def test_arrays_come_back_where_they_were(space, tmp_path, name, way):
    """In the reference: in their namespace, device and dtype, bit for bit."""
    objective = problem_of(reference, name, way, chains(reference, like=space.put(np.zeros(0))))
    file, go = tmp_path / "run.npz", functools.partial(called, reference, name, way, objective)
    uncut, before, after = go(4), go(2, checkpoint=file), go(4, resume=file)
    assert rows(before) == rows(after)[:2] and (rows(uncut) == rows(after) or not space.repeats)
    assert type(after.x) is type(uncut.x) and after.x.dtype == uncut.x.dtype and after.x.device == uncut.x.device
    space.again(space.get(after.x), space.get(uncut.x))


@some("sgd", "svrg", "casimir", "lbfgs")
def test_either_panel_goes_on_from_the_other(tmp_path, name, way):
    """Where the state has one form in both; where it has not, the error names the panel."""
    found = []
    for first, second in ((reference, accelerated), (accelerated, reference)):
        file = tmp_path / f"{first.__name__}.npz"
        called(first, name, way, problem_of(first, name, way), 2, checkpoint=file)
        found.append(called(second, name, way, problem_of(second, name, way), 5, resume=file))
    close(found[0].x, found[1].x)
    short(reference, "bcfw", objective_of(reference, "bcfw"), 1, checkpoint=tmp_path / "b.npz")
    with pytest.raises(ValueError, match=r"b.npz is of the panel reference in its own form: resume it there"):
        short(accelerated, "bcfw", objective_of(accelerated, "bcfw"), 2, resume=tmp_path / "b.npz")


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
@some(*FIRST)
def test_an_interrupt_returns_the_best_iterate(backend, tmp_path, monkeypatch, name, way, after):
    """Wherever it lands: weights, objective and gap belong together, and the checkpoint goes on to where an uncut
    run comes.
    """
    objective = problem_of(backend, name, way)
    uncut, empty = called(backend, name, way, objective, 6), called(backend, name, way, objective, 0)
    fun = {row.objective: row for row in uncut.history}
    moments, rows_met = [1, 2, 5, 13, 22, 40, 70, 130, 240], set()
    for at in moments:
        file = tmp_path / f"{at}.npz"
        with monkeypatch.context() as patched:
            watched = interrupted(problem_of(backend, name, way), at, after, patched)
            found = called(backend, name, way, watched, 6, checkpoint=file)
        if not found.interrupted:
            same(found, uncut)
            break
        assert not found.success and found.message.startswith("interrupted after ")
        assert rows(found) == rows(uncut)[: len(found.history)]
        rows_met.add(len(found.history))
        if found.history:
            assert found.fun == min(row.objective for row in found.history)
            row = fun[found.fun]
            close(found.fun, value(name, objective, found.x, way.options.get("mu")))
            assert isinstance(found.certificate, str) or found.certificate == row.gap
            same(uncut, called(backend, name, way, objective, 6, resume=file))
        else:
            assert np.array_equal(found.x, empty.x) and (np.isnan(found.fun) or found.fun == empty.fun)
            assert found.nit == 0
            if file.exists():  # the start has been evaluated
                same(uncut, called(backend, name, way, objective, 6, resume=file))
    assert len(rows_met) > 1, "interrupts should land in several epochs"


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "solve_sparse"])  # its problem has a cycle
def test_data_are_freed_with_the_last_name_of_them(backend, name):
    """Without the garbage collector, which may come after many more runs and their Gram matrices."""
    objective = objective_of(backend, name)
    short(backend, name, objective, 1)  # what is compiled and cached stays
    gc.collect()
    objective = objective_of(backend, name)
    gc.disable()
    try:
        result, data = short(backend, name, objective, 1), weakref.ref(objective.data)
        del objective
        assert data() is None and len(result.history) > 0
    finally:
        gc.enable()


@pytest.mark.parametrize("name", LEARNERS)
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


def test_another_error_is_not_swallowed(backend, tmp_path):
    """But what was done is kept."""

    def callback(row, w):
        if row.epoch == 3:
            raise RuntimeError("mine")

    objective, file = objective_of(backend, "bcfw"), tmp_path / "run.npz"
    with pytest.raises(RuntimeError, match="mine"):
        short(backend, "bcfw", objective, 5, callback=callback, checkpoint=file)
    same(short(backend, "bcfw", objective, 5), short(backend, "bcfw", objective, 5, resume=file))


def test_what_differs_is_named(backend, tmp_path):
    objective, file = loss_of(backend, "log loss", *chains(backend)), tmp_path / "run.npz"
    classes = loss_of(backend, "log loss", *Problems(backend).model("classes"))
    backend.sgd(objective, lam=0.1, epochs=3, rng=0, checkpoint=file)
    for wrong, message in (
        ({"lam": 0.2}, "run.npz is of a run with lam = 0.1, this one has 0.2"),
        ({"mu": 0.5}, "mu = None, this one has 0.5"),
        ({"average": "last"}, "average = weighted, this one has last"),
        ({"batch_size": 2}, "batch_size = 1, this one has 2"),
        ({"step_size": 0.5}, r"step_size = None, this one has Constant\(gamma0=0.5\)"),
        ({"rng": 1}, "rng = 0, this one has 1"),
        ({"epochs": 2}, "resume: .*run.npz has done 3 epochs, this run asks for 2 in all"),
        ({"objective": loss_of(backend, "hinge", *chains(backend))}, "objective = LogLoss, this one has Structural"),
        ({"objective": classes}, "examples = 5, this one has 8"),
        ({"objective": loss_of(backend, "log loss", *chains(backend, seed=8))}, "run.npz is of other data"),
        ({"resume": tmp_path / "none.npz"}, "none.npz"),
    ):
        options = {"objective": objective, "lam": 0.1, "epochs": 5, "rng": 0, "resume": file, **wrong}
        with pytest.raises((ValueError, OSError), match=message):
            backend.sgd(**options)
    assert backend.sgd(objective, lam=0.1, epochs=5, resume=file).nit == 5  # without a seed: that of the checkpoint
    with pytest.raises(ValueError, match="optimizer = sgd, this one has svrg"):
        backend.svrg(objective, lam=0.1, resume=file)
    with pytest.raises(ValueError, match="checkpoint: no such folder"):
        backend.sgd(objective, lam=0.1, checkpoint=tmp_path / "none" / "run.npz")
    with pytest.raises(TypeError, match="resume: expected the path of a file, got int"):
        backend.sgd(objective, lam=0.1, resume=3)


def test_a_damaged_file_is_named(backend, tmp_path):
    objective, file = loss_of(backend, "log loss", *chains(backend)), tmp_path / "run.npz"
    backend.sgd(objective, lam=0.1, epochs=1, rng=0, checkpoint=file)
    content = file.read_bytes()
    with np.load(file) as archive:
        arrays = dict(archive)
    header = json.loads(text := str(arrays["header"]))
    renamed = {**arrays, "header": np.array(text.replace("SGDState", "NoState!"))}
    for damaged, message in (
        (lambda: file.write_bytes(content[:-30]), "run.npz: not a readable checkpoint"),
        (lambda: file.write_text("{}"), "run.npz: not a readable checkpoint"),
        (lambda: np.savez(file, weights=np.zeros(3)), "run.npz: not a checkpoint of diptych; found weights"),
        (lambda: np.savez(file, header=np.array(json.dumps({**header, "checkpoint": 9}))), "checkpoint of format 9"),
        (lambda: np.savez(file, header=np.array(json.dumps(header))), "run.npz: damaged checkpoint"),
        (lambda: np.savez(file, header=np.array(json.dumps({"checkpoint": FORMAT}))), "run.npz: damaged checkpoint"),
        (lambda: np.savez(file, **{**arrays, "check": arrays["check"] ^ 1}), "damaged checkpoint: wrong checksum"),
        (lambda: np.savez(file, **{**arrays, "check": np.zeros(2, int)}), "damaged checkpoint: wrong checksum"),
        (lambda: np.savez(file, **renamed), "no such kind of state here: .*NoState!"),
    ):
        damaged()
        with pytest.raises(ValueError, match=message):
            backend.sgd(objective, lam=0.1, epochs=2, resume=file)


def test_checkpoints_take_a_small_share_of_the_time(backend, tmp_path, monkeypatch):
    """Files are written at once, then ten times as long after the last as that took, and at the end."""
    from reference.training import run as runs

    now, written = [0.0], []
    monkeypatch.setattr(runs.time, "perf_counter", lambda: now[0])

    def write(path, content):
        written.append(content["done"].rows)
        now[0] += 1.0

    def callback(row, w):
        now[0] += 4.0

    monkeypatch.setattr(runs, "write_records", write)
    objective = loss_of(backend, "log loss", *chains(backend))
    backend.sgd(objective, lam=0.1, epochs=8, rng=0, checkpoint=tmp_path / "run.npz", callback=callback)
    assert written == [1, 4, 7, 8]


OLDER = Path(__file__).parent / "older"  # after three epochs by the reference, on the objective below, with rng=0
OPTIONS = {"sgd": {"mu": 0.5}, "svrg": {"mu": 0.5}, "casimir": {}, "prox_linear": {}}


@pytest.mark.parametrize("path", sorted(OLDER.glob("*.npz")), ids=lambda path: path.stem)
def test_a_run_continues_from_an_older_file(backend, path):
    (name,) = (name for name in OPTIONS if path.stem.startswith(name))
    model = backend.MulticlassModel(n_features=2, labels=["a", "b"])
    data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])
    hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy())
    options = {"lam": 0.1, "rng": 0, "iterations" if name == "prox_linear" else "epochs": 6, **OPTIONS[name]}
    learner = getattr(backend, name)
    whole, resumed = learner(hinge, **options), learner(hinge, resume=path, **options)
    assert resumed.message == whole.message and len(resumed.history) == len(whole.history)
    assert [row.oracle_calls for row in resumed.history] == [row.oracle_calls for row in whole.history]
    assert np.allclose(resumed.x, whole.x, rtol=1e-9, atol=1e-12) and np.isclose(resumed.fun, whole.fun, rtol=1e-9)


def test_each_former_state_has_its_file():
    headers = [str(read_npz(path, "checkpoint")["header"]) for path in sorted(OLDER.glob("*.npz"))]
    assert all(any(f'"{kind}"' in header for header in headers) for kind in FORMER)
