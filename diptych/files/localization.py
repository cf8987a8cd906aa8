"""Files of images with candidate boxes: a text header, then arrays. The arrays are mapped into memory and read when
used.

    diptych localization 1
    {"classes": ["a", "e"], "info": {...}, "arrays": {"features": {"dtype": "<f4", "shape": [100000, 3, 3, 64],
    "offset": 0}, ...}}

The header is two lines of UTF-8. The second is JSON, padded with spaces so that the line ends at a multiple of 64
bytes. Each ``offset`` counts from there and is a multiple of 64. Arrays are little-endian and in C order. For n images
with N candidates in total:

* ``features`` <f4 (N, h, w, C): the feature tensor of each candidate;
* ``boxes`` <i4 (N, 4): (top, left, bottom, right) in pixels, rows top..bottom-1 and columns left..right-1;
* ``offsets`` <i8 (n+1,): image i owns candidates offsets[i]:offsets[i+1];
* ``sizes`` <i4 (n, 2): height and width of each image;
* ``truth`` <i4 (n, 4), optional: the true box of each image, for training and scoring;
* ``labels`` <i8 (n,), optional: the class of the object in each image, an index into ``classes``;
* ``pixels`` |u1 (sum of heights times widths,), optional: the images, one after another, row by row, 0 black to 255
  white.

Pickle is not used. :mod:`diptych.files.localization_writer` writes such files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reference.archives import parse_json
from reference.models.candidate_data import Candidates
from reference.structures.boxes import iou

__all__ = ["ALIGN", "DTYPES", "MAGIC", "MOST", "Localization", "load_localization", "outside"]

MAGIC = b"diptych localization 1\n"
ALIGN = 64
LONGEST_HEADER = 1 << 24
DTYPES = {
    "features": "<f4",
    "boxes": "<i4",
    "offsets": "<i8",
    "sizes": "<i4",
    "truth": "<i4",
    "labels": "<i8",
    "pixels": "|u1",
}
OPTIONAL = ("truth", "labels", "pixels")
MOST = 10**18  # the largest number in a header


@dataclass(frozen=True, repr=False, eq=False)
class Localization:
    """The images of a file. The fields are its arrays (``features`` and ``pixels`` mapped); a missing array is None."""

    name: str
    classes: tuple[str, ...]
    features: np.ndarray
    boxes: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    truth: np.ndarray | None = None
    labels: np.ndarray | None = None
    pixels: np.ndarray | None = None
    info: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.features.shape[1:]))
        return (
            f"Localization({self.name}: {self.n} images, {len(self.boxes)} candidates, features {shape}, "
            f"{len(self.classes)} classes)"
        )

    @property
    def n(self) -> int:
        """Number of images."""
        return len(self.sizes)

    def of_class(self, name: str) -> np.ndarray:
        """The indices of the images with an object of this class. ValueError if the file lacks the class or labels."""
        if name not in self.classes:
            raise ValueError(f"{self.name}: no class {name!r}; it has {', '.join(self.classes)}")
        return np.flatnonzero(self.required("labels") == self.classes.index(name))

    def required(self, name: str) -> np.ndarray:
        """An optional field of a file. ValueError if the file does not have the field."""
        values: np.ndarray | None = getattr(self, name)
        if values is None:
            raise ValueError(f"{self.name}: no field {name}")
        return values

    def examples(self, images: np.ndarray) -> Candidates:
        """These images in the form that a model packs. Features are copied unless the images are consecutive."""
        starts, ends = self.offsets[images], self.offsets[images + 1]
        offsets = np.concatenate([[0], np.cumsum(ends - starts)])
        if len(images) and np.array_equal(starts[1:], ends[:-1]):
            run = slice(int(starts[0]), int(ends[-1]))
            return Candidates(self.boxes[run], self.features[run], offsets)
        rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)] or [np.zeros(0, np.int64)])
        return Candidates(self.boxes[rows], self.features[rows], offsets)

    def candidates(self, i: int) -> np.ndarray:
        """The candidate boxes (m, 4) of image i."""
        return self.boxes[self.offsets[i] : self.offsets[i + 1]]

    def features_of(self, i: int) -> np.ndarray:
        """Read the features (m, h, w, C) float32 of the candidates of image i. ValueError if one is not finite."""
        features = self.features[self.offsets[i] : self.offsets[i + 1]]
        if not np.all(np.isfinite(features)):
            wrong = int(np.flatnonzero(~np.isfinite(features).reshape(len(features), -1).all(axis=1))[0])
            raise ValueError(f"{self.name}: image {i}: features: expected finite numbers, candidate {wrong} has others")
        return features

    def picture(self, i: int) -> np.ndarray | None:
        """Image i (height, width) uint8, or None if the file has no pixels."""
        if self.pixels is None:
            return None
        areas = np.prod(self.sizes.astype(np.int64), axis=1)
        start = int(areas[:i].sum())
        return self.pixels[start : start + int(areas[i])].reshape(self.sizes[i])

    def overlaps(self, i: int) -> np.ndarray:
        """(m,): intersection over union of each candidate of image i with the true box."""
        return iou(self.candidates(i), self.required("truth")[i])

    def best_candidates(self) -> np.ndarray:
        """(n,): the candidate of each image with the largest overlap with the true box, the first of equals. A model is
        trained to choose it.

        Source: Pillutla et al., section 7.1.2, "Other Implementation Details".
        """
        return np.array([int(np.argmax(self.overlaps(i))) for i in range(self.n)], dtype=np.int64)


def load_localization(path: str | Path) -> Localization:
    """Map a file of images with candidate boxes (format above) into memory.

    Returns
    -------
    Localization
        Read-only. Features are checked when they are read, pixels are not checked, all other fields at once.

    Raises
    ------
    ValueError
        A missing or invalid file. The message names the file, the field and, if there is one, the image.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: {'is a folder' if Path(path).is_dir() else 'no such file'}")
    header, start = _read_header(path)
    size = Path(path).stat().st_size
    arrays = header.get("arrays")
    if not isinstance(arrays, dict):
        raise ValueError(f"{path}: header: expected the arrays' dtypes, shapes and offsets")
    missing = [name for name in DTYPES if name not in arrays and name not in OPTIONAL]
    if missing:
        raise ValueError(f"{path}: no field {', '.join(missing)}")
    fields = {name: _mapped(path, name, arrays[name], start, size) for name in DTYPES if name in arrays}
    classes, info = header.get("classes"), header.get("info", {})
    if (
        not isinstance(classes, list)
        or not classes
        or not all(isinstance(c, str) for c in classes)
        or len(set(classes)) < len(classes)
    ):
        raise ValueError(f"{path}: classes: expected at least one name, all different, got {classes!r:.80}")
    if not isinstance(info, dict):
        raise ValueError(f"{path}: info: expected an object, got {info!r:.80}")
    fields = {name: x if name in ("features", "pixels") else np.array(x) for name, x in fields.items()}
    _check_fields(path, fields, len(classes))
    return Localization(str(path), tuple(classes), **fields, info=info)


