"""Training without a kernel is said in a line; the defaults of learners and commands have one."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import accelerated
import reference.objectives
from conformance.application.test_app import run
from diptych.commands import solvers
from diptych.estimators import DependencyParser, MulticlassClassifier, SequenceLabeler

RNG = np.random.default_rng(0)
NAMED = [[[f"w{RNG.integers(9)}", f"v{RNG.integers(5)}"] for _ in range(4)] for _ in range(8)]
LABELS = [[str(RNG.integers(3)) for _ in x] for x in NAMED]
ARRAYS = [RNG.normal(size=(4, 3)) for _ in range(8)]
HEADS = [{"tag": list("DNV")}, {"tag": list("NVDN")}], [[2, 3, 0], [2, 0, 4, 2]]
DATA = {
    "named": (SequenceLabeler, NAMED, LABELS, {}),
    "hashed": (SequenceLabeler, NAMED, LABELS, {"bits": 6}),
    "all pairs": (SequenceLabeler, NAMED, LABELS, {"pairs": "all"}),
    "arrays": (SequenceLabeler, ARRAYS, LABELS, {}),
    "classes": (MulticlassClassifier, np.concatenate(ARRAYS), np.concatenate(LABELS), {}),
    "trees": (DependencyParser, *HEADS, {"templates": [("h.tag", "m.tag")], "bits": 8}),
}
SLOW = {("named", "multisample"), ("hashed", "multisample"), ("classes", "multisample"), ("trees", "multisample")}
OPTIMIZERS = {
    None: "epochs",
    "sgd": "epochs",
    "cutting_planes": "epochs",
    "multisample": "epochs",
    "lbfgs": "iterations",
}


@pytest.mark.parametrize(("kind", "optimizer"), [*itertools.product(DATA, OPTIMIZERS)])
def test_examples_are_visited_by_kernels_or_a_warning_says_so(monkeypatch, kind, optimizer):
    """The loops of the reference ask for one example at a time."""
    visits = []
    for name in ("value_and_gradient", "corners"):
        method = getattr(reference.objectives.StructuralHinge, name)

        def spied(self, w, batch=None, *more, method=method):
            visits.extend([1] * (batch is not None and len(batch) == 1))
            return method(self, w, batch, *more)

        monkeypatch.setattr(reference.objectives.StructuralHinge, name, spied)
    learner, X, Y, settings = DATA[kind]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner(loss="hinge", optimizer=optimizer, options={OPTIMIZERS[optimizer]: 1}, random_state=0, **settings).fit(
            X, Y
        )
    said = [str(each.message) for each in caught if "no kernel" in str(each.message)]
    assert bool(said) == ((kind, optimizer) in SLOW) == (len(visits) >= len(X))
    assert all(each.startswith(f"no kernel for {optimizer} on ") for each in said)


def test_a_command_says_it_on_stderr(tmp_path, capsys):
    path, line = tmp_path / "bank.txt", "no kernel for multisample on TaggingModel restricted: "
    path.write_text(
        "\n\n".join(
            "\n".join(f"{x[0]} {y}" for x, y in zip(*one, strict=True)) for one in zip(NAMED, LABELS, strict=True)
        )
    )
    words = "tag", "train", path, "--loss", "hinge", "--epochs", 1, "--quiet", "--optimizer"
    solvers._say_once.cache_clear()
    for optimizer, more, slow in (
        ("multisample", [], True),
        ("bcfw", [], False),
        ("multisample", ["--pairs", "all"], False),
    ):
        status, _, err = run(accelerated, capsys, *words, optimizer, *more)
        assert status == 0 and (line in err) == slow
