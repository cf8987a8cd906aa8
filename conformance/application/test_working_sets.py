"""Paths of l1 on working sets: what a part of a tagger is, certificates over all weights, weights that were missed."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import diptych.working_sets
from conformance.tolerances import close
from diptych.elastic_net import elastic_net, elastic_net_path
from diptych.panels import PANELS
from diptych.working_sets import before_all, next_value, over, spread
from reference.algorithms import ExponentiatedGradient, counterpart

OPTIONS = [{}, {"pairs": "all"}, {"pairs": "all", "bits": 6}, {"transitions": "bio"}]
SOLVED = {"lam": 0.01, "tol": 1e-7, "iterations": 100000}


def drawn(rng, panel="accelerated", count=20, **options):
    """The log loss of sentences with frequent and rare words, the first one empty, and valid labels."""
    panel, X, Y = import_module(panel), [], []
    for n in [0, *rng.integers(1, 5, count)]:
        words = np.minimum(rng.zipf(1.3, n), 30)
        X.append([{f"w={word}": 1.0, f"z={word % 3}": rng.choice([1.0, 0.5]), "bias": 1.0} for word in words])
        Y.append([f"B-{word % 2}" if rng.random() < 0.7 else "O" for word in words])
    model = panel.TaggingModel.of(X, Y, None, **options)
    return panel.LogLoss(model, model.pack(X, Y))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("panel", PANELS)
def test_a_part_is_the_objective_with_other_weights_0(rng, panel, options):
    """Values, gradients, and the vector of the dual of a state of the part, at all weights."""
    objective = drawn(rng, panel, **options)
    kept = rng.random(objective.model.size) < 0.3
    kept[-len(objective.model.label_pairs) :] = True
    part, whole = over(objective, kept), ExponentiatedGradient(0.1, 1.0, 0.3)
    assert part.model.size == np.count_nonzero(kept) and part.n == objective.n
    w = rng.normal(size=part.model.size)
    (ours, gradient), (theirs, all_of_it) = part.value_and_gradient(w), objective.value_and_gradient(spread(w, kept))
    close(ours, theirs), close(gradient, all_of_it[kept])
    box = counterpart(whole, part)
    state = box.epoch(part, box.from_weights(part, box.init(part), w), rng)
    close(box.difference(part, state), 0.1 * state.x)
    v = counterpart(whole, objective).difference(objective, state)
    close(v[kept], 0.1 * state.x)
    at_w = counterpart(whole, objective).difference(objective, box.from_weights(part, box.init(part), w))
    close(at_w, -all_of_it)
    assert not np.any(counterpart(whole, objective).difference(objective, box.init(part)))  # all weight on the truth


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("lam", [0.01, 0.0])
def test_a_path_has_the_same_optima(rng, options, lam):
    """As each value by itself, within both certificates; the values rise once, and fall by far once."""
    objective = drawn(rng, **options)
    solved = SOLVED | {"lam": lam, "tol": 1e-6 if lam else 1e-4}
    most = before_all(objective).l1
    values = [most * share for share in (1.0, 0.6, 0.3, 0.5, 0.05, 0.002)[: 6 if lam else 5]]
    path = elastic_net_path(objective, values, **solved)
    for k, l1 in enumerate(values):
        point, w, other = path.points[k], path.weights(k), elastic_net(objective, l1=l1, **solved)
        close(point.fun, objective.value(w) + l1 * np.sum(np.abs(w)) + 0.5 * lam * w @ w)
        assert point.success and 0 <= point.gap <= solved["tol"] * point.fun
        assert point.fun - point.gap <= other.fun and other.fun - other.certificate <= point.fun
        assert np.array_equal(point.support, np.flatnonzero(w)) and point.iterations > 0
    assert path.points[0].nonzeros == 0 < path.points[-1].nonzeros


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of the working sets, in the order of their runs."""
    seen, original = [], diptych.working_sets.over
    monkeypatch.setattr(
        diptych.working_sets, "over", lambda objective, kept: seen.append(int(sum(kept))) or original(objective, kept)
    )
    return seen


def test_missed_weights_enter(rng, sizes):
    """From a v that is wrong, and where the rule errs by itself: the optimum is the same."""
    erred = 0
    for draw in range(12):
        objective = drawn(rng)
        before, w = before_all(objective), objective.zeros()
        if draw < 2:
            before = before._replace(v=w)
        else:
            first, before = next_value(objective, w, before, l1=0.5 * before.l1, **SOLVED)
            w = first.x
        sizes.clear()
        result, carried = next_value(objective, w, before, l1=0.5 * before.l1, **SOLVED)
        assert result.success and result.certificate <= SOLVED["tol"] * result.fun
        assert sizes == sorted(sizes) and (len(sizes) > 1 or draw >= 2)
        erred += draw >= 2 and len(sizes) > 1
        other = elastic_net(objective, l1=carried.l1, **SOLVED)
        assert result.fun - result.certificate <= other.fun and other.fun - other.certificate <= result.fun
        few, _ = next_value(objective, objective.zeros(), before, l1=carried.l1, **SOLVED | {"iterations": 3})
        assert not few.success and few.nit == 3 and few.certificate > SOLVED["tol"] * few.fun
    assert erred > 0
