"""Methods over partitions: the whole objective's optimum and iterates, with the same bits for any workers."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest

import reference
from conformance.distributed.test_partitioned import LOADERS, whole
from conformance.tolerances import close
from diptych.distributed import Partitioned, WorkersLost, cocoa
from diptych.distributed.ascent import CoCoA
from reference import UnsupportedError
from reference.optimizers.subproblem import Subproblem
from reference.training.counterparts import counterpart

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
    for workers in (1, 2, 3):
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
    for workers in (1, 2, 3):
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            for name in METHODS if sp.__name__ == "reference" else ["lbfgs"]:
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
    options = {"alpha": alpha, "beta": 0.1 * sp.beta_max(one), "tol": 1e-9, "solver": getattr(sp, solver)()}
    options["rule"] = None if rule is None else getattr(sp, rule)()
    ours, theirs = (sp.solve_sparse(objective, **options) for objective in (parts, one))
    assert ours.success and ours.nit == theirs.nit and np.array_equal(ours.support, theirs.support)
    assert [s.kept for s in ours.screenings] == [s.kept for s in theirs.screenings]
    close(ours.x, theirs.x, scale=1e3)


def test_what_partitions_cannot_do_is_refused(sp):
    log, hinge = (Partitioned(LOADERS, sp.SequenceModel(2, 3), loss) for loss in (sp.LogLoss, sp.StructuralHinge))
    with pytest.raises(UnsupportedError, match="^batch: "):
        sp.sgd(log, lam=LAM)
    with pytest.raises(UnsupportedError, match="^average: over partitions"):
        sp.svrg(log, lam=LAM, average="uniform", rng=0)
    with pytest.raises(UnsupportedError, match="CountRule"):
        sp.solve_sparse(log, beta=0.1, rule=sp.CountRule())
    with pytest.raises(TypeError, match="^objective: expected partitions of LogLoss"):
        sp.solve_sparse(hinge, beta=0.1)
    with pytest.raises(UnsupportedError, match="^batch: "):
        log.value_and_gradient(log.zeros(), [0])
    with pytest.raises(ValueError, match="^w: expected a NumPy array of 21 weights"):
        log.value(np.zeros(3))
