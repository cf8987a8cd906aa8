"""The labels, features and pairs that occur in partitions, found in one pass, and models of them.

For a tagger these are labels, attributes and pairs. For sequence files they are labels and the number of features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from diptych.distributed.loaders import Loader, SequenceFile
from diptych.distributed.transports import transport_of
from diptych.files.sources import named
from reference.example_errors import ExampleError
from reference.models.macros import has_transitions
from reference.models.tagging import TaggingModel, check_choices
from reference.models.templates import hashes
from reference.models.token_templates import TokenAttributes, attributes_of, check_templates, edge_lines

Templates = tuple[str, ...] | Callable[[Any, int], Any] | None


class Found(NamedTuple):
    """What occurs in a partition.

    labels: in order of first occurrence. names: of attributes, likewise, or their hashes. times (names,): counts of the
    names. pairs (m, 2): numbers of a name and a label. following (k, 2): numbers of adjacent labels. edges: the same
    of attributes of pairs of neighbours, with pairs (m, 3) of a name and two labels; or None.
    """

    labels: list[str]
    names: Any
    times: np.ndarray
    pairs: np.ndarray
    following: np.ndarray
    edges: Found | None = None


def found_in(
    loaders: tuple[Loader, ...], templates: Templates, k: int, hashed: bool, scheme: str | None = None
) -> Found:
    """What occurs in partition k. hashed: return hashes of names in place of names. scheme: of the labels."""
    X, Y = loaders[k]()
    with named(X):
        check_scheme(scheme, Y)
        attributes = attributes_of(X, templates)
    number: dict[str, int] = {}
    labels = np.array([number.setdefault(label, len(number)) for y in Y for label in y], np.int64)
    if len(labels) != len(attributes.indptr) - 1:
        raise ValueError(f"partition {k} ({loaders[k]}): {len(attributes.indptr) - 1} tokens have {len(labels)} labels")
    inside = np.ones(len(labels), bool)
    inside[attributes.offsets[:-1][np.diff(attributes.offsets) > 0]] = False  # the first token of each sentence
    later = np.flatnonzero(inside)
    following = np.unique(np.stack([labels[later - 1], labels[later]], 1), axis=0)

    def found(attributes: TokenAttributes, *of_tokens: np.ndarray) -> Found:
        token = np.repeat(np.arange(len(labels)), np.diff(attributes.indptr))
        pairs = np.unique(np.stack([attributes.numbers, *(each[token] for each in of_tokens)], 1), axis=0)
        times = np.bincount(attributes.numbers, minlength=len(attributes.names))
        names = hashes(attributes.names) if hashed else attributes.names
        return Found(list(number), names, times, pairs, following)

    of_pairs = None if attributes.edges is None else found(attributes.edges, np.roll(labels, 1), labels)
    return found(attributes, labels)._replace(edges=of_pairs)


def check_scheme(scheme: Any, Y: Iterable[Sequence[str]]) -> None:
    """Raise ExampleError at the first label that a scheme of chunks does not have; own rules are no scheme."""
    seen = set[str]()
    for i, y in enumerate(Y if isinstance(scheme, str) else ()):
        for t, label in enumerate(y):
            if label not in seen:
                seen.add(label)
                try:
                    TaggingModel(list(dict.fromkeys(["O", label])), None, vocabulary=(), transitions=scheme)
                except ValueError as problem:
                    raise ExampleError("Y", i, t, str(problem)) from None


def tagging_model(
    panel: ModuleType,
    loaders: Sequence[Loader],
    templates: Any,
    executor: Any = None,
    *,
    pairs: str = "observed",
    least: int = 1,
    bits: int | None = None,
    **settings: Any,
) -> Any:
    """``TaggingModel.of`` for sentences in partitions. The weights are the same, but in another order.

    Parameters
    ----------
    panel : module
        ``reference`` or ``accelerated``. The model is a ``TaggingModel`` of this panel.
    loaders : sequence of callables
        As for :class:`Partitioned`. Y has names of labels.
    templates, pairs, least, bits
        As for ``TaggingModel.of``. With bits, names are not sent.
    executor : executor or client, optional
        As for :class:`Partitioned`.
    **settings
        ``transitions`` and ``cost`` of ``TaggingModel``.

    Returns
    -------
    TaggingModel
        Its labels are in alphabetical order. Its vocabulary is in order of first occurrence, partition by partition.

    Raises
    ------
    ValueError, TypeError
        A loader fails; labels are not names; an option is not one that ``TaggingModel.of`` accepts.
    """
    check_choices(pairs, least, bits)
    given: Templates = templates if templates is None or callable(templates) else check_templates(templates)
    transport = transport_of(executor)
    rest = bits is not None, settings.get("transitions")
    with transport.sent(tuple(loaders), given) as sent:
        parts: list[Found] = transport.each(found_in, len(loaders), *sent, rest=rest)
    labels = sorted({label for part in parts for label in part.labels if isinstance(label, str)})
    if not labels or not all(isinstance(label, str) for part in parts for label in part.labels):
        raise ValueError(f"Y: expected names of labels, got {[x for part in parts for x in part.labels][:9]}")
    order, L = {label: i for i, label in enumerate(labels)}, len(labels)
    found: dict[str, Any] = {"": parts} | ({"edge_": [part.edges for part in parts]} if edge_lines(given, None) else {})
    hashing = None if bits is None else panel.TaggingModel(labels, given, bits=bits)
    settings["bits"] = bits
    for kind, each in found.items():
        if hashing is None:
            settings[f"{kind}vocabulary"], rows = _vocabulary(each, least)
        else:
            width = np.uint64(hashing.n_edge_features if kind else hashing.width)
            rows = [(part.names % width).astype(np.int64) for part in each]
        if pairs == "observed":
            settings[f"{kind}pairs"] = _cells(each, rows, order)
    if pairs == "observed":
        label = [np.array([order[each] for each in part.labels], np.int64) for part in parts]
        following = [x[part.following] @ [L, 1] for x, part in zip(label, parts, strict=True)]
        settings["label_pairs"] = np.unique(np.concatenate(following)) if has_transitions(given) else []
    if pairs == "observed" and settings.get("transitions") is not None:  # pack names where others occur
        can = panel.TaggingModel(labels, None, vocabulary=(), transitions=settings["transitions"]).label_pairs
        settings["label_pairs"] = np.intersect1d(settings["label_pairs"], can)
        if "edge_" in found:
            settings["edge_pairs"] = settings["edge_pairs"][np.isin(settings["edge_pairs"] % L**2, can)]
    return panel.TaggingModel(labels, given, **settings)


def _cells(parts: list[Found], rows: list[np.ndarray], order: dict[str, int]) -> np.ndarray:
    """The weights, in C order of rows and labels, of the pairs that occur in parts, with ``rows`` for their names."""
    cells = []
    for part, row in zip(parts, rows, strict=True):
        label = np.array([order[each] for each in part.labels], np.int64)
        place = cell = row[part.pairs[:, 0]]
        for each in part.pairs[:, 1:].T:
            cell = cell * len(order) + label[each]
        cells.append(np.unique(cell[place >= 0]))
    return np.unique(np.concatenate(cells))


def _vocabulary(parts: list[Found], least: int) -> tuple[list[str], list[np.ndarray]]:
    """The names that occur at least ``least`` times, in order; for each partition the rows of its names (-1: none)."""
    number: dict[str, int] = {}
    places = [np.array([number.setdefault(name, len(number)) for name in part.names], np.int64) for part in parts]
    times = np.zeros(len(number), np.int64)
    for part, place in zip(parts, places, strict=True):
        times[place] += part.times
    kept = times >= least
    row = np.where(kept, np.cumsum(kept) - 1, -1)
    return [name for name, keep in zip(number, kept.tolist(), strict=True) if keep], [row[place] for place in places]


def sequence_model(panel: ModuleType, files: Sequence[SequenceFile], executor: Any = None, **settings: Any) -> Any:
    """A ``SequenceModel`` with the labels and the number of features of files. Each file is read once.

    Parameters
    ----------
    panel : module
        ``reference`` or ``accelerated``.
    files : sequence of SequenceFile
    executor : executor or client, optional
        As for :class:`Partitioned`.
    **settings
        ``start_stop`` and other settings of ``SequenceModel``.

    Returns
    -------
    SequenceModel
        Its labels are names in order of first occurrence, file by file. Read the files with ``labels=model.labels``.

    Raises
    ------
    ValueError
        Files have different numbers of features; there are no positions; a file cannot be read.
    """
    transport = transport_of(executor)
    with transport.sent(tuple(files)) as sent:
        described = transport.each(_labels_and_features, len(files), *sent)
    of_file = {file.path: features for file, (_, features) in zip(files, described, strict=True) if features}
    if not of_file:
        raise ValueError(f"{files[0].path}: no positions in its sequences to train on")
    first = next(iter(of_file))
    for path, features in of_file.items():
        if features != of_file[first]:
            raise ValueError(f"{path} has {features} features, {first} has {of_file[first]}")
    labels = tuple(dict.fromkeys(label for names, _ in described for label in names))
    return panel.SequenceModel(of_file[first], labels, **settings)


def _labels_and_features(files: tuple[SequenceFile, ...], k: int) -> tuple[tuple[str, ...], int]:
    """The names of the labels of file k, and its number of features (0 if it has no positions)."""
    data = files[k].load()
    return data.labels, next((x.shape[1] for x in data.X if len(x)), 0)
