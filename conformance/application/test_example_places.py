"""Errors about an example name it, its position and the field; generators, data frames and series are read."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from conformance.specimens.pages import entries
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


PARSER = {"templates": [("h.tag", "m.tag")], "bits": 6}


@pytest.mark.parametrize(("entry", "message"), entries("wrong_examples.txt"))
def test_errors_name_the_place(backend, entry, message):
    every = {name: partial(getattr(learners, name), panel="reference") for name in learners.__all__}
    with pytest.raises(ExampleError) as error:
        eval(entry, {**globals(), **every, "b": backend})
    place, _, problem = message.partition(": ")
    assert str(error.value).startswith(f"{place}: ")
    assert all(part in str(error.value) for part in problem.split(".*"))


def test_other_forms_of_examples_are_the_same_examples(backend):
    """Generators, data frames and a dictionary for each token are packed and learned as lists and columns are."""
    model = backend.SequenceModel(2, ["A", "B"])
    packed = model.pack((Frame(a=[1.0, 0.0], b=[0.0, 2.0]) for _ in range(2)), (iter(y) for y in LABELS))
    expected = model.pack([np.diag([1.0, 2.0])] * 2, LABELS)
    assert packed.rows.data.tolist() == expected.rows.data.tolist()
    assert packed.labels.tolist() == expected.labels.tolist()
    columns = [{"tag": [token["tag"] for token in x]} for x in TOKENS]
    parser = learners.DependencyParser(**PARSER, random_state=0, panel="reference")
    for X in (TOKENS, list(map(Frame, columns)), (x for x in TOKENS)):
        assert np.array_equal(parser.fit(X, (y for y in [[2, 0]] * 2)).coef_, parser.fit(columns, [[2, 0]] * 2).coef_)
    labeler = learners.SequenceLabeler(lam=0.1, panel="reference").fit((x for x in NAMED), (y for y in LABELS))
    assert labeler.score((x for x in NAMED), (y for y in LABELS)) == labeler.score(NAMED, LABELS)
    for call in (model.pack, parser.predict, labeler.predict):
        with pytest.raises(TypeError, match="got a single data frame; .frame. is a list of one"):
            call(Frame(tag=["D"]))
