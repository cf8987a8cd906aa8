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

Pickle is not used. Files are written image by image, so that features need not fit into memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from reference.archives import parse_json
from reference.arrays import integer
from reference.files import replacing
from reference.models.candidate_data import Candidates
from reference.structures.boxes import iou

MAGIC = b"diptych localization 1\n"
ALIGN = 64
LONGEST_HEADER = 1 << 24
ARRAYS = {  # the dtype and the number of dimensions of each
    "features": ("<f4", 4),
    "boxes": ("<i4", 2),
    "offsets": ("<i8", 1),
    "sizes": ("<i4", 2),
    "truth": ("<i4", 2),
    "labels": ("<i8", 1),
    "pixels": ("|u1", 1),
}
DTYPES = {name: dtype for name, (dtype, _) in ARRAYS.items()}
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
        sizes = f"{self.n} images, {len(self.boxes)} candidates, features {shape}, {len(self.classes)} classes"
        return f"Localization({self.name}: {sizes})"

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
    if not isinstance(classes, list) or not _different_names(classes):
        raise ValueError(f"{path}: classes: expected at least one name, all different, got {classes!r:.80}")
    if not isinstance(info, dict):
        raise ValueError(f"{path}: info: expected an object, got {info!r:.80}")
    fields = {name: x if name in ("features", "pixels") else np.array(x) for name, x in fields.items()}
    _check_fields(path, fields, len(classes))
    return Localization(str(path), tuple(classes), **fields, info=info)


