"""Scenes for learning localization: a handwritten letter on a cluttered page, with other letters, pieces of letters and
candidate boxes.

The scenes replace Pascal VOC 2007 of Pillutla et al., section 7.1.2. They are made from the letters of
``load_letters``. A class is a letter. Each image has exactly one object of its class, several of other classes, and
strokes that are not letters. The candidates replace those of selective search: some lie around each drawn thing, others
anywhere.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from diptych.box_features import box_features, filter_responses
from diptych.files.localization import LocalizationImage
from reference.datasets import load_letters

CLASSES = "aegn"
TEST_FOLD = 0  # its letters make the test scenes
SPREADS = (0.05, 0.15, 0.3)  # of candidates around a thing, as shares of its sides
SMALLEST = 6  # side of a candidate, in pixels


class Scene(NamedTuple):
    """Pixels (size, size) uint8, the true box (4,), and the boxes (k, 4) of all drawn things, the object's first."""

    pixels: np.ndarray
    truth: np.ndarray
    things: np.ndarray


def make_scenes(
    n: int = 500,
    *,
    classes: str = CLASSES,
    candidates: int = 200,
    directions: int = 8,
    scales: int = 4,
    size: int = 96,
    test: bool = False,
    rng: int = 0,
) -> Iterator[LocalizationImage]:
    """n scenes, ordered by class, about as many of each class.

    Parameters
    ----------
    n : int
    classes : str
        Letters a to z.
    candidates : int
        Number of distinct boxes of each image. About half of them lie around the drawn things, as many around each; the
        others lie anywhere.
    directions, scales : int
        Features are (3, 3, C) with C = 2 directions scales; see ``filter_responses``. The defaults give C = 64; 16 and
        8 give the paper's 256.
    size : int >= 48
        Height and width in pixels.
    test : bool
        True: draw letters from fold 0; False: from the other folds. No handwriting is in both.
    rng : int
        The k-th image of a class depends on rng, k, the class and the arguments, not on n.

    Yields
    ------
    LocalizationImage

    Raises
    ------
    ValueError
        If classes are not letters or occur twice, or a number is out of range.

    Examples
    --------
    >>> image = next(make_scenes(1, classes="g", candidates=20, directions=4, scales=1))
    >>> image.features.shape, image.pixels.shape
    ((20, 3, 3, 8), (96, 96))
    """
    if not classes or not set(classes) <= set(string.ascii_lowercase) or len(set(classes)) < len(classes):
        raise ValueError(f"classes: expected different letters a to z, got {classes!r}")
    given = {"n": n, "candidates": candidates, "directions": directions, "scales": scales, "size": size}
    for name, value in given.items():
        if value < (least := 48 if name == "size" else 1):
            raise ValueError(f"{name}: expected an integer >= {least}, got {value}")
    most = (size - SMALLEST) ** 2 // 4
    if candidates > most:
        raise ValueError(f"candidates: expected at most {most} in an image of {size} x {size} pixels, got {candidates}")
    return _scenes(n, classes, candidates, directions, scales, size, test, rng)


