"""Binary pictures (h, w) of 0 (background) and 1 (ink): files, handwritten words, noise, and features for restoration.

Files: ``.npy`` (zeros and ones), ``.npz`` (an array for each picture), ``.pbm`` (black is ink), ``.pgm`` and ``.png``
(darker than half is ink). Pickle is not used.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diptych.pictures.plots import require_matplotlib
from reference.archives import MOST_BYTES, read_npy, read_npz
from reference.datasets import load_letters
from reference.files import save_bytes
from reference.models.segmentation import grid_edges

NODE_FEATURES = ("bias", "pixel", "neighbourhood")
EDGE_FEATURES = ("edge", "agreement")
PIXEL = 32  # bytes in memory of a PNG's pixel: four channels as float64
FORMATS = (".npy", ".npz", ".pbm", ".pgm", ".png")


def features(picture: np.ndarray, connectivity: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture as an image of :class:`SegmentationModel`: node features, edges, edge features.

    Features of a pixel: 1; the pixel as -1 or 1; the sum of the 3 x 3 pixels around it as -1 or 1, with 0 outside the
    picture. Features of an edge: 1; whether its two pixels agree.
    """
    height, width = picture.shape
    seen = 2.0 * picture - 1.0
    padded = np.pad(seen, 1)
    around = sum((padded[i : i + height, j : j + width] for i in range(3) for j in range(3)), np.zeros(picture.shape))
    edges = grid_edges(height, width, connectivity)
    ends = picture.ravel()[edges]
    agree = np.stack([np.ones(len(edges)), (ends[:, 0] == ends[:, 1]).astype(np.float64)], axis=1)
    return np.stack([np.ones(picture.size), seen.ravel(), around.ravel()], axis=1), edges, agree


