"""Which labels may follow one another, begin and end a sequence: a scheme of chunks, or rules of one's own.

Rules are a mapping, as in the file of ``diptych tag train --transitions rules.toml``:

    scheme = "bio"                       # optional: what the scheme forbids is forbidden
    forbidden = [["B-LOC", "B-LOC"], ["O", "*-TITLE"]]
    start = ["O", "B-*"]                 # the labels that may begin a sequence; without it, all
    end = ["O", "I-*"]                   # those that may end one

or, in place of ``forbidden``, ``allowed``: no other pairs may stand side by side. A name with ``*`` or ``?`` that is no
label stands for all labels that match it. In Python they may be a boolean matrix (L, L), whose entry [a, b] says
whether b may follow a, too, or this matrix and two vectors (L,): which labels may begin, and which may end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import host
from reference.models.schemes import allowed, canonical

__all__ = ["Rules", "UnknownLabel", "as_settings", "rules_of"]

KEYS = ("scheme", "allowed", "forbidden", "start", "end")


class Rules(NamedTuple):
    """follows (L, L): whether the second label may follow the first; begins (L,), ends (L,): which begin and end a
    sequence.
    """

    follows: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


class UnknownLabel(ValueError):
    """A rule names a label that the model does not have. ``name``: what it says."""

    def __init__(self, where: str, name: str, labels: Sequence[str]) -> None:
        super().__init__(f"transitions: {where} names {name!r}; expected one of {', '.join(labels)}")
        self.name = name


def rules_of(labels: Sequence[str], given: Any) -> Rules:
    """The rules of labels (L,).

    Parameters
    ----------
    labels : sequence of str
    given : str, mapping, bool array (L, L), or three bool arrays (L, L), (L,), (L,)
        A scheme, or rules as above; None: everything is allowed.

    Raises
    ------
    UnknownLabel, ValueError, TypeError
        Labels that the model does not have, other keys, arrays of other shapes or types, labels that are not of the
        scheme, no label that may begin or end.
    """
    if given is None or isinstance(given, str):
        return Rules(*allowed(labels, given))
    rules = _of_mapping(labels, given) if isinstance(given, Mapping) else _of_arrays(len(labels), given)
    for what, some in (("begin", rules.begins), ("end", rules.ends)):
        if not np.any(some):
            raise ValueError(f"transitions: expected at least one label that may {what} a sequence, got none")
    return rules


def as_settings(labels: Sequence[str], given: Any, rules: Rules) -> Any:
    """What :func:`rules_of` makes the same rules from, as JSON-able values: a scheme's name, or a mapping; None if
    everything is allowed.
    """
    if given is None or isinstance(given, str):
        return canonical("transitions", given)
    pairs = [[labels[a], labels[b]] for a, b in np.argwhere(~rules.follows).tolist()]
    settings: dict[str, Any] = {"forbidden": pairs} if pairs else {}
    for key, some in (("start", rules.begins), ("end", rules.ends)):
        if not np.all(some):
            settings[key] = [labels[i] for i in np.flatnonzero(some).tolist()]
    return settings or None


def _of_mapping(labels: Sequence[str], given: Mapping[str, Any]) -> Rules:
    other = [key for key in given if key not in KEYS]
    if other or {"allowed", "forbidden"} <= set(given):
        got = f"the key {other[0]!r}" if other else "both allowed and forbidden"
        raise ValueError(f"transitions: expected {', '.join(KEYS[:-1])} or {KEYS[-1]}, got {got}")
    rules = Rules(*allowed(labels, given.get("scheme")))
    pairs, number = np.zeros_like(rules.follows), {label: i for i, label in enumerate(labels)}
    for key in ("allowed", "forbidden"):
        for k, pair in enumerate(_listed(given, key)):
            if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
                raise ValueError(f"transitions: {key}[{k}]: expected a label and the label after it, got {pair!r:.80}")
            before, after = (_named(number, f"{key}[{k}]", name) for name in pair)
            pairs[np.ix_(before, after)] = True
    follows = rules.follows & ~pairs if "allowed" not in given else rules.follows & pairs
    ends = []
    for key, some in (("start", rules.begins), ("end", rules.ends)):
        named = np.full(len(labels), key not in given)
        for k, name in enumerate(_listed(given, key)):
            if not isinstance(name, str):
                raise ValueError(f"transitions: {key}[{k}]: expected the name of a label, got {name!r:.80}")
            named[_named(number, f"{key}[{k}]", name)] = True
        ends.append(some & named)
    return Rules(follows, *ends)


def _listed(given: Mapping[str, Any], key: str) -> Sequence[Any]:
    values = given.get(key, ())
    if not isinstance(values, list | tuple):
        raise ValueError(f"transitions: {key}: expected a list, got {values!r:.80}")
    return values


def _named(number: Mapping[str, int], where: str, name: str) -> list[int]:
    """The numbers of the label of this name, or of those that it matches."""
    if name in number:
        return [number[name]]
    matching = [i for label, i in number.items() if fnmatchcase(label, name.replace("[", "[[]"))]
    if not matching:
        raise UnknownLabel(where, name, list(number))
    return matching


def _of_arrays(L: int, given: Any) -> Rules:
    each = given if isinstance(given, tuple | list) and len(given) == 3 and np.ndim(given[1]) == 1 else (given,)
    arrays = [host(x, "transitions") if hasattr(x, "dtype") else np.asarray(x) for x in each]
    shapes = [(L, L), (L,), (L,)][: len(arrays)]
    if any(x.dtype != bool or x.shape != shape for x, shape in zip(arrays, shapes, strict=True)):
        got = ", ".join(f"{x.dtype} of shape {x.shape}" for x in arrays)
        wanted = f"booleans of shape ({L}, {L}), alone or with two of shape ({L},)"
        raise TypeError(f"transitions: expected the name of a scheme, a mapping, or {wanted}, got {got}")
    every = np.ones(L, bool)
    return Rules(*arrays) if len(arrays) == 3 else Rules(arrays[0], every, every)
