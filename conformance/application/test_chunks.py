"""Chunks: their schemes, by hand and over all sets of chunks, and their scores by hand as the shared tasks' scorer
counts.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.tolerances import close
from diptych.chunks import Chunk, chunk_scores, chunks, is_chunk_label

# labels, and the chunks that the shared tasks' scorer sees in them: (type, first, last)
BY_HAND = [
    ("", []),
    ("O O", []),
    ("B-X I-X O", [("X", 0, 1)]),
    ("B-X B-X", [("X", 0, 0), ("X", 1, 1)]),
    ("I-X I-X", [("X", 0, 1)]),  # IOB1
    ("I-X B-X I-X", [("X", 0, 0), ("X", 1, 2)]),  # IOB1: B between two of a type
    ("I-X I-Y", [("X", 0, 0), ("Y", 1, 1)]),  # another type begins a chunk, B or not
    ("B-X I-Y I-Y O", [("X", 0, 0), ("Y", 1, 2)]),
    ("O I-X O I-X", [("X", 1, 1), ("X", 3, 3)]),
    ("S-X B-X E-X S-Y", [("X", 0, 0), ("X", 1, 2), ("Y", 3, 3)]),
    ("B-X I-X E-X I-X", [("X", 0, 2), ("X", 3, 3)]),
    ("E-X E-X", [("X", 0, 0), ("X", 1, 1)]),
    ("B-X E-X B-X", [("X", 0, 1), ("X", 2, 2)]),
    ("B-a-b I-a-b I-a", [("a-b", 0, 1), ("a", 2, 2)]),  # the type is what is behind the first hyphen
    ("B I O I", [("", 0, 1), ("", 3, 3)]),
]


@pytest.mark.parametrize(("labels", "expected"), BY_HAND)
def test_chunks_by_hand(labels, expected):
    assert chunks(labels.split()) == [Chunk(*chunk) for chunk in expected]


@st.composite
def chunked(draw):
    """A length, and chunks of two types that do not overlap, from left to right."""
    found, t = [], draw(st.integers(0, 2))
    while t < 8 and draw(st.booleans()):
        length = draw(st.integers(1, 3))
        found.append(Chunk(draw(st.sampled_from("XY")), t, t + length - 1))
        t += length + draw(st.integers(0, 2))
    return t, found


@given(instance=chunked())
@pytest.mark.parametrize("scheme", ["bio", "iob1", "iobes"])
def test_what_is_written_is_read_again(instance, scheme):
    n, expected = instance
    labels = ["O"] * n
    for k, (kind, first, last) in enumerate(expected):
        inside = ["I"] * (last - first + 1)
        touches = k > 0 and expected[k - 1].last == first - 1 and expected[k - 1].type == kind
        if scheme != "iob1" or touches:
            inside[0] = "B"
        if scheme == "iobes":
            inside[-1] = "S" if first == last else "E"
        labels[first : last + 1] = [f"{prefix}-{kind}" for prefix in inside]
    assert chunks(labels) == expected


def test_scores_by_hand():
    """Three sentences: of five true chunks and four found, two are right, a wrong boundary and a wrong type count on
    both sides.
    """
    truth = ["B-X I-X O B-Y", "B-X O", "I-X B-X"]
    guess = ["B-X I-X O B-X", "B-X I-X", "I-X O"]
    scores = chunk_scores([y.split() for y in truth], [z.split() for z in guess])
    assert (scores.correct, scores.found, scores.expected) == (2, 4, 5)
    close([scores.precision, scores.recall, scores.f1], [2 / 4, 2 / 5, 2 * 0.5 * 0.4 / 0.9])
    assert list(scores.types) == ["X", "Y"]
    assert scores.types["X"][3:6] == (2, 4, 4) and scores.types["Y"][:6] == (0.0, 0.0, 0.0, 0, 0, 1)


def test_sentences_end_chunks():
    assert chunk_scores([["B-X"], ["I-X"]], [["B-X"], ["B-X"]]).f1 == 1.0
    assert chunk_scores([["B-X", "I-X"]], [["B-X", "B-X"]]).correct == 0


def test_nothing_to_divide_by():
    assert chunk_scores([], []) == chunk_scores([["O"]], [["O"]]) == (0.0, 0.0, 0.0, 0, 0, 0, {})
    scores = chunk_scores([["B-X"]], [["O"]])
    assert scores[:6] == (0.0, 0.0, 0.0, 0, 0, 1)


def test_what_is_wrong_is_named():
    for label in ("NP", "X-NP", "O-NP", "", "-NP", "BI-X"):
        assert not is_chunk_label(label)
        with pytest.raises(
            ValueError, match=f"labels: expected O, or B, I, E or S with a type, such as B-NP, got '{label}'"
        ):
            chunks(["O", label])
    with pytest.raises(ValueError, match="guess: expected the labels of 1 sentences, got 0"):
        chunk_scores([["O"]], [])
    with pytest.raises(ValueError, match=r"guess\[1\]: expected 1 labels, got 2"):
        chunk_scores([["O"], ["O"]], [["O"], ["O", "O"]])