def _read_header(path: str | Path) -> tuple[dict[str, Any], int]:
    """The header, and the position where the arrays begin."""
    with open(path, "rb") as file:
        if file.readline(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path}: not a localization file of this version of diptych: another first line")
        line = file.readline(LONGEST_HEADER)
        if not line.endswith(b"\n"):
            raise ValueError(f"{path}: header: the file ends before it does")
        start = file.tell()
    header = parse_json(f"{path}: header", line)
    if not isinstance(header, dict) or start % ALIGN:
        raise ValueError(f"{path}: header: expected an object, on a line that ends at a multiple of {ALIGN} bytes")
    return header, start


def _mapped(path: str | Path, name: str, entry: Any, start: int, size: int) -> np.ndarray:
    """One array mapped into memory; entry: its dtype, shape and offset in the header."""
    dimensions = {"features": 4, "boxes": 2, "truth": 2, "sizes": 2}.get(name, 1)
    try:
        dtype, shape, offset = entry["dtype"], tuple(entry["shape"]), entry["offset"]
        in_range = all(type(k) is int and 0 <= k <= MOST for k in (*shape, offset))
    except (TypeError, KeyError):
        raise ValueError(f"{path}: {name}: expected dtype, shape and offset in the header, got {entry!r:.80}") from None
    if dtype != DTYPES[name] or not in_range or len(shape) != dimensions or offset % ALIGN:
        raise ValueError(
            f"{path}: {name}: expected {DTYPES[name]} of {dimensions} dimensions at a multiple of {ALIGN}, "
            f"got {dtype!r:.80} of shape {shape!r:.80} at {offset!r:.80}"
        )
    if max(start + offset + math.prod(shape) * np.dtype(dtype).itemsize, *shape) > size:
        raise ValueError(f"{path}: {name}: the file ends before shape {shape} does")
    if math.prod(shape) == 0:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start + offset, shape)


