"""Subwindow search: best-first branch and bound over sets of boxes, like the reference's and in the same order.

A set of boxes is eight numbers: first and last top, left, bottom and right. The queue is a binary heap of keys (bound,
rank), each with the row of ``sets`` that holds its set. The row of a removed set is reused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import copy_table, copy_to
from accelerated.kernel import inlined, kernel

__all__ = ["Image", "Queue", "first_queue", "image_of", "scores_of_boxes", "search_boxes", "with_more_room"]

AFTER = 2**62  # ranks of single boxes lie below those of sets


class Image(NamedTuple):
    """Integral images (H + 1, W + 1) of the positive and the negative pixels, and of the forbidden ones (empty if there
    are none). row_peaks [j, i]: the highest pixels of the 2^j rows from row i on; column_peaks: the same of columns.
    loss: the weight of 1 - IoU; truth: (4,) or (0,).
    """

    positive: np.ndarray
    negative: np.ndarray
    forbidden: np.ndarray
    row_peaks: np.ndarray
    column_peaks: np.ndarray
    loss: float
    truth: np.ndarray


@kernel
def image_of(pixels, loss, truth):
    """The fields of the image of pixels (H, W), as a plain tuple."""
    H, W = pixels.shape
    any_forbidden = False
    for i in range(H):
        for j in range(W):
            any_forbidden |= pixels[i, j] == -np.inf
    positive, negative = np.zeros((H + 1, W + 1)), np.zeros((H + 1, W + 1))
    forbidden = np.zeros((H + 1, W + 1)) if any_forbidden else np.zeros((0, 0))
    above, below, no = np.zeros(W), np.zeros(W), np.zeros(W)  # running sums over the rows
    rows, columns = np.full(H, -np.inf), np.full(W, -np.inf)
    for i in range(H):
        plus, minus, bad = 0.0, 0.0, 0.0
        for j in range(W):
            x = pixels[i, j]
            rows[i] = x if x > rows[i] else rows[i]
            columns[j] = x if x > columns[j] else columns[j]
            if x > 0:
                above[j] += x
            elif x > -np.inf:
                below[j] += x
            else:
                no[j] += 1.0
            plus += above[j]
            minus += below[j]
            positive[i + 1, j + 1] = plus
            negative[i + 1, j + 1] = minus
            if any_forbidden:
                bad += no[j]
                forbidden[i + 1, j + 1] = bad
    return positive, negative, forbidden, peaks_of(rows), peaks_of(columns), loss, truth


@kernel
def peaks_of(x):
    """The maxima [j, i] of x[i : i + 2^j]."""
    n, levels = len(x), 1
    while 2**levels <= n:
        levels += 1
    peaks = np.empty((levels, n))
    peaks[0] = x
    for j in range(1, levels):
        half = 2 ** (j - 1)
        for i in range(n - 2 * half + 1):
            a, b = peaks[j - 1, i], peaks[j - 1, i + half]
            peaks[j, i] = a if a > b else b
    return peaks


@inlined
def peak(peaks, first, end):
    """The maximum of x[first:end], not empty, from ``peaks_of`` x."""
    j, span = 0, 2
    while span <= end - first:
        j, span = j + 1, 2 * span
    a, b = peaks[j, first], peaks[j, end - span // 2]
    return a if a > b else b


@inlined
def inside(sums, top, left, bottom, right):
    """The sum of the pixels of a box, from an integral image."""
    return (sums[bottom, right] - sums[top, right]) - (sums[bottom, left] - sums[top, left])


@inlined
def common(truth, top, left, bottom, right):
    """The number of pixels that a box shares with the truth."""
    first = top if top > truth[0] else truth[0]
    last = bottom if bottom < truth[2] else truth[2]
    height = last - first
    first = left if left > truth[1] else truth[1]
    last = right if right < truth[3] else truth[3]
    width = last - first
    return height * width if height > 0 and width > 0 else 0


@kernel
def bound_of(image, t1, t2, l1, l2, b1, b2, r1, r2):
    """An upper bound on the scores of the boxes of a set; for a single box, its score."""
    hold = t2 < b1 and l2 < r1
    if hold and image.forbidden.shape[0] > 0 and inside(image.forbidden, t2, l2, b1, r1) > 0:
        return -np.inf
    highest = 0.0
    if not hold:
        highest, other = peak(image.row_peaks, t1, b2), peak(image.column_peaks, l1, r2)
        highest = highest if highest < other else other
        if highest == -np.inf:
            return -np.inf
    if highest < 0:
        bound = highest
    else:
        bound = inside(image.positive, t1, l1, b2, r2)
        if hold:
            bound += inside(image.negative, t2, l2, b1, r1)
    truth = image.truth
    if truth.shape[0] == 0:
        return bound
    most, least = common(truth, t1, l1, b2, r2), common(truth, t2, l2, b1, r1)
    if most == (b2 - t1) * (r2 - l1):  # all boxes lie within the truth
        height, width = b1 - t2, r1 - l2
        least = (height if height > 1 else 1) * (width if width > 1 else 1)
    true = (truth[2] - truth[0]) * (truth[3] - truth[1])
    if image.loss >= 0:
        return bound + image.loss * (1.0 - least / ((b2 - t1) * (r2 - l1) + true - most))
    small = (b1 - t2) * (r1 - l2) if hold else 0
    share = most / (small + true - least)
    return bound + image.loss * (1.0 - (1.0 if share > 1.0 else share))


@kernel
def scores_of_boxes(image, boxes, scores):
    """scores (m,) become those of boxes (m, 4)."""
    for k in range(boxes.shape[0]):
        t, l, b, r = boxes[k, 0], boxes[k, 1], boxes[k, 2], boxes[k, 3]
        scores[k] = bound_of(image, t, t, l, l, b, b, r, r)


class Queue(NamedTuple):
    """The waiting sets, as rows of ``sets`` (room, 8): a heap of their bounds, ranks and rows; and the best boxes
    ``boxes`` (k, 4), in order.

    state: the numbers of waiting sets, used rows, sets met, boxes found, and splits.
    """

    sets: np.ndarray
    bounds: np.ndarray
    ranks: np.ndarray
    rows: np.ndarray
    boxes: np.ndarray
    state: np.ndarray


def first_queue(image, k, room):
    """A queue of the set of all boxes alone; empty if all are forbidden."""
    H, W = image.positive.shape[0] - 1, image.positive.shape[1] - 1
    sets, bounds = np.empty((room, 8), np.int32), np.empty(room)
    ranks, rows = np.empty(room, np.int64), np.empty(room, np.int32)
    state = np.zeros(5, np.int64)
    sets[0] = everything = (0, H - 1, 0, W - 1, 1, H, 1, W)
    bounds[0], ranks[0], rows[0] = bound_of(image, *everything), AFTER - 1, 0
    state[0] = 1 if bounds[0] > -np.inf else 0
    state[1], state[2] = 1, 1
    return Queue(sets, bounds, ranks, rows, np.empty((k, 4), np.int64), state)


def with_more_room(queue, room):
    """The same queue with this much room for sets."""
    sets, bounds = np.empty((room, 8), np.int32), np.empty(room)
    ranks, rows = np.empty(room, np.int64), np.empty(room, np.int32)
    size, used = queue.state[0], queue.state[1]
    copy_table(queue.sets[:used], sets)
    copy_to(queue.bounds[:size], bounds)
    copy_to(queue.ranks[:size], ranks)
    copy_to(queue.rows[:size], rows)
    return Queue(sets, bounds, ranks, rows, queue.boxes, queue.state)


@kernel
def search_boxes(image, queue, most):
    """Split at most ``most`` sets, for which there must be room. Returns whether the search is over."""
    sets, bounds, ranks, rows, boxes, state = queue
    size, used, met, count, splits = state
    part = np.empty(8, np.int64)
    end = splits + most
    while size > 0 and count < len(boxes) and splits < end:
        bound, row = bounds[0], np.int64(rows[0])
        size -= 1
        sink(bounds, ranks, rows, size, bounds[size], ranks[size], rows[size])
        side, longest = 0, -1
        for s in range(4):
            length = sets[row, 2 * s + 1] - sets[row, 2 * s]
            if length > longest:
                side, longest = s, length
        if longest == 0:
            for s in range(4):
                boxes[count, s] = sets[row, 2 * s]
            count += 1
            continue
        splits += 1
        for s in range(8):
            part[s] = sets[row, s]
        low, high = part[2 * side], part[2 * side + 1]
        middle = (low + high) // 2
        here = row  # the first child takes the row of its parent
        for half in range(2):
            part[2 * side] = low if half == 0 else middle + 1
            part[2 * side + 1] = middle if half == 0 else high
            t1, t2, l1, l2, b1, b2, r1, r2 = part
            t2, l2 = t2 if t2 < b2 else b2 - 1, l2 if l2 < r2 else r2 - 1
            b1, r1 = b1 if b1 > t1 else t1 + 1, r1 if r1 > l1 else l1 + 1
            if t1 > t2 or l1 > l2 or b1 > b2 or r1 > r2:
                continue
            least = bound_of(image, t1, t2, l1, l2, b1, b2, r1, r2)
            if least == -np.inf:
                continue
            alone = t1 == t2 and l1 == l2 and b1 == b2 and r1 == r2
            if not alone and bound < least:
                least = bound
            if here < 0:
                here = used
                used += 1
            sets[here, 0], sets[here, 1], sets[here, 2], sets[here, 3] = t1, t2, l1, l2
            sets[here, 4], sets[here, 5], sets[here, 6], sets[here, 7] = b1, b2, r1, r2
            met += 1
            rise(bounds, ranks, rows, size, least, met if alone else AFTER - met, here)
            size += 1
            here = -1
    state[0], state[1], state[2], state[3], state[4] = size, used, met, count, splits
    return size == 0 or count == len(boxes)


@inlined
def before(bound, rank, other, other_rank):
    """Whether a key leaves the queue before another."""
    return bound > other or (bound == other and rank < other_rank)


@kernel
def rise(bounds, ranks, rows, place, bound, rank, row):
    """Put a new entry at the end ``place`` of the heap, and lift it to its place."""
    while place > 0:
        up = (place - 1) // 2
        if not before(bound, rank, bounds[up], ranks[up]):
            break
        bounds[place], ranks[place], rows[place] = bounds[up], ranks[up], rows[up]
        place = up
    bounds[place], ranks[place], rows[place] = bound, rank, row


@kernel
def sink(bounds, ranks, rows, size, bound, rank, row):
    """Put an entry at the top of a heap of ``size`` entries, whose old top is removed, and lower it to its place."""
    place = 0
    while True:
        down = 2 * place + 1
        if down >= size:
            break
        if down + 1 < size and before(bounds[down + 1], ranks[down + 1], bounds[down], ranks[down]):
            down += 1
        if not before(bounds[down], ranks[down], bound, rank):
            break
        bounds[place], ranks[place], rows[place] = bounds[down], ranks[down], rows[down]
        place = down
    bounds[place], ranks[place], rows[place] = bound, rank, row
