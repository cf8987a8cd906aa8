"""Schemes of labels that mark chunks (phrases, named entities), and the label sequences that are valid in each.

A label is O (outside), or a prefix and a type, such as B-NP. Prefixes say whether a token begins a chunk, is inside or
at the end of one, or is a chunk by itself; none has two meanings in different schemes. Lower-case prefixes mean the
same. In bio, also called IOB2, every chunk starts with B; in iob1, only one directly behind another of its type.
Sources: Ramshaw and Marcus (1995); Tjong Kim Sang and Veenstra (1999); Ratinov and Roth (2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from reference.example_errors import ExampleError

__all__ = ["SCHEMES", "Chunk", "allowed", "canonical", "chunks_of", "expected", "followers", "parts", "written"]

# prefixes of the first token and of tokens inside; in all but bio and iob1 also of the last and of a single token
SCHEMES = {"bio": "BI", "iob1": "BI", "iobes": "BIES", "bilou": "BILU", "bmes": "BMES", "bmewo": "BMEW"}
SAME = {"iob2": "bio", "bio2": "bio", "bioes": "iobes", "bioul": "bilou", "bmeso": "bmes", "bmeow": "bmewo"}
MEANING = {"O": "O"} | {a: b for prefixes in SCHEMES.values() for a, b in zip(prefixes, "BIES", strict=False)}


class Chunk(NamedTuple):
    """A type ("" for labels without a type), and the first and the last token of the chunk."""

    type: str
    first: int
    last: int


def canonical(argument: str, name: Any) -> Any:
    """The name of a scheme, given in upper or lower case or as a synonym; None stays None. ValueError for others."""
    lower = name.lower() if isinstance(name, str) else None
    scheme = SAME.get(lower, lower) if lower else None
    if name is not None and scheme not in SCHEMES:
        raise ValueError(f"{argument}: expected one of {', '.join(SCHEMES)}, got {name!r}")
    return scheme


def parts(label: str, scheme: str | None = None) -> tuple[str, str] | None:
    """What a label's prefix means (O, or B, I, E or S as in iobes), and its type, which follows the first hyphen.

    None for a label that is not in the scheme; without a scheme, for a label that is in no scheme.
    """
    prefix, hyphen, kind = label.partition("-")
    meaning = MEANING.get(prefix := prefix.upper())
    if meaning is None or (meaning == "O" and hyphen) or (scheme is not None and prefix not in "O" + SCHEMES[scheme]):
        return None
    return meaning, kind


def expected(scheme: str | None) -> str:
    """The labels of a scheme, for error messages."""
    *others, last = list("BIESLUMW" if scheme is None else SCHEMES[scheme])
    return f"O, or {', '.join(others)} or {last} with a type, such as B-NP"


def allowed(labels: Sequence[str], scheme: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The labels that a scheme allows: (L, L) whether the second label may follow the first; (L,) begin a sentence;
    (L,) end one.

    bio: I-X only after B-X or I-X. iob1: B-X only after B-X or I-X. iobes: I-X and E-X after B-X or I-X and nowhere
    else; the others alike, with their prefixes.

    Raises
    ------
    ValueError
        An unknown scheme, labels that are invalid in it.
    """
    L = len(labels)
    if (scheme := canonical("transitions", scheme)) is None:
        return np.ones((L, L), dtype=bool), np.ones(L, dtype=bool), np.ones(L, dtype=bool)
    wrong = next((x for x in labels if parts(x, scheme) is None), None)
    if wrong is not None:
        forms = ", ".join(f"{prefix}-X" for prefix in SCHEMES[scheme])
        raise ValueError(f"transitions: expected labels O and {forms} for {scheme}, got {wrong!r}")
    pairs, starts, ends = followers([parts(label) or ("O", "") for label in labels], scheme)
    if not np.any(starts):
        raise ValueError(f"transitions: none of the labels {', '.join(labels)} may begin a sentence in {scheme}")
    return pairs, starts, ends


def followers(read: list[tuple[str, str]], scheme: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As :func:`allowed`, of labels that :func:`parts` has read."""
    every = [("O", ""), *read]  # O is next to the first and the last token
    table = np.array([[_may_follow(a, b, scheme) for b in every] for a in every])
    return table[1:, 1:], table[0, 1:], table[1:, 0]


def _may_follow(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    (p, x), (q, y) = before, after
    inside = p in ("B", "I") and x == y
    if scheme == "bio":
        return q != "I" or inside
    if scheme == "iob1":
        return q != "B" or inside
    return inside if q in ("I", "E") else p not in ("B", "I")


def chunks_of(labels: Sequence[str], scheme: str | None, argument: str, example: int | None) -> list[Chunk]:
    """The chunks of a sequence of labels of a scheme, None: of any, by the rules of :mod:`diptych.chunks`. An
    ExampleError about ``argument`` for a label that is none.
    """
    result: list[Chunk] = []
    before, before_type, first = "O", "", 0
    for t, label in enumerate([*labels, "O"]):
        read = parts(label, scheme) if isinstance(label, str) else None
        if read is None:
            place: tuple[int, int | None] = (t, None) if example is None else (example, t)
            raise ExampleError(argument, *place, f"expected {expected(scheme)}, got {label!r}")
        prefix, kind = read
        differs = kind != before_type
        if before != "O" and (before in "ES" or prefix in "OBS" or differs):
            result.append(Chunk(before_type, first, t - 1))
        if prefix != "O" and (prefix in "BS" or before in "OES" or differs):
            first = t
        before, before_type = prefix, kind
    return result


def written(chunks: Iterable[Chunk], labels: Sequence[str], scheme: str) -> list[str]:
    """The labels (n,) with those of chunks in a scheme; lower-case prefixes where a chunk's first label has one."""
    result, before = list(labels), Chunk("", -1, -2)
    for chunk in chunks:
        kind, first, last = chunk
        prefixes = _prefixes(chunk, before, scheme)
        prefixes = prefixes.lower() if result[first][0].islower() else prefixes
        result[first : last + 1] = [f"{prefix}-{kind}" if kind else prefix for prefix in prefixes]
        before = chunk
    return result


def _prefixes(chunk: Chunk, before: Chunk, scheme: str) -> str:
    """The prefixes of the labels of a chunk's tokens in a scheme; before: the chunk to the left of it."""
    begin, inside, *ends = list(SCHEMES[scheme])
    if scheme == "iob1" and (before.type, before.last) != (chunk.type, chunk.first - 1):
        begin = inside
    end, single = ends or (inside, begin)
    length = chunk.last - chunk.first + 1
    return single if length == 1 else begin + (length - 2) * inside + end
