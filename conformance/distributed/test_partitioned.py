"""Objectives and methods over partitions: the whole objective's values and iterates, with the same bits for any
workers."""

from __future__ import annotations

import importlib
import itertools
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import reference
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from diptych.distributed import ColumnFile, Part, Partitioned, WorkersLost, cocoa, column_parts
from diptych.distributed.ascent import CoCoA
from diptych.distributed.transports import TOGETHER, TreeSum, tree_sum
from diptych.elastic_net import elastic_net
from reference import SequenceModel, StructuralHinge
from reference.optimizers.subproblem import Subproblem
from reference.training.counterparts import counterpart


@dataclass(frozen=True)
class Drawn:
    """Sequences drawn from a seed; picklable, as every loader is."""

    seed: int

    def __call__(self) -> tuple[list[Any], list[Any]]:
        rng = np.random.default_rng(self.seed)
        lengths = rng.integers(0, 6, size=3 + self.seed % 3)
        return [rng.normal(size=(n, 2)) for n in lengths], [rng.integers(0, 3, size=n).tolist() for n in lengths]


LOADERS = [Drawn(seed) for seed in range(5)]


def whole(sp, loss):
    model = sp.SequenceModel(2, 3)
    parts = [load() for load in LOADERS]
    X, Y = ([each for part in parts for each in part[i]] for i in (0, 1))
    return loss(model, model.pack(X, Y))


def losses(sp):
    smooth = partial(sp.StructuralHinge, smoothing=sp.smoothings.Entropy())
    return [(sp.LogLoss, None), (sp.StructuralHinge, None), (smooth, 0.4)]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 9, 16, 17, 63, 65, 130])
def test_sums_have_one_tree_whatever_comes_first(n):
    """Neighbours are added, level by level, in doubles that depend on the order; and so with groups of neighbours that
    workers add."""
    x = np.random.default_rng(n).normal(size=n) * 10.0 ** np.arange(n)
    level, sums = list(x), list(x)
    while len(level) > 1:
        level = [sum(level[i : i + 2]) for i in range(0, len(level), 2)]
    for seed in range(6):
        tree = TreeSum(n)
        for k in np.random.default_rng(seed).permutation(n).tolist():
            tree.add(k, x[k])
        assert tree.total.hex() == level[0].hex()
    while len(sums) > 1:
        sums = [tree_sum(*sums[i : i + TOGETHER]) for i in range(0, len(sums), TOGETHER)]
    assert sums[0].hex() == level[0].hex()


def test_values_are_those_of_the_whole(sp):
    for loss, mu in losses(sp):
        one = whole(sp, loss)
        parts = Partitioned(LOADERS, sp.SequenceModel(2, 3), loss)
        w = np.random.default_rng(0).normal(size=one.model.size)
        assert parts.n == one.n
        close(parts.value(w, None, mu), one.value(w, None, mu))
        for ask in ("value_and_gradient", "linearize"):
            for ours, theirs in zip(*(getattr(each, ask)(w, None, mu) for each in (parts, one)), strict=True):
                close(ours, theirs)
        assert (parts.smoothness(mu) is None) == (one.smoothness(mu) is None)
        if one.smoothness(mu) is not None:
            close(parts.smoothness(mu), one.smoothness(mu))
        for order in (LOADERS, [LOADERS[3], *LOADERS]):  # the longest examples come first, and later
            close(Partitioned(order, sp.SequenceModel(2, 3), loss).width(), one.width())


def test_a_partition_is_loaded_once(sp):
    """With little memory what it packed comes from a file of this process."""
    times, memory = [], None

    def load():
        times.append(1)
        return Drawn(0)()

    for k in (1, 2):
        objective = Partitioned([load, Drawn(1)], sp.SequenceModel(2, 3), sp.LogLoss, memory=memory)
        for _ in range(3):
            objective.value(objective.zeros())
        assert len(times) == k
        memory = max(size.nbytes for size in objective.sizes)


