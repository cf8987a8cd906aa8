"""What models refuse: arguments of constructors and of ``pack``, data of another model, with the messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.specimens import Wrong
from conformance.specimens.models import LABELS

__all__ = ["WRONG"]

WORDS = [{"word": ["a"]}, {"word": ["a", "b"]}]
TEMPLATES = [("h.tag", "m.tag"), ("h.tag", "direction"), ("m.tag", "distance"), ("direction",), ("h.tag", "b.tag")]
IMAGE = (np.ones((3, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1)))
PAIR = ([[0, 0, 2, 2], [1, 1, 3, 4]], np.ones((2, 3)))
WORD_IMAGE = np.zeros((2, 3), np.int64)


def _pack(make: Any, *cases: tuple[Any, ...]) -> list[Wrong]:
    """Examples (X, Y, message, error) that ``pack`` refuses."""
    return [Wrong(lambda b, X=X, Y=Y: make(b).pack(X, Y), *message) for X, Y, *message in cases]


def _of_another(kind: str, made: tuple[Any, ...], X: Any, Y: Any, *others: tuple[Any, str]) -> list[Wrong]:
    """Data of a model that one with other arguments refuses, in an objective and in prediction."""

    def ask(b: Any, other: Any, predict: bool) -> Any:
        data, model = getattr(b, kind)(*made).pack(X, Y), getattr(b, kind)(*other)
        return model.predict(data, None, np.zeros(model.size)) if predict else b.StructuralHinge(model, data)

    return [
        Wrong(lambda b, o=other, p=predict: ask(b, o, p), message)
        for other, message in others
        for predict in (False, True)
    ]


def _sequences(b: Any) -> Any:
    return b.SequenceModel(3, ["a", "b"])


def _trees(b: Any) -> Any:
    return b.TreeModel(3, ["a", "b"])


SEQUENCES = [
    *_pack(
        _sequences,
        ([np.zeros((2, 3))], [[0, 9]], r"Y\[0\]\[1\]: expected label indices in 0..1, got 9"),
        ([np.zeros((2, 3))], [[0]], r"Y\[0\]: expected 2 labels, one for each position of X\[0\], got 1"),
        ([np.zeros((2, 3))], [], "Y: expected 1 label sequences"),
        ([np.zeros((2, 4))], None, r"X\[0\]: expected 3 features, got 4"),
        ([[[0], [5]]], None, r"X\[0\]\[1\]: expected feature indices in 0..2, got 5"),
        ([np.zeros((1, 3))], [["x"]], r"Y\[0\]\[0\]: unknown label 'x'; the model knows a, b"),
        ([np.zeros((1, 3))], [[0.5]], r"Y\[0\]\[0\]: expected label names or integer indices", TypeError),
        (
            [np.zeros((1, 3)), np.full((1, 3), np.inf)],
            None,
            r"X\[1\]\[0\]: column 0: expected a finite number, got inf",
        ),
    ),
    *_of_another(
        "SequenceModel",
        (3, 5),
        [np.ones((2, 3))],
        [[0, 4]],
        ((2, 5), "packed by a different model, with 5 columns; this one has 4"),
        ((3, 2), "labels beyond the model's 2"),
    ),
    *_of_another("MulticlassModel", (3, 5), np.ones((2, 3)), [0, 4], ((3, 2), "labels beyond the model's 2")),
    Wrong(lambda b: b.SequenceModel(3.9, 2), "n_features: expected an integer >= 0, got 3.9", TypeError),
    Wrong(lambda b: b.SequenceModel(3, 2, start_stop="no"), "start_stop: expected True or False, got 'no'", TypeError),
    Wrong(lambda b: b.SequenceModel(1, 2, cost=np.zeros((3, 3))), r"cost: expected shape \(2, 2\), got \(3, 3\)"),
    Wrong(lambda b: b.MulticlassModel(1, 2, cost=np.ones((2, 2))), "zeros on the diagonal"),
    Wrong(lambda b: b.SequenceModel(1, ["a", "a"]), "labels: names must differ"),
    Wrong(lambda b: b.SequenceModel(1, 0), "labels: expected at least one label"),
    Wrong(
        lambda b: (m := b.SequenceModel(1, 2)).scores(m.pack([np.ones((2, 1))]), np.array([-1]), np.zeros(10)),
        "batch: expected example numbers",
    ),
]

TREES = [
    *_pack(
        _trees,
        ([(np.zeros((2, 3)), [-1, 0])], [[0, 9]], r"Y\[0\]\[1\]: expected label indices in 0..1, got 9"),
        ([(np.zeros((2, 3)), [-1, 0])], [[0]], r"Y\[0\]: expected 2 labels, one for each node of X\[0\], got 1"),
        ([(np.zeros((2, 4)), [-1, 0])], [[0, 0]], r"X\[0\]: expected 3 features, got 4"),
        ([(np.zeros((2, 3)), [-1])], [[0, 0]], r"X\[0\]: expected the parents of 2 nodes, .* shape \(1,\)"),
        ([(np.zeros((2, 3)), [-1, 0.5])], [[0, 0]], r"X\[0\]: expected the parents of 2 nodes, integers"),
        ([(np.zeros((2, 3)), [-1, 2])], [[0, 0]], r"X\[0\]\[1\]: expected parents in -1..1, got 2"),
        ([(np.zeros((2, 3)), [1, 0])], [[0, 0]], r"X\[0\]: parents: expected a forest, got a cycle"),
        ([(np.zeros((2, 3)), [-1, 0], [])], [[0, 0]], r"X\[0\]: expected a pair \(features, parents\), got 3 items"),
        ([(np.full((2, 3), np.inf), [-1, 0])], [[0, 0]], r"X\[0\]\[0\]: column 0: expected a finite number, got inf"),
    ),
    *_of_another(
        "TreeModel",
        (3, 5),
        [(np.ones((2, 3)), [-1, 0])],
        [[0, 4]],
        ((2, 5), "packed by a different model, with 4 columns; this one has 3"),
        ((3, 2), "labels beyond the model's 2"),
    ),
]


def _tagger(**change: Any) -> Any:
    options = {"labels": LABELS["bio"], "templates": ["bias", "word"], "vocabulary": ["bias", "word[0]=a"], **change}
    return lambda b: b.TaggingModel(**options)


def _masked(scheme: str) -> Any:
    return lambda b: b.TaggingModel(LABELS[scheme], ["bias"], vocabulary=["bias"], transitions=scheme)


TAGS = [
    Wrong(_tagger(vocabulary=None), "vocabulary: expected either a vocabulary or bits"),
    Wrong(_tagger(bits=4), "vocabulary: expected either a vocabulary or bits"),
    Wrong(_tagger(vocabulary=None, bits=1), r"bits: expected at most 30, and 2\^bits >= 5"),
    Wrong(_tagger(vocabulary=["x", "x"]), "vocabulary: expected different attributes"),
    Wrong(_tagger(pairs=[1, 1]), r"pairs: expected different numbers in 0..9, in order"),
    Wrong(_tagger(pairs=[10]), r"pairs: expected different numbers in 0..9"),
    Wrong(_tagger(pairs=[0.5]), "pairs: expected integers", TypeError),
    Wrong(_tagger(label_pairs=[25]), r"label_pairs: expected different numbers in 0..24"),
    Wrong(_tagger(label_pairs=[2], transitions="bio"), "label_pairs: I-X after O is not allowed by transitions='bio'"),
    Wrong(_tagger(transitions="iob"), "transitions: expected one of bio, iob1, iobes, bilou, .*, got 'iob'"),
    Wrong(
        _tagger(labels=["N", "V"], transitions="bio"), "transitions: expected labels O and B-X, I-X for bio, got 'N'"
    ),
    Wrong(_tagger(labels=["I-X"], transitions="bio"), "transitions: none of the labels I-X may begin a sentence"),
    Wrong(_tagger(templates=["word["]), "templates: expected bias"),
    *_pack(
        _masked("bio"),
        (
            WORDS,
            [["O"], ["I-X", "O"]],
            r"Y\[1\]\[0\]: I-X after the start, at token 0, is not allowed by transitions='bio'",
        ),
        (
            WORDS,
            [["O"], ["B-X", "I-Y"]],
            r"Y\[1\]\[1\]: I-Y after B-X, at token 1, is not allowed by transitions='bio'",
        ),
    ),
    *_pack(
        _masked("iobes"),
        (WORDS[:1], [["B-X"]], r"Y\[0\]\[0\]: the end after B-X, at token 1, is not allowed by transitions='iobes'"),
    ),
    Wrong(lambda b: b.TaggingModel.of([], [], ["bias"]), "Y: expected names of labels"),
    Wrong(lambda b: b.TaggingModel.of(WORDS, [["O"], ["O"]], ["bias"]), r"Y\[1\]: expected 2 labels"),
    Wrong(lambda b: b.TaggingModel.of(WORDS, [["O"]], ["bias"]), "Y: expected 2 label sequences"),
    Wrong(
        lambda b: b.TaggingModel.of(WORDS, [["O"], ["O", "O"]], ["bias"], pairs="some"),
        "pairs: expected observed or all, got 'some'",
    ),
]


def _parser(templates: Any, **options: Any) -> Any:
    return lambda b: b.ParsingModel(templates, **options)


TWO = [("h.tag",), ("m.tag",)]
ARCS = [
    Wrong(_parser(TEMPLATES, blocks=1), "blocks: expected True or False, got 1", TypeError),
    Wrong(
        _parser(TEMPLATES, vocabulary=[3, 5, 7, 9, 11], blocks=True),
        "vocabulary: expected the keys of each of 5 templates",
    ),
    Wrong(
        _parser(TEMPLATES, vocabulary=[[3]], blocks=True),
        r"vocabulary: expected the keys of each of 5 templates.*got 1 lists",
    ),
    Wrong(_parser(TWO, vocabulary=[[3], [5, 4]], blocks=True), r"vocabulary\[1\]: expected keys in rising order"),
    Wrong(
        _parser(TWO, vocabulary=[[3], [3]], blocks=True), "vocabulary: expected different keys in different templates"
    ),
    Wrong(_parser(TEMPLATES, vocabulary=[[3], [4]]), "vocabulary: expected keys in rising order"),
    Wrong(lambda b: _parser(TEMPLATES)(b).groups, "groups: templates share weights"),
    Wrong(lambda b: _parser(TEMPLATES)(b).template_norms(np.zeros(2**20)), "template_norms: templates share weights"),
    Wrong(
        lambda b: _parser(TEMPLATES, bits=2, blocks=True)(b).template_norms(np.zeros(3)),
        r"w: expected shape \(20,\), got \(3,\)",
    ),
]

ALIGNMENTS = [
    *_pack(
        lambda b: b.AlignmentModel(3),
        ([np.zeros((2, 2))], None, r"X\[0\]: expected features of shape \(p, q, 3\), got \(2, 2\)"),
        ([np.zeros((2, 2, 4))], None, r"X\[0\]: expected features of shape \(p, q, 3\), got \(2, 2, 4\)"),
        ([np.full((1, 1, 3), np.inf)], None, r"X\[0\]\[0\]: column 0: feature 0: expected a finite number, got inf"),
        ([np.zeros((2, 2, 3))], [], "Y: expected 1 alignments"),
        ([np.zeros((2, 2, 3))], [[0]], r"Y\[0\]: expected 2 columns, one for each row, got 1"),
        ([np.zeros((2, 2, 3))], [[0, 0]], r"Y\[0\]\[1\]: expected each column once at most, got \[0, 0\]"),
        ([np.zeros((2, 2, 3))], [[0, 2]], r"Y\[0\]\[1\]: expected columns in 0..1, or -1 for none, got 2"),
        ([np.zeros((2, 2, 3))], [[0, -1]], r"Y\[0\]: expected 2 aligned rows \(null=True allows fewer\)"),
        ([np.zeros((2, 2, 3))], [[0.0, 1.0]], r"Y\[0\]: expected column numbers of shape \(2,\)", TypeError),
    ),
    *_of_another(
        "AlignmentModel",
        (2,),
        [np.zeros((2, 2, 2))],
        [[0, 1]],
        ((3,), "data: packed by a different model, with 2 features; this one has 3"),
    ),
    Wrong(
        lambda b: b.StructuralHinge(
            b.AlignmentModel(2), b.AlignmentModel(2, null=True).pack([np.zeros((2, 2, 2))], [[0, -1]])
        ),
        "null=True allows fewer",
    ),
    Wrong(lambda b: b.AlignmentModel(1, null=1), "null: expected True or False, got 1", TypeError),
]

IMAGES = [
    *_pack(
        lambda b: b.SegmentationModel(2, 1),
        *(
            ([IMAGE, image], None, rf"X\[1\]{message}", *error)
            for image, message, *error in (
                (IMAGE[:2], r": expected a triple \(features, edges, edge_features\), got tuple", TypeError),
                ((np.ones((3, 1)), *IMAGE[1:]), ": features: expected 2 features, got 1"),
                ((IMAGE[0], np.array([[0, 3]]), np.ones((1, 1))), r": edges: expected nodes in 0..2, got 0..3"),
                ((IMAGE[0], np.array([[1, 1]]), np.ones((1, 1))), ": edges: edge 0 joins node 1 to itself"),
                ((IMAGE[0], np.array([0, 1]), np.ones((1, 1))), r": edges: expected shape \(e, 2\), got \(2,\)"),
                ((IMAGE[0], np.array([[0.0, 1.0]]), np.ones((1, 1))), ": edges: expected integers", TypeError),
                ((*IMAGE[:2], np.ones((3, 1))), ": edge features: expected 2 rows, one for each edge, got 3"),
                (
                    (*IMAGE[:2], np.array([[0.0], [-0.5]])),
                    ": edge features: expected numbers >= 0, got -0.5 for edge 1, which joins nodes 1 and 2",
                ),
                (
                    (np.full((3, 2), np.nan), *IMAGE[1:]),
                    r"\[0\]: features: column 0: expected a finite number, got nan",
                ),
            )
        ),
        ([IMAGE], [], "Y: expected 1 labellings, one for each of X, got 0"),
        ([IMAGE], [[0, 1]], r"Y\[0\]: expected 3 labels, one for each node, got 2"),
        ([IMAGE], [[0, 1, 2]], r"Y\[0\]\[2\]: expected labels 0 and 1, got 2"),
        ([IMAGE], [[0.0, 1.0, 0.0]], r"Y\[0\]: expected integers or booleans of shape \(3,\), got float64", TypeError),
    ),
    *_of_another(
        "SegmentationModel",
        (2, 1),
        [IMAGE],
        [[True, False, True]],
        ((1, 1), "packed by a different model, with 2 features; this one has 1"),
        ((2, 3), "packed by a different model, with 1 edge features; this one has 3"),
    ),
    Wrong(lambda b: b.grid_edges(2, 2, 6), "connectivity: expected 4 or 8, got 6"),
    Wrong(lambda b: b.grid_edges(2.5, 2), "height: expected an integer >= 0, got 2.5", TypeError),
]


def _whole(b: Any, offsets: list[int]) -> Any:
    from reference import Candidates

    return b.CandidateModel(3).pack(Candidates(*PAIR, np.array(offsets)))


CANDIDATES = [
    *_pack(
        lambda b: b.CandidateModel(3),
        *(
            ([PAIR, pair], None, rf"X\[1\]{message}", *error)
            for pair, message, *error in (
                (PAIR[:1], r": expected a pair \(boxes, features\), got tuple", TypeError),
                ((PAIR[0], np.ones((3, 3))), r": boxes: .* of shape \(3, 4\), got \(2, 4\)"),
                ((PAIR[0], np.ones(2)), r": features: expected an array \(candidates, features, ...\)"),
                ((PAIR[0], np.ones((2, 2))), r": features: expected float64 of shape \(m, 3\), as in X\[0\]"),
                ((PAIR[0], np.ones((2, 3), np.float32)), ": features: expected float64 .* got float32"),
                ((PAIR[0], np.ones((2, 3), np.float16)), ": features: expected float32 or float64", TypeError),
                (([[0, 0, 2, 2], [1, 1, 1, 4]], PAIR[1]), r": boxes: .* top < bottom .* got \[1, 1, 1, 4\]"),
                (([[0.0, 0, 2, 2], [1, 1, 3, 4]], PAIR[1]), ": boxes: expected integers, pixels, got float", TypeError),
                ((PAIR[0], [[1.0, 2, 3], [1, np.nan, 3]]), r"\[1\]: features: .* got others"),
                (([], np.ones((0, 3))), ": expected at least one candidate, got 0"),
            )
        ),
        ([PAIR], [], "Y: expected 1 boxes, one for each image of X, got 0"),
        ([PAIR], [[0, 0, 2]], r"Y\[0\]: expected boxes .* of shape \(4,\), got \(3,\)"),
        ([PAIR], [[7, 7, 9, 9]], r"Y\[0\]: no candidate of X\[0\] touches the true box \[7, 7, 9, 9\]"),
        ([(PAIR[0], np.ones((2, 2)))], None, r"X: expected features of shape \(3,\) for each candidate, got \(2,\)"),
    ),
    Wrong(lambda b: _whole(b, [0, 1]), "X offsets: expected 2 at the end, the number of candidates, got 1"),
    Wrong(lambda b: _whole(b, [0, 2, 2]), r"X\[1\]: expected at least one candidate, got 0"),
    Wrong(lambda b: _whole(b, [1, 2]), "X offsets: expected integers .* that start at 0"),
    *_of_another(
        "CandidateModel",
        (3,),
        [PAIR],
        [[0, 0, 2, 2]],
        (((1, 3),), r"packed by a different model, with features of shape \(3,\); this one has \(1, 3\)"),
    ),
    Wrong(lambda b: b.iou([2, 0, 2, 2], [0, 0, 1, 1]), "a: expected boxes with top < bottom"),
    Wrong(lambda b: b.CandidateModel((3, 0)), "shape: expected an integer >= 1, got 0"),
    Wrong(lambda b: b.TwoLayerModel((3, 3, 4), hidden=2.5), "hidden: expected an integer", TypeError),
]

WINDOWS = [
    *_pack(
        lambda b: b.SubwindowModel(2),
        (
            [WORD_IMAGE, np.zeros((2, 3))],
            None,
            r"X\[1\]: expected features \(H, W, 2\) or integers, visual words, \(H, W\)",
        ),
        ([np.zeros((0, 3), np.int64)], None, r"X\[0\]: .* got int64 of shape \(0, 3\)"),
        ([np.full((2, 3), 2)], None, r"X\[0\]: expected visual words in 0..1, or -1 for none, got 2..2"),
        ([np.zeros((2, 3, 1))], None, r"X\[0\]: expected 2 features, got 1"),
        ([np.full((1, 1, 2), np.nan)], None, r"X\[0\]\[0\]: column 0: expected a finite number, got nan"),
        ([WORD_IMAGE], [], "Y: expected 1 boxes, one for each image of X, got 0"),
        ([WORD_IMAGE], [[0, 0, 3, 3]], r"Y\[0\]: expected boxes within an image of 2 x 3 pixels, got \[0, 0, 3, 3\]"),
    ),
    *_of_another(
        "SubwindowModel",
        (2,),
        [WORD_IMAGE],
        [[0, 0, 1, 1]],
        ((1,), "packed by a different model, with 2 features; this one has 1"),
    ),
]

WRONG = [*SEQUENCES, *TREES, *TAGS, *ARCS, *ALIGNMENTS, *IMAGES, *CANDIDATES, *WINDOWS]
