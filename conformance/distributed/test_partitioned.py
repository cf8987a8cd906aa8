"""Objectives over partitions: the whole objective's values, with the same bits for any workers."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from conformance.tolerances import close
from diptych.distributed import ColumnFile, Part, Partitioned, column_parts
from diptych.distributed.transports import TOGETHER, TreeSum, tree_sum
from reference import SequenceModel, StructuralHinge


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


def test_wrong_arguments_are_named(sp):
    given = {"loaders": LOADERS, "model": sp.SequenceModel(2, 3), "loss": sp.LogLoss}
    size = Partitioned(**given).sizes[0].nbytes
    for options, error, message in (
        ({"loaders": []}, TypeError, "loaders: expected at least one callable"),
        ({"loaders": [3]}, TypeError, "loaders: expected at least one callable"),
        ({"loaders": 2 * [lambda: ([], [])]}, ValueError, "loaders: expected at least one example, got none in 2 part"),
        ({"loss": "log"}, TypeError, "loss: expected a callable such as LogLoss, got 'log'"),
        ({"executor": 4}, TypeError, "executor: expected None, an executor .* got int"),
        ({"memory": 0}, ValueError, "memory: "),
        (
            {"loaders": LOADERS[:1], "memory": -(-size // 3)},
            MemoryError,
            r"partition 0 \(Drawn\(seed=0\)\) takes .* split it into at least 3 part",
        ),
    ):
        with pytest.raises(error, match=f"^{message}"):
            Partitioned(**{**given, **options})


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
