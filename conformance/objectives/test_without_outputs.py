"""Data packed without true outputs: every learner says so in the same words, in both panels."""

from __future__ import annotations

import pytest

from conformance.degenerate import CASES, learners, packed

MISSING = {
    "AlignmentModel": "alignments",
    "CandidateModel": "true boxes",
    "ListModel": "outputs",
    "MulticlassModel": "labels",
    "ParsingModel": "heads",
    "SegmentationModel": "labels",
    "SequenceModel": "labels",
    "SubwindowModel": "true boxes",
    "TaggingModel": "labels",
    "TreeModel": "labels",
    "TwoLayerModel": "true boxes",
}
# what a learner says of the model, whatever the data
OF_THE_MODEL = ("IntractableError", "UnsupportedError", "ValueError: objective: ")


@pytest.mark.parametrize("case", CASES)
def test_every_learner_names_the_missing_outputs(backend, case):
    model, data = packed(backend, case, outputs=False)
    missing = f"Y: this data was packed without {MISSING[type(model).__name__]}; pack(X, Y) gives them"
    asked = 0
    for name, run in learners(backend, model, data):
        with pytest.raises((TypeError, ValueError)) as raised:
            run()
        answer = f"{type(raised.value).__name__}: {raised.value}"
        assert answer.startswith(OF_THE_MODEL) or answer == f"ValueError: {missing}", name
        asked += missing in answer
    assert asked > 3
    objective = backend.StructuralHinge(model, data)
    for ask in (objective.value_and_gradient, objective.linearize, objective.corners):
        with pytest.raises(ValueError) as raised:
            ask(objective.zeros())
        assert str(raised.value) == missing
