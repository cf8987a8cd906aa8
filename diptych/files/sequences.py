"""Sequence files: lists of labelled sequences.

A sequence file is an ``.npz`` (read without pickle) with

* ``features`` (N, F) numbers, or ``pixels`` (N, B) uint8 packed by ``numpy.packbits``: the N positions of all
  sequences;
* ``labels`` (N,) integers >= 0;
* ``offsets`` (n+1,): sequence i owns positions offsets[i]:offsets[i+1];
* ``fold`` (n,) integers, optional: a fold for each sequence;
* ``names`` (L,) strings, optional: the names of labels 0..L-1. Without them the labels are the integers that occur, and
  their digits are the names.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from reference.archives import MOST_BYTES, bound_of, read_npz
from reference.datasets import Sequences

FEW = 10  # labels that a message lists
BITS = 64  # of a feature in memory, as float64; in a file it may take one bit


def load_sequences(path: str | Path, *, labelled: bool = True, most_bytes: int = MOST_BYTES) -> Sequences:
    """Read a sequence file (format above).

    labelled: if False, a file may lack ``labels``; then every label is 0, named "?". most_bytes: maximum total size of
    the arrays of a compressed file (see :mod:`reference.archives`), and of the features as float64 unless the file
    itself has a bit for each.

    Raises
    ------
    ValueError
        A file that is not an npz, a missing field, wrong shapes or ranges, or more than ``most_bytes``. The message
        names the file and the field.

    Warns
    -----
    UserWarning
        If a file without names has other labels than 0..L-1. Then Y has their positions in ``labels``, the names.
    """
    data = read_sequences(path, labelled=labelled, most_bytes=most_bytes)
    if others := numbered(data.labels):
        warnings.warn(f"{path}: {others}", stacklevel=2)
    return data


def numbered(labels: tuple[str, ...]) -> str | None:
    """The warning about labels that are integers other than 0..L-1; None for other labels."""
    if not all(map(str.isdecimal, labels)) or (numbers := sorted(map(int, labels))) == [*range(len(labels))]:
        return None
    more = f", ... and {len(numbers) - FEW} more" if len(numbers) > FEW else ""
    return (
        f"labels {', '.join(map(str, numbers[:FEW]))}{more}: no other integer occurs (a field names would name labels)"
    )


def read_sequences(path: str | Path, *, labelled: bool = True, most_bytes: int = MOST_BYTES) -> Sequences:
    """As :func:`load_sequences`, without its warning."""
    fields = read_npz(path, "sequence file (.npz without pickled objects)", most_bytes=most_bytes)
    unlabelled = not labelled and "labels" not in fields
    missing = [name for name in ("labels", "offsets") if name not in fields and not (unlabelled and name == "labels")]
    if missing or not {"features", "pixels"} & set(fields):
        found = ", ".join(sorted(fields)) or "none"
        raise ValueError(f"{path}: no field {', '.join(missing) or 'features (or pixels)'}; found {found}")
    kind = "pixels" if "pixels" in fields else "features"
    features = _matrix(path, fields, kind)
    held = max(features.size * (BITS if kind == "pixels" else 8), 8 * len(features))  # as float64, with labels
    if held > max(most_bytes, BITS * bound_of(path, 0)):
        wanted = f"at most most_bytes = {most_bytes}, or {BITS} times the file's size"
        raise ValueError(f"{path}: {kind}: expected {wanted}, got {held} bytes as float64")
    features = np.unpackbits(features, axis=1) if kind == "pixels" else features
    if unlabelled:
        fields |= {"labels": np.zeros(len(features), np.int64), "names": np.array(["?"])}
    labels, offsets = _integers(path, fields, "labels"), _integers(path, fields, "offsets")
    rise = len(offsets) > 0 and offsets[0] == 0 and not np.any(offsets[1:] < offsets[:-1])
    if not rise or not offsets[-1] == len(labels) == len(features):
        got = f"{len(features)} feature rows, {len(labels)} labels, last offset {[None, *offsets][-1]}"
        raise ValueError(f"{path}: offsets must rise from 0 to the number of positions; got {got}")
    if len(labels) and labels.min() < 0:
        raise ValueError(f"{path}: labels: expected integers >= 0, got {labels.min()}")
    if "names" in fields and (fields["names"].ndim != 1 or fields["names"].dtype.kind != "U"):
        raise ValueError(
            f"{path}: names: expected a vector of strings, got {fields['names'].dtype} of shape {fields['names'].shape}"
        )
    if "names" in fields:
        names = tuple(str(name) for name in fields["names"])
    else:
        occurring, labels = np.unique(labels, return_inverse=True)
        names = tuple(map(str, occurring.tolist())) or ("0",)
    if len(labels) and labels.max() >= len(names):
        raise ValueError(f"{path}: labels: expected 0..{len(names) - 1} ({len(names)} names), got {labels.max()}")
    fold = _integers(path, fields, "fold") if "fold" in fields else None
    if fold is not None and len(fold) != len(offsets) - 1:
        raise ValueError(f"{path}: fold: expected one for each of {len(offsets) - 1} sequences, got {len(fold)}")
    with np.errstate(all="ignore"):
        features = features.astype(np.float64)
    for row, column in np.argwhere(~np.isfinite(features))[:1].tolist():
        got = fields[kind][row, column]
        raise ValueError(f"{path}: {kind}[{row}, {column}]: expected a finite number, got {got}")
    bounds = list(itertools.pairwise(offsets))
    return Sequences(Path(path).stem, [features[a:b] for a, b in bounds], [labels[a:b] for a, b in bounds], names, fold)


def relabelled(path: str, data: Sequences, labels: tuple[str, ...]) -> Sequences:
    """The sequences of a file with labels in another order. ValueError for a label that is not among them."""
    number = np.array([labels.index(name) if name in labels else -1 for name in data.labels], np.int64)
    given = np.concatenate([np.zeros(0, np.int64), *data.Y])
    for i in np.flatnonzero(number[given] < 0)[:1].tolist():
        expected = f"expected a label of the model, {', '.join(labels):.200}"
        raise ValueError(f"{path}: labels[{i}]: {expected}, got {data.labels[given[i]]}")
    return Sequences(data.name, data.X, [number[y] for y in data.Y], labels, data.fold)


def _matrix(path: Any, fields: dict[str, np.ndarray], name: str) -> np.ndarray:
    x = fields[name]
    if x.ndim != 2 or x.dtype.kind not in "fiub" or (name == "pixels" and x.dtype != np.uint8):
        kind = "uint8" if name == "pixels" else "numbers"
        raise ValueError(f"{path}: {name}: expected a matrix of {kind}, got {x.dtype} of shape {x.shape}")
    return x


def _integers(path: Any, fields: dict[str, np.ndarray], name: str) -> np.ndarray:
    x = fields[name]
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise ValueError(f"{path}: {name}: expected a vector of integers, got {x.dtype} of shape {x.shape}")
    if x.size and x.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{path}: {name}: expected integers of 64 bits with a sign, got {x.max()}")
    return x.astype(np.int64)