def _scenes(
    n: int, classes: str, candidates: int, directions: int, scales: int, size: int, test: bool, rng: int
) -> Iterator[LocalizationImage]:
    letters = _letters(test)
    for i in range(n):
        label = i * len(classes) // n
        k = i - -(-label * n // len(classes))
        draw = np.random.default_rng([rng, int(test), ord(classes[label]), k])
        scene = _scene(draw, letters, classes[label], size)
        boxes = _candidates(draw, scene.things, candidates, size)
        features = box_features(filter_responses(scene.pixels / 255.0, directions, scales), boxes)
        yield LocalizationImage(boxes, features, (size, size), scene.truth, label, scene.pixels)


def _letters(test: bool) -> dict[str, np.ndarray]:
    """The characters (k, 16, 8) of each letter, from the test fold or the other folds."""
    data = load_letters()
    part = data.split(TEST_FOLD)[1 if test else 0]
    pixels, labels = np.concatenate(part.X).reshape(-1, 16, 8), np.concatenate(part.Y)
    return {name: pixels[labels == k] for k, name in enumerate(data.labels)}


def _scene(rng: np.random.Generator, letters: dict[str, np.ndarray], name: str, size: int) -> Scene:
    """Draw a page with strokes, then other letters and pieces of letters, then the object, then noise."""
    page = np.full((size, size), rng.uniform(0.7, 0.95)) + _shade(rng, size)
    for _ in range(rng.integers(4, 9)):
        _stroke(page, rng)
    others = [letter for letter in letters if letter != name]
    things = [_ink(rng, letters[name], size)]
    things += [_ink(rng, letters[rng.choice(others)], size) for _ in range(rng.integers(2, 4))]
    for _ in range(rng.integers(2, 5)):
        ink = _ink(rng, letters[rng.choice(list(letters))], size)
        half = rng.integers(0, 4)
        h, w = (k // 2 for k in ink.shape)
        things.append(_tight((ink[:h], ink[h:], ink[:, :w], ink[:, w:])[half]))
    placed = [_place(rng, things[0].shape, [], size)]
    for ink in things[1:]:
        placed.append(_place(rng, ink.shape, placed[:1], size))
    for ink, (top, left, bottom, right) in reversed(list(zip(things, placed, strict=True))):
        part = page[top:bottom, left:right]
        part *= 1 - rng.uniform(0.6, 0.9) * ink
    page += rng.normal(0.0, 0.04, page.shape)
    boxes = np.array(placed, dtype=np.int64)
    return Scene(np.round(255 * np.clip(page, 0, 1)).astype(np.uint8), boxes[0], boxes)


def _shade(rng: np.random.Generator, size: int) -> np.ndarray:
    """Slowly varying light and shade over the page."""
    y, x = np.mgrid[:size, :size] / size
    a, b, phase = rng.uniform(-4, 4), rng.uniform(-4, 4), rng.uniform(0, 2 * np.pi)
    shade: np.ndarray = 0.08 * np.sin(a * y + b * x + phase)
    return shade


def _stroke(page: np.ndarray, rng: np.random.Generator) -> None:
    """Draw a part of an ellipse, as thick as a pen."""
    size = len(page)
    t = np.linspace(0, rng.uniform(0.5, 3.0), 4 * size) + rng.uniform(0, 2 * np.pi)
    a, b = rng.uniform(0.05, 0.5, 2) * size
    y, x = rng.uniform(0, size, 2)
    points = np.round([y + a * np.sin(t), x + b * np.cos(t)]).astype(np.int64)
    mask = np.zeros_like(page, dtype=bool)
    thick = int(rng.integers(1, 4))
    for dy, dx in itertools.product(range(thick), repeat=2):
        row, column = points[0] + dy, points[1] + dx
        inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
        mask[row[inside], column[inside]] = True
    page[mask] *= 1 - rng.uniform(0.4, 0.8)


def _ink(rng: np.random.Generator, characters: np.ndarray, size: int) -> np.ndarray:
    """The ink (h, w) of a character, 0 to 1, slightly slanted and stretched, without margins.

    The height of its line is 1/4 to 1/2 of the page.
    """
    source = _tight(characters[rng.integers(len(characters))])
    height = rng.uniform(0.25, 0.5) * size
    stretch, slant = np.exp(rng.normal(0, 0.1)), rng.normal(0, 0.12)
    scale = height / 16.0  # by the full height of the line: letters without ascenders and descenders are smaller
    h, w = max(4, round(source.shape[0] * scale)), max(3, round(source.shape[1] * scale * stretch))
    lean = abs(slant) * h
    y, x = np.mgrid[:h, : w + int(np.ceil(lean))] + 0.5
    from_left = x - (slant * (h - y) if slant > 0 else -slant * y)
    return _tight(_bilinear(source, y * source.shape[0] / h - 0.5, from_left * source.shape[1] / w - 0.5))


def _bilinear(x: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """x (h, w), extended by 0, interpolated at points between its pixels."""
    padded = np.pad(x, 2)
    row, column = np.clip(row + 2, 0, x.shape[0] + 2.5), np.clip(column + 2, 0, x.shape[1] + 2.5)
    r, c = row.astype(np.int64), column.astype(np.int64)
    fr, fc = row - r, column - c
    above = padded[r, c] * (1 - fc) + padded[r, c + 1] * fc
    return above * (1 - fr) + (padded[r + 1, c] * (1 - fc) + padded[r + 1, c + 1] * fc) * fr


def _tight(ink: np.ndarray) -> np.ndarray:
    """Remove rows and columns with almost no ink at the border."""
    rows, columns = (np.flatnonzero(ink.max(axis=axis) > 0.4) for axis in (1, 0))
    if not len(rows) or not len(columns):
        return ink
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _place(
    rng: np.random.Generator, shape: tuple[int, ...], taken: list[tuple[int, ...]], size: int
) -> tuple[int, ...]:
    """A box of this shape on the page that does not overlap the boxes ``taken``, or the best of 50 tries."""
    best, least = (0, 0, *shape), np.inf
    for _ in range(50):
        top, left = rng.integers(0, size - shape[0] + 1), rng.integers(0, size - shape[1] + 1)
        box = (int(top), int(left), int(top) + shape[0], int(left) + shape[1])
        common = sum(_common(box, other, 0) * _common(box, other, 1) for other in taken)
        if common < least:
            best, least = box, common
        if not common:
            break
    return best


def _common(box: tuple[int, ...], other: tuple[int, ...], axis: int) -> int:
    """The common pixels of two boxes along an axis."""
    return max(0, min(box[axis + 2], other[axis + 2]) - max(box[axis], other[axis]))


def _candidates(rng: np.random.Generator, things: np.ndarray, n: int, size: int) -> np.ndarray:
    """n distinct boxes (n, 4) in random order: half around the things in turn, with growing spread, half anywhere."""
    boxes: dict[tuple[int, ...], None] = {}  # an ordered set
    turn = 0
    while len(boxes) < n:
        k = np.arange(turn, turn + n)
        thing = things[k // 2 % len(things)].astype(np.float64)
        spread = np.array(SPREADS)[k // 2 // len(things) % len(SPREADS)][:, None]
        sides = thing[:, 2:] - thing[:, :2]
        near = (thing[:, :2] + thing[:, 2:]) / 2 + rng.normal(0, 1, (n, 2)) * spread * sides
        near_sides = sides * np.exp(spread * rng.normal(0, 1, (n, 2)))
        somewhere = rng.uniform(0, size, (n, 2))
        any_sides = np.exp(rng.uniform(np.log(10), np.log(0.7 * size), (n, 1)) + rng.normal(0, 0.3, (n, 2)))
        odd = k[:, None] % 2 == 1
        middle, sides = np.where(odd, near, somewhere), np.where(odd, near_sides, any_sides)
        low = np.clip(np.round(middle - sides / 2), 0, size - SMALLEST)
        high = np.clip(np.round(middle + sides / 2), low + SMALLEST, size)
        boxes |= dict.fromkeys(map(tuple, np.concatenate([low, high], axis=1).astype(np.int64).tolist()))
        turn += n
    return np.array(list(boxes)[:n], dtype=np.int64)[rng.permutation(n)]
