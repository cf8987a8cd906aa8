"""The labels, the attributes and the pairs of a tagger, found by one pass over partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from diptych.distributed.loaders import Loader
from diptych.distributed.transports import transport_of
from reference.models.base import integer
from reference.models.token_templates import attributes_of, check_templates

__all__ = ["tagging_model"]

Templates = tuple[str, ...] | Callable[[Any, int], Any] | None


class Found(NamedTuple):
    """What occurs in a partition.

    labels and names: in order of first occurrence; times (names,); pairs (m, 2): numbers of a name and a label;
    following (k, 2): numbers of adjacent labels.
    """

    labels: list[str]
    names: list[str]
    times: np.ndarray
    pairs: np.ndarray
    following: np.ndarray


def found_in(loaders: tuple[Loader, ...], templates: Templates, k: int) -> Found:
    """What occurs in partition k."""
    X, Y = loaders[k]()
    attributes = attributes_of(X, templates)
    number: dict[str, int] = {}
    labels = np.array([number.setdefault(label, len(number)) for y in Y for label in y], np.int64)
    if len(labels) != len(attributes.indptr) - 1:
        raise ValueError(f"partition {k} ({loaders[k]}): {len(attributes.indptr) - 1} tokens have {len(labels)} labels")
    token = np.repeat(np.arange(len(labels)), np.diff(attributes.indptr))
    pairs = np.unique(np.stack([attributes.numbers, labels[token]], 1), axis=0)
    inside = np.ones(len(labels), bool)
    inside[attributes.offsets[:-1][np.diff(attributes.offsets) > 0]] = False  # the first token of each sentence
    later = np.flatnonzero(inside)
    following = np.unique(np.stack([labels[later - 1], labels[later]], 1), axis=0)
    times = np.bincount(attributes.numbers, minlength=len(attributes.names))
    return Found(list(number), attributes.names, times, pairs, following)


def tagging_model(
    panel: ModuleType,
    loaders: Sequence[Loader],
    templates: Any,
    executor: Any = None,
    *,
    pairs: str = "observed",
    least: int = 1,
    **settings: Any,
) -> Any:
    """``TaggingModel.of`` for sentences in partitions: the same weights, in another order.

    Parameters
    ----------
    panel : module
        ``reference`` or ``accelerated``, whose ``TaggingModel`` is made.
    loaders : sequence of callables
        As for :class:`Partitioned`; Y has names of labels.
    templates, pairs, least
        As for ``TaggingModel.of``.
    executor : executor or client, optional
        As for :class:`Partitioned`.
    **settings
        ``transitions`` and ``cost`` of ``TaggingModel``.

    Returns
    -------
    TaggingModel
        Labels in alphabetical order; the vocabulary in order of first occurrence, partition by partition.

    Raises
    ------
    ValueError, TypeError
        The loaders' errors; labels that are not names; options as ``TaggingModel.of`` has them.
    """
    if pairs not in ("observed", "all"):
        raise ValueError(f"pairs: expected observed or all, got {pairs!r}")
    integer("least", least, 1)
    given: Templates = templates if templates is None or callable(templates) else check_templates(templates)
    transport = transport_of(executor)
    sent = transport.send(tuple(loaders)), transport.send(given)
    number: dict[str, int] = {}
    times: list[int] = []
    of_label: set[str] = set()
    observed: set[tuple[int, str]] = set()
    following: set[tuple[str, str]] = set()
    for found in transport.each(found_in, len(loaders), *sent):
        if not all(isinstance(label, str) for label in found.labels):
            raise ValueError(f"Y: expected names of labels, got {found.labels[:9]}")
        of_label.update(found.labels)
        places = [number.setdefault(name, len(number)) for name in found.names]
        times.extend([0] * (len(number) - len(times)))
        for place, many in zip(places, found.times.tolist(), strict=True):
            times[place] += many
        observed.update((places[name], found.labels[label]) for name, label in found.pairs.tolist())
        following.update((found.labels[a], found.labels[b]) for a, b in found.following.tolist())
    for reference in sent:
        transport.forget(reference)
    if not of_label:
        raise ValueError("Y: expected names of labels, got none")
    labels = sorted(of_label)
    kept = np.array(times) >= least
    row: np.ndarray = np.cumsum(kept) - 1
    order = {label: i for i, label in enumerate(labels)}
    settings["vocabulary"] = [name for name, keep in zip(number, kept.tolist(), strict=True) if keep]
    if pairs == "observed":
        L = len(labels)
        settings["pairs"] = sorted(int(row[name]) * L + order[label] for name, label in observed if kept[name])
        settings["label_pairs"] = sorted(order[a] * L + order[b] for a, b in following)
    return panel.TaggingModel(labels, given, **settings)
