"""All boxes of an image: subwindow search by a kernel with its own heap, on the host.

Raises MemoryError where 2^24 sets wait, as in large images of noise.
"""

from __future__ import annotations

import sys

import numpy as np

import reference.structures.boxes as reference
from accelerated.arrays import like, view
from accelerated.compiled.structures.boxes import (
    Image,
    first_queue,
    image_of,
    scores_of_boxes,
    search_boxes,
    with_more_room,
)
from accelerated.mirror import mirrors
from reference.arrays import Array
from reference.structures.boxes import BoxScores, iou

ROOM, LARGEST = 2**12, 2**24  # sets in the queue, 56 bytes each
SPLITS = 2**18  # per call: Python handles Ctrl-C between calls

__all__ = ["BoxScores", "Boxes", "best_boxes", "iou", "listed_scores"]


@mirrors(reference.best_boxes)
def best_boxes(scores: BoxScores, k: int = 1) -> np.ndarray:
    H, W = scores.pixels.shape
    image, room = _image(scores), ROOM
    queue = first_queue(image, min(k, H * (H + 1) // 2 * (W * (W + 1) // 2)), room)
    while not search_boxes(image, queue, min(SPLITS, room - int(queue.state[1]))):  # a split takes one row at most
        if queue.state[1] == room:
            room *= 2
            if room > LARGEST:
                raise MemoryError(
                    f"best_boxes: {room // 2} sets of boxes wait and none can be excluded, as in images of noise; "
                    "among() searches a list of boxes"
                )
            queue = with_more_room(queue, room)
    return queue.boxes[: queue.state[3]]


@mirrors(reference.listed_scores)
def listed_scores(scores: BoxScores, boxes: np.ndarray) -> Array:
    values = np.empty(len(boxes))
    scores_of_boxes(_image(scores), np.ascontiguousarray(boxes, np.int64), values)
    return like(values, scores.pixels)


def _image(scores: BoxScores) -> Image:
    truth = np.zeros(0, np.int64) if scores.truth is None else np.ascontiguousarray(scores.truth, np.int64)
    return Image(*image_of(view("pixels", scores.pixels), float(scores.loss), truth))


class Boxes(reference.Boxes):
    ops = sys.modules[__name__]
