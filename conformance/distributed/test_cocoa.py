"""CoCoA: the dual never falls, is that of the dual variables, and reaches one machine's optimum."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from conformance.distributed.test_partitioned import LOADERS, Drawn, whole
from conformance.specimens.models import labellings
from conformance.tolerances import close
from diptych.distributed import Partitioned, cocoa
from diptych.distributed.ascent import Change, CoCoA, CoCoAState, Duals, Round, Stand, next_share, passed
from reference.training.counterparts import counterpart

LAM = 0.05


def local_of(sp, log_loss, **options):
    return sp.algorithms.ExponentiatedGradient(LAM, 1.0, 0.3) if log_loss else sp.algorithms.BCFW(LAM, **options)


@pytest.mark.parametrize("l1", [0.0, 0.02])
@pytest.mark.parametrize("log_loss", [False, True])
def test_the_dual_never_falls_and_bounds_the_optimum(tmp_path, sp, log_loss, l1):
    loss, one = (sp.LogLoss, sp.exponentiated_gradient) if log_loss else (sp.StructuralHinge, sp.bcfw)
    best = one(whole(sp, loss), lam=LAM, l1=l1, tol=1e-3, rng=0, epochs=900)
    low, rows = best.fun - best.certificate - 1e-12, []
    objective = Partitioned(LOADERS, sp.SequenceModel(2, 3), loss)
    options = {"folder": tmp_path, "l1": l1, "callback": lambda row, w: rows.append(row)}
    result = cocoa(objective, lam=LAM, epochs=30, tol=0.0, rng=0, **options)
    assert len(list(tmp_path.iterdir())) <= 3 * len(LOADERS)  # of two accepted rounds, perhaps a rejected one
    duals = np.array([row.dual for row in rows])
    assert np.all(np.diff(duals) >= -1e-13) and duals[-1] <= best.fun + 1e-12
    assert all(row.objective >= low for row in rows)
    assert np.all(np.diff([row.objective for row in rows]) <= 0)  # the best so far
    gap = result.fun - duals[-1]
    close(result.certificate, gap)
    assert result.fun >= low and result.fun - best.fun <= gap + 1e-12 and gap <= 5e-2 * result.fun
    w = result.x
    close(result.fun, whole(sp, loss).value(w) + l1 * float(np.sum(np.abs(w))) + 0.5 * LAM * float(w @ w))
    assert bool(l1) == bool(np.any(w == 0))


def test_one_partition_is_one_machine(sp):
    """With one partition, sigma = 1 and whole steps: exponentiated gradient itself, at the same random numbers."""
    objective = Partitioned([Drawn(2)], sp.SequenceModel(2, 3), sp.LogLoss)
    duals: list[float] = []
    cocoa(objective, lam=LAM, epochs=3, tol=0.0, rng=0, callback=lambda row, w: duals.append(row.dual))
    model = sp.SequenceModel(2, 3)
    one = sp.LogLoss(model, model.pack(*Drawn(2)()))
    box = counterpart(local_of(sp, True), one)
    state, rng = box.init(one, one.zeros()), np.random.default_rng(0)
    for dual in duals:
        state = box.epoch(one, state, np.random.default_rng(rng.integers(2**63, size=1)[0]))
        close(dual, float(np.mean(state.values)) - 0.5 * LAM * float(state.x @ state.x))


@pytest.mark.parametrize("cached_passes", [0, 5])
def test_the_state_of_a_mixed_step_is_its_dual_variables(tmp_path, cached_passes):
    """w and the value of the line search, recomputed from the working sets in the files."""
    import reference as sp

    objective = Partitioned(LOADERS, sp.SequenceModel(2, 3), sp.StructuralHinge)
    box = CoCoA(LAM, local_of(sp, False, cached_passes=cached_passes), Duals(str(tmp_path), False))
    state, rng, steps = box.init(objective), np.random.default_rng(0), []
    for _ in range(8):
        before, state = state, box.epoch(objective, state, rng)
        steps.append(state.step)
        w, value = np.zeros(21), 0.0
        for k in range(len(LOADERS)):
            sets, alpha, _ = box.duals.read(k, state.stand.number)
            for one in box.local.between(sets, alpha, state.stand.share).sets.values():
                assert abs(np.sum(one.alpha) - 1.0) < 1e-12 and np.all(one.alpha >= 0)
                w -= one.alpha @ one.directions / (LAM * objective.n)
                value += one.alpha @ one.losses / objective.n
        close(state.x, w)
        close(state.value, value)
        u, rise = (state.x - before.x) / state.step, (state.value - before.value) / state.step
        for g in np.linspace(0.0, 1.0, 21):  # no other point of the segment has a higher dual
            x, other = before.x + g * u, before.value + g * rise
            assert other - 0.5 * LAM * x @ x <= state.value - 0.5 * LAM * state.x @ state.x + 1e-12
    assert min(steps) < 1.0  # some steps are shares


def distributions(points, lengths):
    """The local scores of each sequence, (n, L) and (L, L), from the points of either panel."""
    if isinstance(points, dict):
        return [(points[i].theta.unary[0], points[i].theta.pairwise) for i in sorted(points)]
    pairs = (theta.reshape(3, 3) for theta in points.theta_A)
    return list(zip(np.split(points.theta[:, :3], np.cumsum(lengths)[:-1]), pairs, strict=True))


def of_scores(listed, unary, transitions):
    """By enumeration: the features of the truth less their mean under exp(scores), and the entropy."""
    outputs = np.array(listed.outputs, dtype=int)
    scores = np.sum(unary[np.arange(len(unary)), outputs], axis=1)
    scores += np.sum(transitions[outputs[:, :-1], outputs[:, 1:]], axis=1)
    p = np.exp(scores - np.max(scores))
    p /= np.sum(p)
    return listed.phi[listed.gold] - p @ listed.phi, -float(np.sum(p[p > 0] * np.log(p[p > 0])))


def test_a_line_search_of_scores_finds_the_highest_dual(tmp_path, sp):
    """The log loss with sigma = 1, so that full steps lower the dual: w and the value are those of the scores in the
    files, and no other point of the segment has a dual that is higher by a hundredth of the rise."""
    loaders = [Drawn(k) for k in range(8)]
    objective = Partitioned(loaders, sp.SequenceModel(2, 3), sp.LogLoss)
    box, read = CoCoA(LAM, local_of(sp, True), Duals(str(tmp_path), False)), {}
    state, rng, searches = box.init(objective), np.random.default_rng(0), 0

    def all_scores(number):
        for k, load in enumerate(loaders):
            X, Y = load()
            found = distributions(box.duals.read(k, number)[0].points, [len(y) for y in Y])
            yield from zip(labellings(X, Y, 2, 3).listed, found, strict=True)

    def dual(one, other, share):
        """w, value and D where each example's scores are a share of the way."""
        w, value = objective.zeros(), 0.0
        for (example, (u, A)), (_, (v, B)) in zip(one, other, strict=True):
            change, entropy = of_scores(example, (1 - share) * u + share * v, (1 - share) * A + share * B)
            w, value = w + change / (LAM * objective.n), value + entropy / objective.n
        return w, value, value - 0.5 * LAM * float(w @ w)

    while searches < 3:
        assert state.rounds < 10
        before, state = state, box.epoch(objective, state._replace(sigma=1.0) if state.rounds else state, rng)
        read[state.stand.number] = list(all_scores(state.stand.number))
        w, value, reached = dual(read[state.stand.number], read[state.stand.number], 1.0)
        close(state.x, w)
        close(state.value, value)
        if 0.0 < state.step < 1.0:
            searches += 1
            one, full = read[before.stand.number], list(all_scores(min(state.drop)))
            start = before.value - 0.5 * LAM * float(before.x @ before.x)
            close(dual(one, full, state.step)[2], reached)
            assert reached > start > dual(one, full, 1.0)[2]
            assert max(dual(one, full, g)[2] for g in np.linspace(0, 1, 41)) <= reached + 0.01 * (reached - start)


