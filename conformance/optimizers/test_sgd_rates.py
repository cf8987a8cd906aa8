"""The rate of Table 1 (Pillutla et al.) for stochastic subgradients of the structural hinge: not smooth, strongly
convex by its regulariser."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.listed_svm import hinge, labelling, listed
from conformance.optimizers.optima import bracket

SEEDS = 6


@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_stochastic_subgradients_keep_their_rate(backend, rng, lam):
    """E F(w_bar) - F* <= 8 R^2/(lam (T + 1)) with steps 1/(lam t), the weighted average and examples drawn at random.

    R is the largest ||phi(x, y) - phi(x, y_i)||; then lam ||w_t|| <= R, and subgradients have norm 2 R at most. A pass
    over T drawn examples
    takes them in random order, which are draws again. From 20 to 320 steps the mean gap falls at least as 1/T does, up
    to chance.
    """
    X, Y = labelling(rng, (2, 1, 2, 1, 2), L=3)
    problem = listed(X, Y, 3, lam)
    low = bracket(hinge(backend, X, Y), lam)[0]
    R = max(np.max(np.linalg.norm(V, axis=1)) for V in problem.V)
    gaps = []
    for T in (20, 320):
        found = []
        for seed in range(SEEDS):
            drawn = np.random.default_rng(seed).integers(len(X), size=T)
            objective = hinge(backend, [X[i] for i in drawn], [Y[i] for i in drawn])
            result = backend.sgd(
                objective, lam=lam, step_size=backend.steps.Pegasos(), epochs=1, average="weighted", rng=0
            )
            found.append(problem.primal(result.x) - low)
        gaps.append(np.mean(found))
        assert 0 <= gaps[-1] <= 8 * R**2 / (lam * (T + 1))
    assert gaps[1] <= 2 * gaps[0] * 20 / 320
