"""Sizes of 0 and 1 everywhere: no kernel reads past what there is, and both panels say the same."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.degenerate import CASES, SINGLE, learners, none, packed, some
from conformance.tolerances import close


def outcome(run):
    """Weights, value, certificate and the objective of each epoch; or what is refused, and why."""
    try:
        result = run()
    except (TypeError, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"
    certificate = np.nan if isinstance(result.certificate, str) else result.certificate
    return np.concatenate([result.x, [result.fun, certificate], [row.objective for row in result.history]])


def refused(answer):
    """Whether an answer is that the learner is not for such a model."""
    return isinstance(answer, str) and answer.startswith(
        ("UnsupportedError", "IntractableError", "ValueError: objective: ")
    )


@pytest.mark.parametrize("case", [case for case in CASES if case not in SINGLE])
def test_every_learner_agrees_on_the_smallest_data(other, case):
    runs = [dict(learners(panel, *packed(panel, case))) for panel in (reference, other)]
    for name in runs[0]:
        ours, theirs = (outcome(each[name]) for each in runs)
        if isinstance(ours, str):
            assert refused(ours) and theirs == ours, name
        else:
            np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("case", SINGLE)
def test_a_single_output_teaches_nothing(backend, case):
    """Its loss is 0 whatever the weights, so they stay at 0, where they began."""
    for name, run in learners(backend, *packed(backend, case)):
        answer = outcome(run)
        if not refused(answer):
            assert not isinstance(answer, str), (name, answer)
            np.testing.assert_allclose(answer[np.isfinite(answer)], 0.0, atol=1e-12, err_msg=name)


SEQUENCES = {
    "no, one and two positions": ([some(2, 2), none(0, 2), some(1, 2)], [[0, -1], [], [0]]),
    "no positions": ([none(0, 2)], [[]]),
    "no features": ([none(2, 0), none(1, 0)], [[0, -1], [0]]),
    "nothing": ([none(0, 0)], [[]]),
}


@pytest.mark.parametrize("case", SEQUENCES)
@pytest.mark.parametrize("transitions", ["own", "each", "free"])
def test_kernels_learn_from_the_smallest_sequences(backend, case, transitions):
    """With one label nothing; and what all kernels together see is one kernel's sum, for a penalty that adds
    squares."""
    X, Y = SEQUENCES[case]
    options = {"step_size": 0.5, "epochs": 2, "rng": 0}
    for labels in (1, 2):
        for storage in ("auto", "dense", "sparse", "blocks"):
            model = backend.KernelSequenceModel(
                [backend.kernels.Linear(), backend.kernels.Explicit()], labels, transitions=transitions
            )
            data = model.pack(X, [[y % labels for y in each] for each in Y], storage=storage)
            for loss in ("hinge", "crf"):
                result = backend.mkl(model, data, penalty=backend.HalfSquaredL2(0.1), loss=loss, **options)
                if labels == 1 or not sum(map(len, X)):
                    assert abs(result.fun) <= 1e-12 and not np.any(result.norms)
                else:  # the linear kernel is the inner product of the explicit features
                    close(result.norms[:, 0], result.norms[:, 1])
                assert [len(y) for y in model.predict(result.x, X)] == [len(x) for x in X]