def _different_names(names: list[Any]) -> bool:
    return bool(names) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


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
    wanted, dimensions = ARRAYS[name]
    try:
        dtype, shape, offset = entry["dtype"], tuple(entry["shape"]), entry["offset"]
        in_range = all(type(k) is int and 0 <= k <= MOST for k in (*shape, offset))
    except (TypeError, KeyError):
        raise ValueError(f"{path}: {name}: expected dtype, shape and offset in the header, got {entry!r:.80}") from None
    if dtype != wanted or not in_range or len(shape) != dimensions or offset % ALIGN:
        raise ValueError(
            f"{path}: {name}: expected {wanted} of {dimensions} dimensions at a multiple of {ALIGN}, "
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
    wrong = (offsets[1:] <= offsets[:-1]) | (offsets[1:] > N)
    _first(path, wrong, "offsets: expected at least one candidate, got {}", np.diff(offsets))
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


# write files of images with candidate boxes image by image, so that features need not fit into memory ----------------


class LocalizationImage(NamedTuple):
    """One image: candidate boxes (m, 4), their features (m, h, w, C) and the size (height, width).

    Optional: the true box (4,), the index of its class, and pixels (height, width) uint8.
    """

    boxes: np.ndarray
    features: np.ndarray
    size: tuple[int, int]
    truth: Any = None
    label: int | None = None
    pixels: np.ndarray | None = None


def save_localization(
    path: str | Path, images: Iterable[LocalizationImage], classes: Sequence[str], info: dict[str, Any] | None = None
) -> None:
    """Write images one after another, so that their features need not fit into memory.

    classes: the names of the classes; info: any JSON-able dictionary.

    Raises
    ------
    ValueError, TypeError
        An invalid argument or image. The message names the image and the field. No file is written.
    OSError
        The file cannot be written. An existing file at ``path`` is unchanged.
    """
    if not isinstance(classes, Iterable):
        raise TypeError(f"classes: expected a sequence of names, got {type(classes).__name__}")
    names = list(classes)
    if not _different_names(names):
        raise ValueError(f"classes: expected at least one name, all different, got {names}")
    if info is not None and not isinstance(info, dict):
        raise TypeError(f"info: expected a dictionary, got {type(info).__name__}")
    try:
        json.dumps(info, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"info: expected what JSON has words for: {problem}") from None
    if not isinstance(images, Iterable):
        raise TypeError(f"images: expected LocalizationImages, got {type(images).__name__}")
    with replacing(path) as file:
        _write(file, iter(images), names, info or {})


def _write(file: IO[bytes], images: Iterable[LocalizationImage], names: list[str], info: dict[str, Any]) -> None:
    """Write space for the header, the features, the other arrays, and finally the header."""
    longest = {name: {"dtype": dtype, "shape": [MOST] * 4, "offset": MOST} for name, dtype in DTYPES.items()}
    space = len(MAGIC) + len(_header(names, info, longest)) + 1
    start = _aligned(space)
    file.write(bytes(start))
    columns: dict[str, list[Any]] = {name: [] for name in DTYPES if name != "features"}
    first: LocalizationImage | None = None
    for i, image in enumerate(images):
        image = _checked(i, image, len(names))
        first = first or image
        if image.features.shape[1:] != first.features.shape[1:]:
            expected = f"expected shape (m, {', '.join(map(str, first.features.shape[1:]))})"
            raise ValueError(f"image {i}: features: {expected}, got {image.features.shape}")
        for name in ("truth", "label", "pixels"):
            if (getattr(image, name) is None) != (getattr(first, name) is None):
                raise ValueError(f"image {i}: {name}: expected that of all images or of none")
        file.write(image.features.tobytes())
        for name, x in {"boxes": image.boxes, "truth": image.truth, "labels": image.label, "sizes": image.size}.items():
            columns[name].append(x)
        columns["pixels"].append(b"" if image.pixels is None else image.pixels.tobytes())
    if first is None:
        raise ValueError("images: expected at least one")
    lengths = [len(boxes) for boxes in columns["boxes"]]
    fields = {"boxes": np.concatenate(columns["boxes"]), "offsets": np.concatenate([[0], np.cumsum(lengths)])}
    fields |= {"sizes": np.array(columns["sizes"])}
    fields |= {} if first.truth is None else {"truth": np.stack(columns["truth"])}
    fields |= {} if first.label is None else {"labels": np.array(columns["labels"])}
    fields |= {} if first.pixels is None else {"pixels": np.frombuffer(b"".join(columns["pixels"]), np.uint8)}
    shape = [sum(lengths), *first.features.shape[1:]]
    arrays: dict[str, dict[str, Any]] = {"features": {"dtype": DTYPES["features"], "shape": shape, "offset": 0}}
    for name, x in fields.items():
        file.write(bytes(_aligned(file.tell()) - file.tell()))
        arrays[name] = {"dtype": DTYPES[name], "shape": list(x.shape), "offset": file.tell() - start}
        file.write(x.astype(DTYPES[name]).tobytes())
    file.seek(0)
    file.write(MAGIC + _header(names, info, arrays).ljust(start - len(MAGIC) - 1) + b"\n")


def _checked(i: int, image: LocalizationImage, classes: int) -> LocalizationImage:
    """The image as arrays, with features in float32. ValueError for an invalid field, which the message names."""
    if not isinstance(image, LocalizationImage):
        raise TypeError(f"images: expected LocalizationImages, got {type(image).__name__} for image {i}")
    boxes, features, size = (_array(i, name, getattr(image, name)) for name in ("boxes", "features", "size"))
    if size.shape != (2,) or size.dtype.kind not in "iu" or np.any(size < 1):
        raise ValueError(f"image {i}: size: expected (height, width), got {image.size}")
    _check_boxes(i, "boxes", boxes, (len(boxes) if boxes.ndim else 0, 4), size)
    truth = None if image.truth is None else _array(i, "truth", image.truth)
    if truth is not None:
        _check_boxes(i, "truth", truth, (4,), size)
    if features.ndim != 4 or features.dtype.kind not in "fiu" or len(features) != len(boxes) or not features.size:
        wanted = f"expected shape ({len(boxes)}, h, w, C)"
        raise ValueError(f"image {i}: features: {wanted}, got {features.dtype} of shape {features.shape}")
    with np.errstate(over="ignore"):
        features = features.astype("<f4")
    if not np.all(np.isfinite(features)):
        raise ValueError(f"image {i}: features: expected finite numbers of float32's range")
    if image.label is not None and not integer(f"image {i}: label", image.label, 0) < classes:
        raise ValueError(f"image {i}: label: expected 0..{classes - 1}, got {image.label}")
    pixels = None if image.pixels is None else _array(i, "pixels", image.pixels)
    if pixels is not None and (pixels.shape != tuple(size) or pixels.dtype != np.uint8):
        wanted = f"expected uint8 of shape {tuple(size.tolist())}"
        raise ValueError(f"image {i}: pixels: {wanted}, got {pixels.dtype} of shape {pixels.shape}")
    return LocalizationImage(boxes, features, tuple(size.tolist()), truth, image.label, pixels)


def _array(i: int, name: str, values: Any) -> np.ndarray:
    """A field as an array. ValueError for lists of different lengths; the message names the field."""
    try:
        return np.asarray(values)
    except ValueError as problem:
        raise ValueError(f"image {i}: {name}: expected an array: {problem}") from None


def _check_boxes(i: int, name: str, x: np.ndarray, shape: tuple[int, ...], size: np.ndarray) -> None:
    if x.shape != shape or x.dtype.kind not in "iu" or not x.size:
        raise ValueError(f"image {i}: {name}: expected integers of shape {shape}, got {x.dtype} of shape {x.shape}")
    if np.any(outside(x.reshape(-1, 4), size[None])):
        wanted = "expected boxes with a pixel in them, inside the image of size"
        raise ValueError(f"image {i}: {name}: {wanted} {size.tolist()}")


def _header(names: list[str], info: dict[str, Any], arrays: dict[str, dict[str, Any]]) -> bytes:
    return json.dumps({"classes": names, "info": info, "arrays": arrays}, allow_nan=False).encode()


def _aligned(k: int) -> int:
    return -(-k // ALIGN) * ALIGN
