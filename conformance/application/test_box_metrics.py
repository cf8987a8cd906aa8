"""CorLoc and average precision, on cases done by hand and against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diptych.metrics import average_precision, corloc

A, B, C = [0, 0, 4, 4], [10, 10, 14, 14], [20, 0, 24, 4]


def test_corloc_by_hand():
    """Overlaps 1, 1/2 (counts), 8/24, 0."""
    truth = np.array([A, A, A, A])
    guess = np.array([A, [0, 0, 4, 2], [0, 2, 4, 6], B])
    assert corloc(truth, guess) == 0.5 and corloc(truth, guess, threshold=0.51) == 0.25
    assert corloc(truth, guess, threshold=1 / 3) == 0.75
    assert math.isnan(corloc(np.zeros((0, 4)), np.zeros((0, 4))))
    with pytest.raises(ValueError, match="guess: expected 4 boxes, one for each true one, got 3"):
        corloc(truth, guess[:3])


def test_average_precision_by_hand():
    """Ranks: right, wrong, right, wrong: recall 1/3 at precision 1, 2/3 at 2/3, no more. Recalls 0 to 0.3: 1; 0.4 to
    0.6: 2/3; then 0.
    """
    truth = [[A], [A, B], []]
    guess = [[A, C], [A, C], [A]]
    confidence = [[0.9, 0.8], [0.7, 0.1], [0.2]]
    assert average_precision(truth, guess, confidence) == pytest.approx((4 * 1 + 3 * 2 / 3) / 11)


def test_an_object_is_found_once():
    """Of two boxes on one object the first counts, the other is wrong; precision at a recall is the best at that or
    more.
    """
    assert average_precision([[A]], [[A, A]], [[0.5, 0.9]]) == 1.0
    assert average_precision([[A, B]], [[A, A, B]], [[3, 2, 1]]) == pytest.approx((6 * 1 + 5 * 2 / 3) / 11)
    # wrong, right, right: precision 1/2 at recall 1/2, but 2/3 at recall 1
    assert average_precision([[A, B]], [[C, A, B]], [[3, 2, 1]]) == pytest.approx(2 / 3)


def test_a_box_goes_to_the_object_it_overlaps_most():
    """As in the development kit: if that one is taken, the box is wrong, though it covers another one by half."""
    near = [0, 0, 4, 5]  # 16/20 of A; of [0, 1, 4, 5] 16/20 as well: the first of equals
    assert average_precision([[A, [0, 1, 4, 5]]], [[A, near]], [[2, 1]]) == pytest.approx(6 / 11)


def test_recall_points_are_exact():
    """Ten objects, three found first: recall 0.3 is reached, although 0.3 > 3 * 0.1 in floating point."""
    truth = [[A]] * 10
    guess, confidence = [[A]] * 3 + [[C]] * 7, [[10 - i] for i in range(10)]
    assert average_precision(truth, guess, confidence) == pytest.approx(4 / 11)


def test_no_objects_and_no_boxes():
    assert math.isnan(average_precision([[]], [[A]], [[1.0]]))
    assert average_precision([[A]], [[]], [[]]) == 0.0


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="expected 1, one for each image, got 2, 1"):
        average_precision([[A]], [[A], [A]], [[1.0]])
    with pytest.raises(ValueError, match="confidence: image 0: expected 1 numbers"):
        average_precision([[A]], [[A]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="confidence: image 0"):
        average_precision([[A]], [[A]], [[math.nan]])


@given(st.lists(st.tuples(st.booleans(), st.integers(-2, 2)), min_size=1, max_size=12), st.integers(0, 3))
def test_one_box_an_image_against_the_definition(images, missed):
    """max over thresholds of the precision at recall >= r, written as the formula; ties are cut between, in their
    order.
    """
    truth = [[A]] * (len(images) + missed)
    guess = [[A] if right else [B] for right, _ in images] + [[]] * missed
    confidence = [[c] for _, c in images] + [[]] * missed
    order = sorted(range(len(images)), key=lambda i: (-images[i][1], i))
    expected = 0.0
    for r in range(11):
        best = 0.0
        for k in range(1, len(order) + 1):
            hits = sum(images[i][0] for i in order[:k])
            if 10 * hits >= r * len(truth):
                best = max(best, hits / k)
        expected += best / 11
    assert average_precision(truth, guess, confidence) == pytest.approx(expected)
    scaled = [[3 * c + 1 for c in each] for each in confidence]
    assert average_precision(truth, guess, scaled) == average_precision(truth, guess, confidence)