def _check_fields(path: str | Path, fields: dict[str, np.ndarray], classes: int) -> None:
    """Raise ValueError for inconsistent fields; the message names the first wrong image."""
    boxes, offsets, sizes = (fields[name] for name in ("boxes", "offsets", "sizes"))
    n, N = len(sizes), len(boxes)
    if n == 0 or math.prod(fields["features"].shape[1:]) == 0:
        raise ValueError(f"{path}: expected at least one image and one feature, got {n} and {fields['features'].shape}")
    shapes = {"boxes": (N, 4), "sizes": (n, 2), "offsets": (n + 1,), "truth": (n, 4), "labels": (n,)}
    for name, shape in shapes.items():
        if name in fields and fields[name].shape != shape:
            raise ValueError(f"{path}: {name}: expected shape {shape} for {n} images, got {fields[name].shape}")
    if len(fields["features"]) != N:
        raise ValueError(f"{path}: features: expected those of {N} boxes, got {len(fields['features'])}")
    if offsets[0] != 0 or offsets[-1] != N:
        raise ValueError(f"{path}: offsets: expected to rise from 0 to {N} boxes, got {offsets[0]} to {offsets[-1]}")
    _first(
        path,
        (offsets[1:] <= offsets[:-1]) | (offsets[1:] > N),
        "offsets: expected at least one candidate, got {}",
        np.diff(offsets),
    )
    _first(path, np.any(sizes < 1, axis=1), "sizes: expected a height and a width >= 1, got {}", sizes)
    if "labels" in fields:
        wrong = (fields["labels"] < 0) | (fields["labels"] >= classes)
        _first(path, wrong, f"labels: expected 0..{classes - 1}, got {{}}", fields["labels"])
    wanted = "expected (top, left, bottom, right) with a pixel in it, inside the image, got {}"
    if "truth" in fields:
        _first(path, outside(fields["truth"], sizes), f"truth: {wanted}", fields["truth"])
    image = np.repeat(np.arange(n), np.diff(offsets))
    for k in np.flatnonzero(outside(boxes, sizes[image]))[:1]:
        i = image[k]
        got = f"{wanted.format(boxes[k].tolist())} for candidate {k - offsets[i]}"
        raise ValueError(f"{path}: image {i}: boxes: {got}, size {sizes[i].tolist()}")
    areas = sum(height * width for height, width in sizes.tolist())
    if "pixels" in fields and len(fields["pixels"]) != areas:
        raise ValueError(f"{path}: pixels: expected {areas}, as the sizes say, got {len(fields['pixels'])}")


def _first(path: str | Path, wrong: np.ndarray, message: str, values: np.ndarray) -> None:
    for i in np.flatnonzero(wrong)[:1]:
        raise ValueError(f"{path}: image {i}: {message.format(values[i].tolist())}")


def outside(boxes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Whether each box is empty or reaches outside its image (height, width)."""
    top, left, bottom, right = boxes.T
    empty = (bottom <= top) | (right <= left)
    wrong: np.ndarray = (top < 0) | (left < 0) | empty | (bottom > sizes[:, 0]) | (right > sizes[:, 1])
    return wrong
