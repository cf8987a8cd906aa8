"""Frank-Wolfe on taggers that have weights for some pairs alone: both panels take the same steps."""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
from conformance.tolerances import close
from reference.training.counterparts import counterpart


def sentences(rng, n):
    """Attributes with values, some in most sentences and some rare; labels that are valid in the scheme bio."""
    X, Y = [], []
    for _ in range(n):
        length, before = int(rng.integers(0, 7)), "O"
        X.append([{f"a{j}": rng.normal() for j in rng.integers(9, size=3)} for _ in range(length)])
        Y.append([])
        for _ in range(length):
            before = str(rng.choice(["B", "O"] if before == "O" else ["B", "I", "O"]))
            Y[-1].append(before)
    return X, Y


@pytest.mark.parametrize("options", [{}, {"cached_passes": 0, "average": "weighted"}, {"capacity": 1}])
@pytest.mark.parametrize("kept", [{}, {"transitions": "bio"}, {"pairs": "all", "transitions": "bio"}, {"least": 5}])
def test_the_panels_take_the_same_steps(rng, kept, options):
    X, Y = sentences(rng, 12)
    results = []
    for panel in (reference, accelerated):
        model = panel.TaggingModel.of(X, Y, None, **kept)
        assert model.restricted
        results.append(
            panel.bcfw(panel.StructuralHinge(model, model.pack(X, Y)), lam=0.05, epochs=12, rng=1, **options)
        )
    ours, theirs = results
    close(theirs.x, ours.x)
    close([(row.objective, row.dual) for row in theirs.history], [(row.objective, row.dual) for row in ours.history])


def test_labels_without_weights_are_one_output():
    """Two labellings with equal features and losses, of which one joins a set: the attribute has a weight for A."""
    X, Y = [[["x"]], [["y"]], [["y"]]], [["A"], ["B"], ["C"]]
    for panel in (reference, accelerated):
        model = panel.TaggingModel.of(X, Y, None)
        objective = panel.StructuralHinge(model, model.pack(X, Y))
        box = counterpart(panel.algorithms.BCFW(1.0, cached_passes=0), objective)
        state = box.init(objective, objective.zeros())
        for _ in range(4):
            state = box.epoch(objective, state, np.random.default_rng(0))
        sizes = state.sets.outputs if panel is accelerated else [len(state.sets[i].alpha) for i in range(3)]
        assert sizes[0] == 2