def test_sigma_doubles_where_the_full_step_lowers_the_dual(tmp_path):
    """Changes by eight partitions, orthogonal, so that the ratio alone asks for sigma 1.1; values fall by 1."""
    import reference as sp

    fall = Change(np.ones(2), 2.0, -4.0, 4)
    objective = SimpleNamespace(sizes=range(8), n=4, sum_of=lambda *_: fall)
    box = CoCoA(LAM, local_of(sp, True), Duals(str(tmp_path), False))
    for sigma, after in ((1.5, 3.0), (5.0, 8.0)):
        state = CoCoAState(np.zeros(2), 0.0, Stand(0, 1.0), sigma)
        assert box.epoch(objective, state, np.random.default_rng(0)).sigma == after


def test_the_next_point_of_a_line_search():
    """A parabola's maximiser takes one step, and ends the search. Without a rise the share is halved."""
    for best in (0.1, 0.3, 0.47):
        tried = [(g, 2 * best * g - g * g) for g in (0.0, 0.25 * best, 1.0)]
        close(next_share(tried), best)
        tried.insert(2, (best, best * best))
        assert next_share(tried) is None
    assert next_share([(0.0, 0.0), (1.0, -1.0)]) == 0.5
    assert next_share([(0.0, 0.0), (0.5, -0.1), (1.0, -1.0)]) == 0.25


