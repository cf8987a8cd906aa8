"""Schemes of labels that mark chunks (phrases, named entities), and the label sequences that are valid in each.

A label is O (outside), or a prefix and a type, such as B-NP. Prefixes say whether a token begins a chunk, is inside or
at the end of one, or is a chunk by itself; none has two meanings in different schemes. Lower-case prefixes mean the
same. In bio, also called IOB2, every chunk starts with B; in iob1, only one directly behind another of its type.
Sources: Ramshaw and Marcus (1995); Tjong Kim Sang and Veenstra (1999); Ratinov and Roth (2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["SCHEMES", "allowed", "canonical", "expected", "parts"]

# prefixes of the first token and of tokens inside; in all but bio and iob1 also of the last and of a single token
SCHEMES = {"bio": "BI", "iob1": "BI", "iobes": "BIES", "bilou": "BILU", "bmes": "BMES", "bmewo": "BMEW"}
SAME = {"iob2": "bio", "bio2": "bio", "bioes": "iobes", "bioul": "bilou", "bmeso": "bmes", "bmeow": "bmewo"}
MEANING = {"O": "O"} | {a: b for prefixes in SCHEMES.values() for a, b in zip(prefixes, "BIES", strict=False)}


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
    every = [parts(label) or ("O", "") for label in ("O", *labels)]  # O is next to the first and the last token
    table = np.array([[_may_follow(a, b, scheme) for b in every] for a in every])
    if not np.any(table[0, 1:]):
        raise ValueError(f"transitions: none of the labels {', '.join(labels)} may begin a sentence in {scheme}")
    return table[1:, 1:], table[0, 1:], table[1:, 0]


def _may_follow(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    (p, x), (q, y) = before, after
    inside = p in ("B", "I") and x == y
    if scheme == "bio":
        return q != "I" or inside
    if scheme == "iob1":
        return q != "B" or inside
    return inside if q in ("I", "E") else p not in ("B", "I")
