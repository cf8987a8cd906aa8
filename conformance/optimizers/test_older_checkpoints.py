"""Checkpoints written before states had their present names: a run continues from them as if it had not stopped.

The files in ``older/`` are of three epochs by the reference, on the objective below, with ``rng=0``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reference.archives import read_npz
from reference.training.checkpoints import FORMER

OLDER = Path(__file__).parent / "older"
OPTIONS = {"sgd": {"mu": 0.5}, "svrg": {"mu": 0.5}, "casimir": {}, "prox_linear": {}}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_continues_from_an_older_file(backend, name):
    model = backend.MulticlassModel(n_features=2, labels=["a", "b"])
    data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])
    hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy())
    options = {"lam": 0.1, "rng": 0, "iterations" if name == "prox_linear" else "epochs": 6, **OPTIONS[name]}
    learner = getattr(backend, name)
    whole, resumed = learner(hinge, **options), learner(hinge, resume=OLDER / f"{name}.npz", **options)
    assert resumed.message == whole.message and len(resumed.history) == len(whole.history)
    assert [row.oracle_calls for row in resumed.history] == [row.oracle_calls for row in whole.history]
    assert np.allclose(resumed.x, whole.x, rtol=1e-9, atol=1e-12) and np.isclose(resumed.fun, whole.fun, rtol=1e-9)


def test_each_former_state_has_its_file():
    headers = [str(read_npz(path, "checkpoint")["header"]) for path in sorted(OLDER.glob("*.npz"))]
    assert all(any(f'"{kind}"' in header for header in headers) for kind in FORMER)
