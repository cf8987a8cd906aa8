"""Kernels for features of pairs of neighbours: the reference's answers and steps at any scale, for features that occur
twice and not at all, with forbidden labels and on any number of threads.
"""

from __future__ import annotations

import numpy as np
import pytest

import accelerated.models.sequence
import reference
from accelerated.problems import problem_of
from accelerated.threads import set_num_threads
from conformance.specimens.models import sentences

X, Y = sentences(np.random.default_rng(0), 8)  # of 0 and 1 tokens, too
OPTIONS = [{}, {"pairs": "all"}, {"pairs": "all", "transitions": "bio"}, {"bits": 6}]


def observed(x, t):
    return [] if x["word"][t] == "0" else ["twice", "twice", f"tag={x['tag'][t]}"]


def losses(panel, examples=(X, Y), **options):
    """The log loss, the hinge, and the hinge smoothed by entropy."""
    model = panel.TaggingModel.of(X, Y, ["bias", "word"], edge_templates=observed, **options)
    data, smooth = model.pack(*examples), panel.smoothings.Entropy()
    hinges = panel.StructuralHinge(model, data), panel.StructuralHinge(model, data, smoothing=smooth)
    return panel.LogLoss(model, data), *hinges


def answers(panel, scale, examples=(X, Y), **options):
    """Values, gradients and labels at random weights of this scale."""
    log_loss, hinge, smooth = losses(panel, examples, **options)
    w = scale * np.random.default_rng(1).normal(size=log_loss.model.size)
    found = [*log_loss.value_and_gradient(w), *hinge.value_and_gradient(w), *smooth.value_and_gradient(w, mu=0.5)]
    return [*found, log_loss.value(w), np.concatenate(log_loss.model.predict(log_loss.data, None, w))]


@pytest.mark.beyond("compiles")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 60.0, 1e4])
def test_answers_are_those_of_the_reference(other, options, scale):
    """At 60 some tables range over more than exp can hold, at 1e4 all: sums are then in the log domain."""
    for mine, theirs in zip(answers(other, scale, **options), answers(reference, scale, **options), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9 * max(1.0, scale))
    for loss, mu in zip(losses(other, **options), (1.0, 0.0, 0.5), strict=True):
        assert "Edge" in type(problem_of(loss, mu)).__name__


@pytest.mark.beyond("compiles")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("which", "l1"), [(0, 0.0), (0, 0.02), (1, 0.0)])
def test_exponentiated_gradient_takes_the_same_steps(other, options, which, l1):
    runs = [
        panel.exponentiated_gradient(losses(panel, **options)[which], lam=0.1, l1=l1, epochs=4, rng=0)
        for panel in (other, reference)
    ]
    for field in ("x", "fun", "certificate", "oracle_calls"):
        np.testing.assert_allclose(*(getattr(run, field) for run in runs), rtol=1e-9, atol=1e-9)


def test_too_many_tables_are_left_to_the_loop(other, monkeypatch):
    expected = answers(other, 1.0)
    monkeypatch.setattr(accelerated.models.sequence, "LARGEST_TABLES", 1)
    assert problem_of(losses(other)[0], 1.0) is None
    for mine, theirs in zip(answers(other, 1.0), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    assert other.exponentiated_gradient(losses(other)[0], lam=0.1, epochs=2, rng=0).nit == 2


def test_the_number_of_threads_changes_no_bit(other):
    many, found = (80 * X, 80 * Y), []
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            found.append(answers(other, 1.0, many))
    finally:
        set_num_threads(None)
    assert all(map(np.array_equal, *found))