def noisy_copy(picture: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """The picture with each pixel flipped with probability ``noise``."""
    return np.where(rng.random(picture.shape) < noise, 1 - picture, picture)


def word_pictures(numbers: np.ndarray, scale: int) -> list[np.ndarray]:
    """The words ``numbers`` of the letters data set as pictures, with each pixel of a letter enlarged to ``scale`` x
    ``scale`` pixels.
    """
    letters = load_letters().take(numbers)
    square = np.ones((scale, scale), dtype=np.int64)
    return [
        np.kron(np.concatenate([x.reshape(16, 8) for x in word], axis=1).astype(np.int64), square) for word in letters.X
    ]


def page(words: Sequence[np.ndarray], margin: int) -> np.ndarray:
    """Words in lines on a page whose width is about its height, with ``margin`` pixels around each word."""
    framed = [np.pad(word, margin) for word in words]
    limit = max([int(np.sqrt(sum(word.size for word in framed))), *(word.shape[1] for word in framed)])
    lines: list[list[np.ndarray]] = []
    for word in framed:
        if not lines or sum(w.shape[1] for w in lines[-1]) + word.shape[1] > limit:
            lines.append([])
        lines[-1].append(word)
    set_lines = [np.concatenate(line, axis=1) for line in lines]
    width = max(line.shape[1] for line in set_lines)
    return np.concatenate([np.pad(line, ((0, 0), (0, width - line.shape[1]))) for line in set_lines])


# files -------------------------------------------------------------------------------------------------------------


def read_pictures(path: str | Path, *, most_bytes: int = MOST_BYTES) -> list[np.ndarray]:
    """The pictures of a file, int64 (h, w) of 0 and 1: all arrays of an ``.npz``, one picture of another format.

    most_bytes: maximum total size of the arrays of an ``.npz`` (see :mod:`reference.archives`), and of the pixels of a
    PNG at 32 bytes each.

    Raises
    ------
    ValueError
        A file of unknown format, damaged, with values other than zeros and ones, without pixels, or larger than
        ``most_bytes``. The message names the file.
    OSError
        The file cannot be read.
    ImportError
        A PNG needs matplotlib.
    """
    kind = _kind(path)
    if kind == ".npz":
        arrays = read_npz(path, "file of pictures (.npz without pickled objects)", most_bytes=most_bytes)
        if not arrays:
            raise ValueError(f"{path}: expected one array (h, w) of zeros and ones for each picture, got none")
        return [_binary(f"{path}: {name}", x) for name, x in arrays.items()]
    if kind == ".npy":
        return [_binary(path, read_npy(path))]
    if kind == ".png":
        return [_png(path, most_bytes)]
    return [_netpbm(path, Path(path).read_bytes())]


def writable_picture(path: str | Path) -> None:
    """Raise ValueError for an unknown suffix, ImportError for a PNG without matplotlib."""
    if _kind(path) == ".npz":
        raise ValueError(f"{path}: expected a name that ends with .npy, .pbm, .pgm or .png")
    if _kind(path) == ".png":
        require_matplotlib()


def write_picture(path: str | Path, picture: np.ndarray) -> None:
    """Write a picture (h, w) of 0 and 1 in the format of the suffix, completely or not at all.

    OSError if the file cannot be written.
    """
    kind, (height, width) = _kind(path), picture.shape
    content = io.BytesIO()
    if kind == ".npy":
        np.save(content, picture.astype(np.uint8))
    elif kind == ".pbm":
        content.write(b"P4\n%d %d\n" % (width, height) + np.packbits(picture.astype(np.uint8), axis=1).tobytes())
    elif kind == ".pgm":
        content.write(b"P5\n%d %d\n255\n" % (width, height) + (255 * (1 - picture)).astype(np.uint8).tobytes())
    else:
        require_matplotlib()
        from matplotlib.image import imsave

        imsave(content, 1 - picture, cmap="gray", vmin=0, vmax=1, format="png")
    save_bytes(path, content.getvalue())


def _kind(path: str | Path) -> str:
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise ValueError(f"{path}: expected a picture file that ends with one of {', '.join(FORMATS)}")
    return kind


def _binary(name: Any, x: np.ndarray) -> np.ndarray:
    """An array of zeros and ones as int64 (h, w)."""
    if x.ndim != 2 or x.dtype.kind not in "fiub" or x.size == 0:
        raise ValueError(f"{name}: expected a picture (h, w) of zeros and ones, got {x.dtype} of shape {x.shape}")
    for row, column in np.argwhere((x != 0) & (x != 1))[:1].tolist():
        raise ValueError(f"{name}: row {row}, column {column}: expected zeros and ones, got {x[row, column]}")
    return x.astype(np.int64)


def _png(path: str | Path, most_bytes: int) -> np.ndarray:
    """A PNG over a white background; darker than half is ink."""
    require_matplotlib()
    from matplotlib.image import imread

    content = Path(path).read_bytes()
    width, height = int.from_bytes(content[16:20]), int.from_bytes(content[20:24])  # in the first chunk, the header
    if width * height * PIXEL > most_bytes:
        raise ValueError(f"{path}: {width} x {height} pixels of {PIXEL} bytes are more than most_bytes = {most_bytes}")
    try:
        x = np.asarray(imread(io.BytesIO(content), "png"), dtype=np.float64)
    except Exception as problem:  # a damaged file makes decoders raise nearly anything
        raise ValueError(f"{path}: not a readable PNG: {problem}") from None
    if x.ndim == 3:
        opaque = x[..., 3] if x.shape[2] == 4 else np.ones(x.shape[:2])
        x = x[..., :3].mean(axis=2) * opaque + 1 - opaque
    return (x < 0.5).astype(np.int64)


def _netpbm(path: str | Path, content: bytes) -> np.ndarray:
    """A P1, P2, P4 or P5 file: a header of numbers and comments, then the pixels row by row."""
    magic = content[:2]
    if magic not in (b"P1", b"P2", b"P4", b"P5"):
        raise ValueError(f"{path}: expected a PBM or PGM file (P1, P2, P4 or P5), got {magic!r}")
    bits = magic in (b"P1", b"P4")
    header = re.match(rb".." + rb"(?:\s|#[^\n]*\n)+(\d{1,9})" * (2 if bits else 3), content)
    if header is None:
        raise ValueError(f"{path}: expected {2 if bits else 3} numbers at the head of a {magic.decode()} file")
    width, height, most = int(header[1]), int(header[2]), 1 if bits else int(header[3])
    if width * height == 0 or not 1 <= most <= 65535:
        raise ValueError(
            f"{path}: expected at least one pixel and a largest value in 1..65535, got {width} x {height} and {most}"
        )
    body = content[header.end() :]
    values = _pixels(magic, body, width, height, most)
    if len(values) < width * height:
        raise ValueError(f"{path}: expected {width} x {height} pixels, the file ends before")
    values = values[: width * height].reshape(height, width)
    for row, column in np.argwhere((values < 0) | (values > most))[:1].tolist():
        raise ValueError(f"{path}: row {row}, column {column}: expected a pixel in 0..{most}")
    return values if bits else (2 * values < most).astype(np.int64)


def _pixels(magic: bytes, body: bytes, width: int, height: int, most: int) -> np.ndarray:
    """The pixels in order; -1 in P2 for a word that is not a number."""
    if magic == b"P1":
        return np.frombuffer(re.sub(rb"#[^\n]*|\s", b"", body), np.uint8).astype(np.int64) - ord("0")
    if magic == b"P2":
        words = re.sub(rb"#[^\n]*", b"", body).split()
        return np.array([int(word) if word.isdigit() and len(word) < 9 else -1 for word in words], dtype=np.int64)
    stride = -(-width // 8) if magic == b"P4" else width * (1 if most < 256 else 2)
    raw = body[1 : 1 + height * stride]  # one whitespace character ends the header
    if len(raw) < height * stride:
        return np.zeros(0, np.int64)
    if magic == b"P4":
        bits = np.unpackbits(np.frombuffer(raw, np.uint8).reshape(height, stride), axis=1)
        return bits[:, :width].ravel().astype(np.int64)
    return np.frombuffer(raw, np.uint8 if most < 256 else ">u2").astype(np.int64)