def test_partitions_without_examples_are_left_out(sp):
    nothing, model = lambda: ([], []), sp.SequenceModel(2, 3)
    with_empty = Partitioned([nothing, *LOADERS[:2], nothing, *LOADERS[2:]], model, sp.LogLoss)
    without = Partitioned(LOADERS, model, sp.LogLoss)
    w = np.random.default_rng(0).normal(size=model.size)
    assert with_empty.sizes == without.sizes
    assert with_empty.value_and_gradient(w)[1].tobytes() == without.value_and_gradient(w)[1].tobytes()


def test_what_is_wrong_is_named(sp):
    def over(loss, **options):
        return Partitioned(**{"loaders": LOADERS, "model": sp.SequenceModel(2, 3), "loss": loss, **options})

    names = {"sp": sp, "over": over, "whole": whole, "smoothed": smoothed, "cocoa": cocoa, "np": np}
    check_refusals("wrong_partitions.txt", names)
    size = over(sp.LogLoss).sizes[0].nbytes
    with pytest.raises(MemoryError, match=r"^partition 0 \(Drawn\(seed=0\)\) takes .* split it into at least 3 part"):
        over(sp.LogLoss, loaders=LOADERS[:1], memory=-(-size // 3))


def test_loaders_of_files_name_file_and_line(tmp_path, sp):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("a X\nb Y\n\nb Y\n\nc X\n")
    bad.write_text("a X\nb\n")
    X, Y = ColumnFile(str(good))()
    model = sp.TaggingModel.of(X, Y, ["bias", "word"])
    objective = Partitioned(column_parts([good], 2), model, sp.LogLoss)
    assert objective.n == 3 and [size.n for size in objective.sizes] == [1, 2]
    close(objective.value(objective.zeros()), sp.LogLoss(model, model.pack(X, Y)).value(objective.zeros()))
    with pytest.raises(ValueError, match=r"bad\.txt.*line 2"):
        Partitioned(column_parts([good, bad]), model, sp.LogLoss)


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7])
def test_parts_are_the_whole(parts):
    X, Y = Drawn(2)()
    pieces = [Part(Drawn(2), part, parts)() for part in range(parts)]
    sizes = [len(y) for _, y in pieces]
    assert list(itertools.chain.from_iterable(y for _, y in pieces)) == Y and max(sizes) - min(sizes) <= 1
    for ours, theirs in zip(itertools.chain.from_iterable(x for x, _ in pieces), X, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("change", [0.0, -0.0, np.nan])
def test_weights_that_were_changed_in_place_travel_again(change):
    """And those with the same bits do not: zeros of both signs are told apart, and nan is itself."""
    with ThreadPoolExecutor(2) as executor:
        objective = Partitioned([Drawn(0), Drawn(1)], SequenceModel(2, 3), StructuralHinge, executor)
        sent: list[Any] = []
        send = objective.transport.send
        objective.transport.send = lambda thing: sent.append(np.copy(thing)) or send(thing)
        w = np.ones(objective.model.size)
        first = objective.value(w)
        assert objective.value(w) == objective.value(w.copy()) == first and len(sent) == 1
        w[0] = change
        changed = objective.value(w)
        fresh = Partitioned([Drawn(0), Drawn(1)], SequenceModel(2, 3), StructuralHinge).value(w.copy())
        assert (changed == fresh or np.isnan(fresh)) and len(sent) == 2 and sent[1].tobytes() == w.tobytes()
        objective.value(w.copy())
        assert len(sent) == 2
        w[0] = -w[0]
        objective.value(w)
        assert len(sent) == 3


# methods --------------------------------------------------------------------------------------------------------------

LAM = 0.05


def smoothed(sp):
    return partial(sp.StructuralHinge, smoothing=sp.smoothings.Entropy())


def sparse(sp, objective, solver, **options):
    return sp.solve_sparse(objective, beta=0.05, tol=1e-9, solver=solver, **options)


LONG_STEPS = reference.algorithms.ExponentiatedGradient(LAM, 1.0, 1.0)  # the second round needs a line search
COCOA = {"lam": LAM, "epochs": 8, "rng": 0}
METHODS = {  # from the panel: the loss, and the training of an objective over partitions
    "lbfgs": (lambda sp: sp.LogLoss, lambda sp, F, **o: sp.lbfgs(F, lam=LAM, iterations=15, **o)),
    "cutting_planes": (lambda sp: sp.StructuralHinge, lambda sp, F, **o: sp.cutting_planes(F, lam=LAM, epochs=10, **o)),
    "svrg": (lambda sp: sp.LogLoss, lambda sp, F, **o: sp.svrg(F, lam=LAM, epochs=6, rng=0, **o)),
    "casimir": (smoothed, lambda sp, F, **o: sp.casimir(F, lam=LAM, epochs=6, rng=0, **o)),
    "casimir, adaptive": (smoothed, lambda sp, F, **o: sp.casimir_svrg_adapt(F, lam=LAM, epochs=6, rng=0, **o)),
    "casimir, gradients": (smoothed, lambda sp, F, **o: sp.casimir(F, lam=LAM, epochs=6, inner="gradient", rng=0, **o)),
    "elastic net": (lambda sp: sp.LogLoss, lambda sp, F, **o: elastic_net(F, l1=0.02, lam=LAM, tol=1e-9, **o)),
    "cocoa, hinge": (lambda sp: sp.StructuralHinge, lambda sp, F, **o: cocoa(F, **COCOA, **o)),
    "cocoa, log loss": (lambda sp: sp.LogLoss, lambda sp, F, **o: cocoa(F, local=LONG_STEPS, **COCOA, **o)),
}
WITH_CHECKPOINTS = list(METHODS)
METHODS |= {
    "proximal gradient": (lambda sp: sp.LogLoss, lambda sp, F: sparse(sp, F, sp.AcceleratedProximalGradient())),
    "proximal Newton": (lambda sp: sp.LogLoss, lambda sp, F: sparse(sp, F, sp.ProximalNewton())),
}


def trained(sp, name, executor=None, run=None, **options):
    loss, train = METHODS[name]
    return train(sp, Partitioned(LOADERS, sp.SequenceModel(2, 3), loss(sp), executor, **options), **(run or {}))


def bits(sp, name, executor=None, **options):
    result = trained(sp, name, executor, **options)
    assert not result.interrupted, result.message
    return result.x.tobytes(), result.fun, str(result.certificate)


@pytest.mark.parametrize("name", METHODS)
def test_threads_and_limits_of_memory_change_no_bit(sp, name):
    once = bits(sp, name)
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            assert bits(sp, name, pool) == once
    sizes = Partitioned(LOADERS, sp.SequenceModel(2, 3), sp.LogLoss).sizes
    assert bits(sp, name, memory=max(size.nbytes for size in sizes)) == once


def test_the_runs_of_the_log_loss_need_a_line_search(sp, monkeypatch):
    """So that all tests of these runs meet one."""
    searches = []
    search = CoCoA.search
    monkeypatch.setattr(CoCoA, "search", lambda *given: searches.append(search(*given)) or searches[-1])
    trained(sp, "cocoa, log loss")
    assert any(0.0 < state.step < 1.0 for state in searches)


@pytest.mark.parametrize("name", WITH_CHECKPOINTS)
def test_a_run_goes_on_with_another_number_of_workers(tmp_path, sp, name):
    """Lost workers end it in the third epoch; the checkpoint is of the second, and is resumed twice. A callback cannot
    change it."""
    path = tmp_path / "run.npz"
    once, rows = bits(sp, name), []

    def lost(row, w):
        rows.append(row)
        with pytest.raises(ValueError, match="read-only"):
            w[...] = np.nan
        if len(rows) == 3:
            raise WorkersLost("gone")

    ended = trained(sp, name, run={"checkpoint": path, "callback": lost})
    assert ended.interrupted and ended.fun == min(row.objective for row in rows) and "gone" in ended.message
    for workers in (2, 3):
        with ThreadPoolExecutor(workers) as pool:
            assert bits(sp, name, pool, run={"resume": path}) == once


@pytest.mark.beyond("starts processes")
def test_processes_change_no_bit(sp):
    """Of every method in the reference; of one in the other panels, whose processes compile their kernels."""
    for workers in (1, 3):
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            for name in METHODS if workers > 1 and sp.__name__ == "reference" else ["lbfgs"]:
                assert bits(sp, name, pool) == bits(sp, name), name


@pytest.mark.parametrize("name", METHODS)
def test_both_panels_agree(name):
    ours, theirs = (trained(importlib.import_module(panel), name) for panel in ("accelerated", "reference"))
    close(ours.fun, theirs.fun)
    close(ours.x, theirs.x, scale=1e3)
    for field in ("objective", "dual"):  # so that the sets and points of both mix alike, whatever their form
        close(*([getattr(row, field) or 0.0 for row in each.history] for each in (ours, theirs)), scale=1e3)


@pytest.mark.parametrize(("name", "options"), [("svrg", {"tol": 1e-9, "rng": 0}), ("lbfgs", {"tol": 1e-8})])
def test_the_optimum_is_that_of_the_whole(sp, name, options):
    best = sp.lbfgs(whole(sp, sp.LogLoss), lam=LAM, tol=1e-10)
    ours = getattr(sp, name)(Partitioned(LOADERS, sp.SequenceModel(2, 3), sp.LogLoss), lam=LAM, **options)
    assert ours.success
    close(ours.fun, best.fun, scale=1e3)
    close(ours.x, best.x, scale=1e6)


def test_a_pass_is_that_of_the_whole_in_the_same_order(sp):
    """SVRG's sweep over partitions is its sweep over all examples, in the order grouped by partitions."""
    one, parts = whole(sp, sp.LogLoss), Partitioned(LOADERS, sp.SequenceModel(2, 3), sp.LogLoss)
    rng = np.random.default_rng(0)
    order, (w, start, center) = rng.permutation(one.n), rng.normal(size=(3, one.model.size))
    ends = np.cumsum([size.n for size in parts.sizes])
    partition = np.searchsorted(ends, order, side="right")
    met = list(dict.fromkeys(partition.tolist()))
    grouped = np.concatenate([order[partition == k] for k in met])
    assert [k for k, _ in parts.parts(order)] == met
    inside = [examples + ends[k] - parts.sizes[k].n for k, examples in parts.parts(order)]
    assert np.array_equal(np.concatenate(inside), grouped)
    results = []
    for objective, examples in ((one, grouped), (parts, order)):
        box = counterpart(sp.algorithms.SVRG(), objective)
        snapshot = box.snapshot(objective, start, None)
        results.append(box.sweep(Subproblem(objective, 0.1, 0.2, None, center), snapshot, w, examples, 0.3))
    close(results[0], results[1])


@pytest.mark.parametrize("solver", ["AcceleratedProximalGradient", "ProximalNewton"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("rule", ["L1GapRule", None])
def test_screening_over_partitions_is_screening(sp, alpha, rule, solver):
    one, parts = whole(sp, sp.LogLoss), Partitioned(LOADERS, sp.SequenceModel(2, 3), sp.LogLoss)
    close(sp.beta_max(parts), sp.beta_max(one))
    options = {"alpha": alpha, "beta": 0.1 * sp.beta_max(one), "tol": 1e-6, "solver": getattr(sp, solver)()}
    options["rule"] = None if rule is None else getattr(sp, rule)()
    ours, theirs = (sp.solve_sparse(objective, **options) for objective in (parts, one))
    # Sums of parts round differently: a gap beside tol may take one step more.
    assert ours.success and abs(ours.nit - theirs.nit) <= 1 and np.array_equal(ours.support, theirs.support)
    assert all(s.kept == t.kept for s, t in zip(ours.screenings, theirs.screenings, strict=False))
    close(ours.x, theirs.x, scale=1e3)
