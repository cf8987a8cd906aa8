"""``train --optimizer online-proximal``: every regularizer by name, with groups."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.application.test_app import data_file, run  # noqa: F401
from conformance.tolerances import close
from diptych.files import load_model, load_sequences

NAMED = {
    "l1": ["--tau", 0.01],
    "l2": ["--lam", 0.1],
    "elastic-net": ["--tau", 0.01, "--lam", 0.1],
    "l21": ["--tau", 0.01],
    "squared-l21": ["--lam", 0.1, "--groups", "labels"],
    "elastic-net-mkl": ["--tau", 0.01, "--lam", 0.1],
    "non-sparse-mkl": ["--lam", 0.1, "--power", 1.5],
    "sparse-group-lasso": ["--tau", 0.01, "--group-tau", 0.02],
    "l21-ball": ["--radius", 1.0, "--groups", "FILE"],
}


def value(name, w, groups):
    """The regularizer of NAMED, written out."""
    norms = np.array([np.linalg.norm(w[groups == k]) for k in range(groups.max() + 1)])
    l1, l2 = np.abs(w).sum(), w @ w
    return {
        "l1": 0.01 * l1,
        "l2": 0.05 * l2,
        "elastic-net": 0.01 * l1 + 0.05 * l2,
        "l21": 0.01 * norms.sum(),
        "squared-l21": 0.05 * norms.sum() ** 2,
        "elastic-net-mkl": 0.01 * norms.sum() + 0.05 * l2,
        "non-sparse-mkl": 0.05 * (norms**1.5).sum(),
        "sparse-group-lasso": 0.01 * l1 + 0.02 * norms.sum(),
        "l21-ball": 0.0 if norms.sum() <= 1.0 + 1e-9 else np.inf,
    }[name]


def words(path, name):
    options = [str(path.parent / "groups.txt") if word == "FILE" else word for word in NAMED[name]]
    return ["train", path, "--optimizer", "online-proximal", "--regularizer", name, *options]


@pytest.mark.parametrize("name", NAMED)
def test_every_regularizer_by_name(backend, data_file, tmp_path, name, cli):
    """The report's objective is F + R at the saved model, with R and the groups written out here."""
    (data_file.parent / "groups.txt").write_text("0\n-1\n1\n")
    model = tmp_path / "model.npz"
    found = cli.reported(*words(data_file, name), "--epochs", 3, "--save", model)
    loaded, w, info = load_model(model, backend.module)
    F, L = loaded.n_features, loaded.n_labels
    rows = (len(w) - L * L) // L
    number = {"labels": None, "FILE": [0, -1, 1]}.get(NAMED[name][-1], list(range(F)))
    rest = 0 if number is None else max(number) + 1
    groups = (
        np.tile(np.arange(L), rows + L)
        if number is None
        else np.concatenate([np.repeat([*number, *[rest] * (rows - F)], L), np.full(L * L, rest)])
    )
    letters = load_sequences(data_file)
    F_w = backend.LogLoss(loaded, loaded.pack(letters.X, letters.Y)).value_and_gradient(w)[0]
    close(found["objective"], F_w + value(name, w, groups))
    assert info["regularizer"] == name and len(found["history"]) == 3 and np.any(w != 0)