@pytest.mark.parametrize("l1", [0.0, 0.03])
@pytest.mark.parametrize("log_loss", [False, True])
def test_whole_steps_are_safe_with_sigma_the_number_of_partitions(tmp_path, sp, log_loss, l1):
    """At random weights and seeds: the rise of the dual is at least the sum of the local problems' rises. A pass made
    again from the same files, also after a share of a step, writes the same and changes the same."""
    loss = sp.LogLoss if log_loss else sp.StructuralHinge
    objective, K = Partitioned(LOADERS, sp.SequenceModel(2, 3), loss), len(LOADERS)
    local, duals = (local_of(sp, log_loss), *(x * objective.n / K for x in (LAM, l1))), Duals(str(tmp_path), False)
    w, values = objective.zeros(), np.zeros(K)

    def conjugate(x):
        return 0.5 * LAM * np.sum(np.maximum(np.abs(x) - l1 / LAM, 0.0) ** 2)

    for number in (1, 2, 3):
        now = Round(*local, float(K), np.arange(K) + 9 * number, duals, Stand(number - 1, 1.0), number, ())
        for each in (now._replace(stand=Stand(number - 1, 1.0 if log_loss else 0.7)), now):
            once, again = (passed(objective._job, w, each, 0) for _ in range(2))
            assert once.u.tobytes() == again.u.tobytes() and once[1:] == again[1:]
        changes = [passed(objective._job, w, now, k) for k in range(K)]
        rises = [(change.value - value) / objective.n for change, value in zip(changes, values, strict=True)]
        local_rises = [
            rise - (conjugate(w + K * change.u) - conjugate(w)) / K for rise, change in zip(rises, changes, strict=True)
        ]
        u = sum(change.u for change in changes)
        close(sum(change.square for change in changes), sum(float(change.u @ change.u) for change in changes))
        rise = sum(rises) - (conjugate(w + u) - conjugate(w))
        assert rise >= sum(local_rises) - 1e-12
        if number > 1 or not log_loss:  # the first visit of exponentiated gradient may fall
            assert min(local_rises) >= -1e-12
        w, values = w + u, np.array([change.value for change in changes])


@pytest.mark.parametrize("log_loss", [False, True])
def test_a_checkpoint_is_never_older_than_its_files(tmp_path, sp, monkeypatch, log_loss):
    """A checkpoint that is written once, and the folder as a kill many rounds later leaves it."""
    monkeypatch.setattr("reference.training.run.SHARE", 1e12)
    path, left = tmp_path / "run.npz", tmp_path / "left"
    objective = Partitioned(LOADERS, sp.SequenceModel(2, 3), sp.LogLoss if log_loss else sp.StructuralHinge)

    def killed(row, w):
        if row.epoch == 10:
            left.mkdir()
            shutil.copy(path, left)
            shutil.copytree(f"{path}.duals", left / "run.npz.duals")

    whole_run = cocoa(objective, lam=LAM, epochs=12, tol=0.0, rng=0, checkpoint=path, callback=killed)
    resumed = cocoa(objective, lam=LAM, epochs=12, tol=0.0, rng=0, resume=left / "run.npz")
    assert resumed.x.tobytes() == whole_run.x.tobytes() and resumed.fun == whole_run.fun
    for file in (left / "run.npz.duals").iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError, match="^folder: .*no dual variables of partition"):
        cocoa(objective, lam=LAM, epochs=12, tol=0.0, rng=0, resume=left / "run.npz")
