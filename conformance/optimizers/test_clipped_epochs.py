"""Epochs of block-coordinate Frank-Wolfe with weights kept >= 0, however a panel makes them, against the reference's
visits.
"""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.specimens.learners import options_of_box
from conformance.tolerances import close
from reference.optimizers.bcfw import BCFW
from reference.training.counterparts import counterpart

SIDES = (3, 1, 0, 4, 2, 3)


def objective(panel, rng, edge_features):
    """Grids of drawn features, one of them without nodes, and labels of which a planted model and noise decide."""
    model, X = panel.SegmentationModel(3, edge_features), []
    for side in SIDES:
        edges = panel.grid_edges(side, side)
        X.append((rng.normal(size=(side * side, 3)), edges, rng.random((len(edges), edge_features))))
    w = np.concatenate([rng.normal(size=3), rng.random(edge_features)])
    Y = [np.where(rng.random(len(y)) < 0.2, 1 - y, y) for y in model.predict(model.pack(X), None, w)]
    return panel.StructuralHinge(model, model.pack(X, Y))


@pytest.mark.parametrize("edge_features", [0, 1, 4])
@pytest.mark.parametrize("lam", [0.001, 0.1])
@pytest.mark.parametrize(
    "options", options_of_box("bcfw"), ids=lambda options: "-".join(map(str, options.values())) or "default"
)
def test_an_epoch_is_its_visits(other, rng, options, lam, edge_features):
    """Weights, not clipped, their mean, the losses, and the weights of the outputs found in each example."""
    seed = int(rng.integers(2**31))
    ours, theirs = (objective(panel, np.random.default_rng(seed), edge_features) for panel in (reference, other))
    box, one, two = BCFW(lam, **options), np.random.default_rng(5), np.random.default_rng(5)
    fast = counterpart(box, theirs)
    expected, found = box.init(ours), fast.init(theirs)
    for _ in range(4):
        expected, found = box.epoch(ours, expected, one), fast.epoch(theirs, found, two)
        for name in ("x", "mean", "loss", "mean_loss"):
            close(getattr(found, name), getattr(expected, name), scale=1e3)
        assert found.t == expected.t and one.random() == two.random()
    assert edge_features == 0 or np.any(np.asarray(expected.x) < 0)
