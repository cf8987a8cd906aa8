"""Data packed without true outputs: every learner says so in the same words, in both panels."""

from __future__ import annotations

import numpy as np
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


def test_kernels_name_the_missing_labels(backend):
    model = backend.KernelSequenceModel([backend.kernels.Linear()], 2)
    with pytest.raises(ValueError, match=r"^Y: this data was packed without labels; pack\(X, Y\) gives them$"):
        backend.mkl(model, model.pack([np.ones((2, 1))]), lam=0.1, step_size=0.1)


@pytest.mark.parametrize("bits", [None, 4])
def test_the_parser_names_the_missing_heads(backend, bits):
    pytest.importorskip("sklearn")
    from diptych.estimators import DependencyParser

    parser = DependencyParser(templates=[("h.tag", "m.tag")], bits=bits, panel=backend.module)
    with pytest.raises(ValueError, match="^y: expected the heads of each sentence, got None$"):
        parser.fit([{"tag": ["D", "N"]}], None)


def test_an_example_without_outputs_to_choose_from_is_named(backend):
    model = backend.ListModel(lambda x: np.zeros((x, 2)), backend.Table, size=2)
    with pytest.raises(
        ValueError, match=r"^part_features\(X\[1\]\): expected a row for each of at least one output, got none$"
    ):
        model.pack([1, 0], [0, 0])
