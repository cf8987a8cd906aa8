"""Write files of images with candidate boxes image by image, so that features need not fit into memory.

:mod:`diptych.files.localization` describes the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from diptych.files.localization import ALIGN, DTYPES, MAGIC, MOST, outside
from reference.arrays import integer
from reference.files import replacing

__all__ = ["LocalizationImage", "save_localization"]


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
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
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
            raise ValueError(
                f"image {i}: features: expected shape (m, {_listed(first.features.shape[1:])}), got "
                f"{image.features.shape}"
            )
        for name in ("truth", "label", "pixels"):
            if (getattr(image, name) is None) != (getattr(first, name) is None):
                raise ValueError(f"image {i}: {name}: expected that of all images or of none")
        file.write(image.features.tobytes())
        for name, x in zip(
            ("boxes", "truth", "labels", "sizes"), (image.boxes, image.truth, image.label, image.size), strict=True
        ):
            columns[name].append(x)
        columns["pixels"].append(b"" if image.pixels is None else image.pixels.tobytes())
    if first is None:
        raise ValueError("images: expected at least one")
    lengths = [len(boxes) for boxes in columns["boxes"]]
    fields = {
        "boxes": np.concatenate(columns["boxes"]),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "sizes": np.array(columns["sizes"]),
    }
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
        raise ValueError(
            f"image {i}: {name}: expected boxes with a pixel in them, inside the image of size {size.tolist()}"
        )


def _header(names: list[str], info: dict[str, Any], arrays: dict[str, dict[str, Any]]) -> bytes:
    return json.dumps({"classes": names, "info": info, "arrays": arrays}, allow_nan=False).encode()


def _aligned(k: int) -> int:
    return -(-k // ALIGN) * ALIGN


def _listed(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape))
