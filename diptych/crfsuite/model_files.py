"""Model files of crfsuite: ``lCRF`` of type ``FOMC``, version 100.

A file has a header of 48 bytes, the features, a database of the labels, one of the attributes
(:mod:`diptych.crfsuite.strings`), and for each label and for each attribute the list of its features. Numbers have 4
bytes, the lowest first.

- Header: ``lCRF``, the size of the file, ``FOMC``, 100, 0, the numbers of labels and of attributes, the places of the
  five other parts.
- Features: ``FEAT``, the size of the part, their number; for each of them 0, an attribute, a label, or 1, a label, the
  label after it; and the weight, a double.
- Lists of labels, ``LFRF``, and of attributes, ``AFRF``: the size, the number of lists, the place of each; a list is
  its length and the numbers of features. There are two more lists of labels, without features.

Attributes without features are not kept. Pairs and transitions without a feature weigh 0.

Source: files that python-crfsuite 0.9 writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from diptych.crfsuite.binary import Binary
from diptych.crfsuite.strings import read_strings, strings_of
from diptych.files.text import load_bytes
from reference.archives import MOST_BYTES
from reference.files import save_bytes

MAGIC, KIND, VERSION, HEADER = b"lCRF", b"FOMC", 100, 48
LARGEST = 2**32 - 1
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


class CrfsuiteModel(NamedTuple):
    """What a model file holds.

    labels (L,), attributes (A,): names. states (m, 2): an attribute and a label each, state_weights (m,): their
    weights. transitions (k, 2): a label and the label after it, transition_weights (k,): their weights.
    """

    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    states: np.ndarray
    state_weights: np.ndarray
    transitions: np.ndarray
    transition_weights: np.ndarray


def read_model(path: str | Path, *, encoding: str = "utf-8", most_bytes: int = MOST_BYTES) -> CrfsuiteModel:
    """The model in a file of crfsuite, in time and memory that grow as the file.

    Parameters
    ----------
    path : str or Path
        A file, or a member of a zip (``name.zip:member``).
    encoding : str
        Of the names.
    most_bytes : int
        The maximum size of a member of a zip.

    Returns
    -------
    CrfsuiteModel
        Features in the order of the file.

    Raises
    ------
    ValueError
        Naming the file and the byte: another kind of file, a damaged one. A file that this function reads has each
        feature once, and in the list of its attribute or its first label.
    """
    return model_of(load_bytes(str(path), most_bytes=most_bytes), name=str(path), encoding=encoding)


def model_of(content: bytes, *, name: str = "bytes", encoding: str = "utf-8") -> CrfsuiteModel:
    """The model in the content of a file; errors are those of :func:`read_model`, with this name of the file."""
    file = Binary(name, content)
    if content[:4] != MAGIC or content[8:12] != KIND:
        got = content[:4] + content[8:12]
        raise file.wrong(0, f"expected {MAGIC.decode()} and, at byte 8, {KIND.decode()}, got {got!r}")
    size, _, version, _, L, A, *places = file.numbers(4, 11, "numbers of the header")
    if version != VERSION:
        raise file.wrong(12, f"expected version {VERSION}, got {version}")
    if size != len(content):
        raise file.wrong(4, f"the file is cut or longer than it was: expected {size} bytes, got {len(content)}")
    labels = read_strings(file, places[1], L, "labels", encoding)
    attributes = read_strings(file, places[2], A, "attributes", encoding)
    features = _features(file, places[0], L, A)
    states, moves = (np.flatnonzero(features["kind"] == kind) for kind in (0, 1))
    _check_lists(file, places[3], b"LFRF", L, features["source"], moves, "lists of labels")
    _check_lists(file, places[4], b"AFRF", A, features["source"], states, "lists of attributes")
    ends = np.stack([features["source"], features["target"]], 1).astype(np.int64)
    weights = features["weight"].astype(np.float64)
    return CrfsuiteModel(tuple(labels), tuple(attributes), ends[states], weights[states], ends[moves], weights[moves])


def write_model(path: str | Path, model: CrfsuiteModel) -> None:
    """Write a file that crfsuite reads. Features that weigh 0 are left out, and attributes without features.

    Raises
    ------
    ValueError
        A name that occurs twice, has a NUL or is not Unicode; a feature that occurs twice, lies outside of the names or
        has a weight that is not finite; a file of more than 2^32 - 1 bytes.
    OSError
        The file cannot be written. An existing file is unchanged.
    """
    save_bytes(path, bytes_of(model, name=str(path)))


def bytes_of(model: CrfsuiteModel, *, name: str = "model") -> bytes:
    """The content of the file that :func:`write_model` writes; the name is that of the file in errors."""
    labels, attributes = _encoded("labels", model.labels), _encoded("attributes", model.attributes)
    states, state_weights = _kept("states", model.states, model.state_weights, (len(attributes), len(labels)))
    moves, weights = _kept("transitions", model.transitions, model.transition_weights, (len(labels), len(labels)))
    used, states[:, 0] = np.unique(states[:, 0], return_inverse=True)
    features = np.zeros(len(states) + len(moves), _FEATURE)
    features["kind"][len(states) :] = 1
    features["source"], features["target"] = np.concatenate([states, moves]).T
    features["weight"] = np.concatenate([state_weights, weights])
    names = strings_of(labels), strings_of([attributes[i] for i in used.tolist()])
    place, places, parts = HEADER, [], []
    for part in (_part(b"FEAT", len(features), features.tobytes()), *names):
        places.append(place)
        parts.append(part)
        place += len(part)
    parts.append(bytes(-place % 4))
    place += len(parts[-1])
    for kind, first, sources, more in ((b"LFRF", len(states), moves, 2), (b"AFRF", 0, states, 0)):
        count = len(labels) if more else len(used)
        places.append(place)
        parts.append(_lists(kind, place, first, np.bincount(sources[:, 0], minlength=count), more))
        place += len(parts[-1])
    if place > LARGEST:
        raise ValueError(f"{name}: the file would have {place} bytes, and crfsuite's have at most {LARGEST}")
    numbers = [VERSION, 0, len(labels), len(used), *places]
    header = MAGIC + np.array([place], "<u4").tobytes() + KIND + np.array(numbers, "<u4").tobytes()
    return b"".join([header, *parts])


# reading --------------------------------------------------------------------------------------------------------------


def _features(file: Binary, place: int, L: int, A: int) -> np.ndarray:
    """The features, each of which is in range and finite."""
    size, count = file.part(place, b"FEAT", 2, "features")
    if 12 + _FEATURE.itemsize * count > size:
        raise file.wrong(place + 8, f"features: expected {count} within {size} bytes")
    features = file.array(place + 12, _FEATURE, count, "features")
    kind, source, target = (features[name].astype(np.int64) for name in ("kind", "source", "target"))
    right = (kind < 2) & (source < np.where(kind == 0, A, L)) & (target < L) & np.isfinite(features["weight"])
    if len(bad := np.flatnonzero(~right)):
        k = int(bad[0])
        expected = f"an attribute below {A} and a label below {L}, or two labels, and a finite weight"
        raise file.wrong(place + 12 + _FEATURE.itemsize * k, f"feature {k}: expected {expected}, got {features[k]}")
    order = np.argsort(cells := (kind * max(A, L) + source) * max(L, 1) + target, kind="stable")
    if len(twice := np.flatnonzero(np.diff(cells[order]) == 0)):
        k = int(order[twice[0] + 1])
        raise file.wrong(place + 12 + _FEATURE.itemsize * k, f"feature {k} is the same as feature {order[twice[0]]}")
    return features


def _check_lists(
    file: Binary, place: int, name: bytes, count: int, sources: np.ndarray, features: np.ndarray, what: str
) -> None:
    """Raise ValueError unless each feature is once in the list of its label or attribute, and nothing else is."""
    size, many = file.part(place, name, 2, what)
    if many < count or 12 + 4 * many > size:
        raise file.wrong(place + 8, f"{what}: expected at least {count} within {size} bytes, got {many}")
    starts = file.array(place + 12, "<u4", many, what).astype(np.int64)
    listed = np.flatnonzero(starts)
    lengths = np.zeros(many, np.int64)
    lengths[listed] = file.numbers_at(starts[listed], what)
    total = int(lengths.sum())
    if total != len(features):
        raise file.wrong(place, f"{what}: expected {len(features)} features, got {total}")
    within = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    numbers = file.numbers_at(np.repeat(starts + 4, lengths) + 4 * within, what)
    order = np.argsort(numbers, kind="stable")
    owners = np.repeat(np.arange(many), lengths)
    if not np.array_equal(numbers[order], features):
        raise file.wrong(place, f"{what}: expected each feature once")
    if len(bad := np.flatnonzero(sources[features] != owners[order])):
        k = int(bad[0])
        raise file.wrong(place, f"{what}: feature {features[k]} is in the list of {owners[order][k]}")


# writing --------------------------------------------------------------------------------------------------------------


def _encoded(what: str, names: tuple[str, ...]) -> list[bytes]:
    """Names as bytes."""
    try:
        encoded = [name.encode() for name in names]
    except UnicodeEncodeError as problem:
        raise ValueError(f"{what}: expected Unicode, got {problem.object!r:.80}") from None
    wrong = next((name for name, each in zip(names, encoded, strict=True) if 0 in each), None)
    if wrong is not None:
        raise ValueError(f"{what}: a name with a NUL has no place in crfsuite's format, got {wrong!r:.80}")
    if len(set(encoded)) < len(encoded):
        raise ValueError(f"{what}: expected different names")
    return encoded


def _kept(what: str, ends: np.ndarray, weights: np.ndarray, sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The features that do not weigh 0, in order."""
    ends, weights = np.asarray(ends, np.int64).reshape(-1, 2), np.asarray(weights, np.float64).reshape(-1)
    if len(ends) != len(weights) or not np.all(np.isfinite(weights)):
        raise ValueError(f"{what}: expected {len(ends)} finite weights, got {len(weights)} or nan or inf among them")
    if len(ends) and not (ends.min() >= 0 and np.all(ends.max(axis=0) < sizes)):
        raise ValueError(f"{what}: expected numbers of names below {sizes[0]} and {sizes[1]}")
    order = np.lexsort(ends[:, ::-1].T)
    ends, weights = ends[order], weights[order]
    if len(ends) and np.any(np.all(np.diff(ends, axis=0) == 0, axis=1)):
        raise ValueError(f"{what}: expected each pair once")
    return ends[weights != 0], weights[weights != 0]


def _part(name: bytes, count: int, content: bytes) -> bytes:
    return name + np.array([12 + len(content), count], "<u4").tobytes() + content


def _lists(name: bytes, place: int, first: int, lengths: np.ndarray, more: int) -> bytes:
    """Lists of consecutive features from number ``first`` on, and ``more`` that do not exist."""
    starts = np.zeros(len(lengths) + more, np.int64)
    begins = np.cumsum(1 + lengths) - 1 - lengths  # of each list among all numbers
    starts[: len(lengths)] = place + 12 + 4 * len(starts) + 4 * begins
    numbers = np.zeros(int(len(lengths) + lengths.sum()), "<u4")
    heads = np.zeros(len(numbers), bool)
    heads[begins] = True
    numbers[heads] = lengths
    numbers[~heads] = first + np.arange(int(lengths.sum()))
    return _part(name, len(starts), starts.astype("<u4").tobytes() + numbers.tobytes())
