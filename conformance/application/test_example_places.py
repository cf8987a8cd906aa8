"""Errors about an example name it, its position and the field; generators, data frames and series are read."""

from __future__ import annotations

import numpy as np
import pytest

from diptych import estimators as learners
from reference.example_errors import ExampleError

NAN, ONES = float("nan"), np.ones((2, 2))
NAMED, LABELS = [[{"size": 1.0}, {"size": 2.0}]] * 2, [["A", "B"], ["B", "A"]]
TOKENS = [[{"tag": "D", "word": "the"}, {"tag": "N"}], [{"tag": "N"}, {"tag": "V"}]]
IMAGE = (np.ones((2, 1)), [[0, 1]], np.ones((1, 1)))


class Frame(dict):
    """What Diptych asks of a data frame; iterated, it gives its columns."""

    columns = property(dict.keys)

    def __len__(self):
        return len(next(iter(self.values())))

    def to_dict(self, orient):
        return (
            dict(self)
            if orient == "list"
            else [dict(zip(self, row, strict=True)) for row in zip(*self.values(), strict=True)]
        )


PACKED = [
    (lambda b: b.SequenceModel(2, 2).pack([ONES, np.diag([1, NAN])]), "X[1][1]: column 1: expected a finite"),
    (lambda b: b.SequenceModel(2, 2).pack([ONES, -np.diag([0, np.inf])]), "X[1][1]: column 1: expected a finite"),
    (lambda b: b.SequenceModel(2, 2).pack([ONES, Frame(a=[1, 2], size=[3, NAN])]), "X[1][1]: size: expected a finite"),
    (lambda b: b.SequenceModel(2, 2).pack([[[0]], [[1], [0.5, 1.0]]]), "X[1][1]: .*; dense features go in as an array"),
    (lambda b: b.SequenceModel(2, 2).pack([[[0]], [[1], [7]]]), "X[1][1]: .* in 0..1, got 7; dense features"),
    (lambda b: b.SequenceModel(2, ["A", "B"]).pack([ONES] * 2, [["A"] * 2, ["B", "C"]]), "Y[1][1]: unknown label"),
    (lambda b: b.SequenceModel(2, 2).pack([ONES] * 2, [[0, 1], [True, 0]]), "Y[1][0]: expected label .*, got True"),
    (lambda b: b.SequenceModel(2, 2).pack([ONES] * 2, [[0, 1], [0, -1]]), "Y[1][1]: .* indices in 0..1, got -1"),
    (lambda b: b.MulticlassModel(2, 2).pack(np.diag([1, NAN])), "X[1]: column 1: expected a finite number, got nan"),
    (lambda b: b.MulticlassModel(2, 2).pack(ONES, [0, 3]), "Y[1]: expected label indices in 0..1, got 3"),
    (lambda b: b.TreeModel(2, 2).pack([(ONES, [-1, 0]), (ONES, [-1, 9])]), "X[1][1]: expected parents in -1..1"),
    (lambda b: b.AlignmentModel(1).pack([np.ones((2, 2, 1))] * 2, [[0, 1], [1, 1]]), "Y[1][1]: expected each column"),
    (lambda b: b.AlignmentModel(1).pack([np.ones((2, 2, 1))] * 2, [[0, 1], [0, 2]]), "Y[1][1]: expected columns in"),
    (lambda b: b.SegmentationModel(1, 1).pack([IMAGE, (IMAGE[0] * NAN, *IMAGE[1:])]), "X[1][0]: features: column 0"),
    (lambda b: b.SegmentationModel(1, 1).pack([IMAGE] * 2, [[0, 1], [0, 2]]), "Y[1][1]: expected labels 0 and 1"),
    (lambda b: b.TaggingModel(["A"], ["word"], bits=3).pack([{"word": ["a"]}, {"word": ["a", 1]}]), "X[1][1]: word:"),
    (lambda b: b.KernelSequenceModel([b.kernels.Linear()], 2).pack([[[1.0]], [[1.0], [NAN]]]), "X[1][1]: column 0:"),
    (lambda b: b.Weighted(b.LogLoss(m := b.MulticlassModel(2, 2), m.pack(ONES, [0, 1])), [1, NAN]), "weights[1]: expe"),
]  # fmt: skip
TAGGER, PARSER = {"name": "SequenceLabeler"}, {"name": "DependencyParser", "templates": [("h.tag", "m.tag")], "bits": 6}
FITTED = [
    (TAGGER, ([*NAMED[:1], [{"size": 1.0}, {"size": NAN}]], LABELS), "X[1][1]: size: expected a finite"),
    (TAGGER, ([*NAMED[:1], [{"size": 1.0}, {"size": None}]], LABELS), "X[1][1]: size: expected a number or a string"),
    *((TAGGER, (NAMED, [["A", "B"], ["A", bad]]), "y[1][1]: .* all strings") for bad in (None, 1.0, NAN, True, 1, b"")),
    *((TAGGER, (NAMED, [[0, 1], [1, bad]]), "y[1][1]: .* all integers") for bad in (None, 1.0, NAN, True, "A")),
    (TAGGER, (NAMED, [["A", "B"], ["A"]]), "y[1]: expected 2 labels, one for each position of X[1], got 1"),
    (TAGGER, ([[[0, 1], [1, 1]]] * 2, LABELS), "X[0][0]: .*; dense features go in as an array"),
    (TAGGER, (NAMED, LABELS, [1.0, NAN]), "sample_weight[1]: expected finite numbers >= 0, got nan"),
    ({**TAGGER, "transitions": "bio"}, (NAMED, [["O", "B-X"], ["O", "I-X"]]), "y[1][1]: I-X after O, at token 1"),
    (PARSER, (TOKENS, [[2, 0], [2, 7]]), "y[1][1]: expected heads in 0..2, got 7"),
    (PARSER, (TOKENS, [[2, 0], [2, 1]]), "y[1][0]: expected a tree, got heads in a cycle above token 1"),
    (PARSER, (TOKENS, [[2, 0], [2, None]]), "y[1][1]: expected a head, an integer in 0..2, got None"),
    (PARSER, ([TOKENS[0], [{"tag": "N"}, {"word": "x"}]], [[2, 0]] * 2), "X[1][1]: .*, got no tag"),
    ({"name": "MulticlassClassifier"}, (np.diag([1, NAN]), ["a", "b"]), "X[1]: column 1: expected a finite number"),
    ({"name": "MulticlassClassifier"}, (ONES, ["a", None]), "y[1]: expected a class, got None"),
    ({"name": "MulticlassClassifier"}, ([[1.0], {"a": 1}], ["a", "b"]), "X[1]: expected a row of numbers, got {.*Dict"),
    ({"name": "MulticlassClassifier"}, ([[1.0], ["a"]], ["a", "b"]), "X[1]: expected a row of numbers, got ['a']"),
    ({"name": "MulticlassClassifier"}, ([[1.0], [1, 2]], ["a", "b"]), "X[1]: expected 1 numbers as in X[0], got 2"),
]  # fmt: skip


