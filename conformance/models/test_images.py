"""Images: scores that stay submodular, grids; overlaps of boxes, features in files, answers at a snapshot."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
import reference
from accelerated.compiled.problems import candidates
from accelerated.optimizers.svrg import SVRG
from conformance.specimens.models import MODELS, overlap, random_boxes
from conformance.tolerances import close
from reference.structures.scores import add

seeds = given(seed=st.integers(0, 2**32 - 1))


@seeds
def test_scores_are_submodular_with_the_loss_too(backend, seed):
    """(72) on every edge, of the scores alone and with the task loss."""
    problem = MODELS["images"].draw(seed)
    model, data = problem.packed(backend)
    w = problem.weights(backend)
    for i, (_, _, g) in enumerate(problem.X):
        scores = model.scores(data, np.array([i]), w)
        for pairwise in (scores.pairwise, add(scores, model.task_loss(data, np.array([i]))).pairwise):
            excess = pairwise[:, 0, 0] + pairwise[:, 1, 1] - pairwise[:, 0, 1] - pairwise[:, 1, 0]
            assert np.all(excess >= 0)
            close(excess, 2 * g @ w[model.nonnegative])


@pytest.mark.parametrize(("height", "width"), [(0, 0), (1, 1), (1, 4), (3, 1), (3, 4)])
def test_grids_join_neighbours_once(backend, height, width):
    for connectivity, far in ((4, 1), (8, 2)):
        edges = backend.grid_edges(height, width, connectivity)
        cells = list(itertools.product(range(height), range(width)))
        expected = {
            (a, b)
            for (a, (i, j)), (b, (k, m)) in itertools.combinations(enumerate(cells), 2)
            if max(abs(i - k), abs(j - m)) == 1 and abs(i - k) + abs(j - m) <= far
        }
        assert edges.dtype == np.int64 and edges.shape == (len(expected), 2)
        assert {tuple(e) for e in edges.tolist()} == expected


@seeds
def test_iou_counts_pixels(backend, seed):
    a, b = random_boxes(np.random.default_rng(seed), 2)
    close(backend.iou(a, b), overlap(a, b))
    assert backend.iou(a, a) == 1 and backend.iou(a, b) == backend.iou(b, a)
    assert backend.iou(np.stack([a, b])[:, None], np.stack([a, b, a])).shape == (2, 3)
    assert backend.iou(a * 2**29, a * 2**29) == 1  # no overflow


@seeds
def test_candidates_as_files_keep_them_are_the_same(backend, tmp_path, seed):
    """Nothing is copied when packing: features mapped from a file are left in it, and cannot be written to."""
    problem = MODELS["candidates"].draw(seed)
    X, model = [(boxes, x.astype(np.float32)) for boxes, x in problem.X], problem.make(backend)
    np.save(tmp_path / "features.npy", np.concatenate([x for _, x in X]))
    mapped, offsets = np.load(tmp_path / "features.npy", mmap_mode="r+"), np.cumsum([0, *(len(b) for b, _ in X)])
    a = model.pack(X, problem.Y)
    b = model.pack(reference.Candidates(np.concatenate([boxes for boxes, _ in X]), mapped, offsets), problem.Y)
    for field in ("boxes", "features", "offsets", "best", "losses"):
        assert np.array_equal(getattr(a, field), getattr(b, field))
    assert np.shares_memory(b.features, mapped) and mapped.flags.writeable and not b.features.flags.writeable
    assert b.features.dtype == np.float32 and b.place.dtype == np.float64


@pytest.mark.parametrize("smoothing", [accelerated.smoothings.TopK(3), accelerated.smoothings.Entropy()], ids=repr)
def test_answers_at_a_snapshot_are_kept_where_there_is_room(monkeypatch, smoothing):
    """Beyond the bound they are asked for again, with the same result."""
    model, data = MODELS["candidates"].training().packed(accelerated)
    hinge = accelerated.StructuralHinge(model, data, smoothing=smoothing)
    box, w = SVRG(), np.ones(model.size)
    kept = box.snapshot(hinge, w, 0.5).kept
    assert kept.labels.shape[1] > 0 and np.all(kept.outputs > 0)
    run = accelerated.svrg(hinge, lam=0.1, mu=0.5, epochs=3, rng=0)
    monkeypatch.setattr(candidates, "MOST", 16 * kept.labels.size - 1)
    assert not hasattr(box.snapshot(hinge, w, 0.5), "kept")
    close(accelerated.svrg(hinge, lam=0.1, mu=0.5, epochs=3, rng=0).x, run.x)