def said(call, message):
    with pytest.raises(ExampleError) as error:
        call()
    place, _, problem = message.partition(": ")
    assert str(error.value).startswith(f"{place}: ")
    assert all(part in str(error.value) for part in problem.split(".*"))


@pytest.mark.parametrize(("call", "message"), PACKED)
def test_errors_of_packing_name_the_place(backend, call, message):
    said(lambda: call(backend), message)


@pytest.mark.parametrize(("learner", "arguments", "message"), FITTED)
def test_errors_of_learners_name_the_place(learner, arguments, message):
    options = {**learner, "panel": "reference"}
    said(lambda: getattr(learners, options.pop("name"))(**options).fit(*arguments), message)


def test_other_forms_of_examples_are_the_same_examples(backend):
    """Generators, data frames and a dictionary for each token are packed and learned as lists and columns are."""
    model = backend.SequenceModel(2, ["A", "B"])
    packed = model.pack((Frame(a=[1.0, 0.0], b=[0.0, 2.0]) for _ in range(2)), (iter(y) for y in LABELS))
    expected = model.pack([np.diag([1.0, 2.0])] * 2, LABELS)
    assert packed.rows.data.tolist() == expected.rows.data.tolist()
    assert packed.labels.tolist() == expected.labels.tolist()
    columns = [{"tag": [token["tag"] for token in x]} for x in TOKENS]
    parser = learners.DependencyParser(templates=[("h.tag", "m.tag")], bits=6, random_state=0, panel="reference")
    for X in (TOKENS, list(map(Frame, columns)), (x for x in TOKENS)):
        assert np.array_equal(parser.fit(X, (y for y in [[2, 0]] * 2)).coef_, parser.fit(columns, [[2, 0]] * 2).coef_)
    labeler = learners.SequenceLabeler(lam=0.1, panel="reference").fit((x for x in NAMED), (y for y in LABELS))
    assert labeler.score((x for x in NAMED), (y for y in LABELS)) == labeler.score(NAMED, LABELS)
    for call in (model.pack, parser.predict, labeler.predict):
        with pytest.raises(TypeError, match="got a single data frame; .frame. is a list of one"):
            call(Frame(tag=["D"]))
    with pytest.raises(ValueError, match=r"sample_weight: .*\(a sequence, not a token\), got \(2, 2\)"):
        labeler.fit(NAMED, LABELS, sample_weight=ONES)
    with pytest.raises(ValueError, match="options: online_proximal needs a step size"):
        learners.SequenceLabeler(optimizer="online_proximal", panel="reference").fit(NAMED, LABELS)
