"""Templates of arc features: conjunctions of properties of a head, a modifier, the tokens between them and their
distance.

An atom is ``h.F`` or ``m.F``: a field F (word, tag, lemma, ...) of the head or the modifier; ``h+1.F``, ``m-2.F``: of a
neighbour; ``b.tag``: of a token between, once for each different tag; ``direction``: the side of the head;
``distance``: the side and the distance. Derived fields are ``prefix`` and ``suffix``, a word's first five and last
three letters. A template is a tuple of atoms, and a feature is a template with a value for each atom:

    key(template, values) = sum over the atoms a of mix(hash(value_a) + salt(template, a))   mod 2^64

a random number for each value of each atom of each template (tabulation hashing), so that two features collide in their
keys, or in the lowest b bits, as rarely as random numbers do. Sources: McDonald et al. (2005), "Online large-margin
training of dependency parsers", Table 1, for the features; Carter and Wegman (1979), Zobrist (1970), for the hashing.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable

import numpy as np

__all__ = ["TEMPLATES", "Template", "atoms_of", "check_templates", "hashes", "keys_of", "named_templates"]

Template = tuple[str, ...]
DISTANCES = (1, 2, 3, 4, 5, 6, 11, 21)  # the least distance of each bin
_ATOM = re.compile(r"([hm])([+-][1-9])?\.([a-z]+)|b\.tag|direction|distance")


def check_templates(templates: Iterable[Iterable[str]]) -> tuple[Template, ...]:
    """Templates as tuples of atoms, those with ``b.tag`` last; ValueError for an unknown or a repeated atom."""
    tuples = [tuple(template) if not isinstance(template, str) else (template,) for template in templates]
    for template in tuples:
        for atom in template:
            if not isinstance(atom, str) or _ATOM.fullmatch(atom) is None:
                raise ValueError(
                    f"templates: expected atoms such as h.word, m-1.tag, b.tag, direction or distance, got {atom!r}"
                )
        if not template or len(set(template)) < len(template):
            raise ValueError(f"templates: expected one atom or more, each once, got {template}")
    if not tuples:
        raise ValueError("templates: expected at least one")
    if len({frozenset(template) for template in tuples}) < len(tuples):
        raise ValueError("templates: expected different ones")
    return tuple(sorted(tuples, key=lambda template: "b.tag" in template))


def atoms_of(templates: Iterable[Template], side: str) -> list[tuple[str, int, str]]:
    """The atoms of one side, "h" or "m", as (atom, offset, field), each once."""
    names = dict.fromkeys(atom for template in templates for atom in template)
    matched = [(name, _ATOM.fullmatch(name)) for name in names]
    return [(name, int(m[2] or 0), m[3]) for name, m in matched if m is not None and m[1] == side]


def hashes(values: Iterable[str]) -> np.ndarray:
    """A number (v,) uint64 for each string, the same in every process."""
    return np.array([_hash(value) for value in values], np.uint64)


def keys_of(template: Template, atom: str, hashed: np.ndarray) -> np.ndarray:
    """The share (v,) uint64 of an atom in the keys of a template's features, for each of its hashed values; 0 if the
    template does not contain the atom.
    """
    if atom not in template:
        return np.zeros(len(hashed), np.uint64)
    return _mix(hashed + hashes([f"{' '.join(sorted(template))} | {atom}"]))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64 (Steele et al., 2014): a bijection of 64-bit numbers whose values look random."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed


# the templates that come with the package -----------------------------------------------------------------------------

_ARC: tuple[Template, ...] = (  # each with the distance; the first of these sets also with only the direction
    ("h.word", "h.tag", "m.word", "m.tag"),
    ("h.tag", "m.word", "m.tag"),
    ("h.word", "h.tag", "m.tag"),
    ("h.word", "m.word"),
    ("h.tag", "m.tag"),
    ("h.word", "h.tag"),
    ("m.word", "m.tag"),
    ("h.tag", "h+1.tag", "m-1.tag", "m.tag"),
    ("h-1.tag", "h.tag", "m-1.tag", "m.tag"),
    ("h.tag", "h+1.tag", "m.tag", "m+1.tag"),
    ("h-1.tag", "h.tag", "m.tag", "m+1.tag"),
    ("h.word", "h.tag", "m.word"),
    ("h.word", "m.tag", "m.word"),
    ("h.tag", "m.word"),
    ("h.word", "m.tag"),
    ("h.word",),
    ("m.word",),
    ("h.tag",),
    ("m.tag",),
    ("h-1.tag", "h.tag", "m.tag"),
    ("h.tag", "h+1.tag", "m.tag"),
    ("h.tag", "m-1.tag", "m.tag"),
    ("h.tag", "m.tag", "m+1.tag"),
    ("h-1.tag", "h.tag", "h+1.tag", "m.tag"),
    ("h.tag", "m-1.tag", "m.tag", "m+1.tag"),
    ("h-1.tag", "h.tag", "h+1.tag", "m-1.tag", "m.tag", "m+1.tag"),
    ("h-2.tag", "h-1.tag", "h.tag", "m.tag"),
    ("h.tag", "h+1.tag", "h+2.tag", "m.tag"),
    ("h.tag", "m-2.tag", "m-1.tag", "m.tag"),
    ("h.tag", "m.tag", "m+1.tag", "m+2.tag"),
    ("h.prefix", "h.tag", "m.prefix", "m.tag"),
    ("h.prefix", "m.prefix"),
    ("h.prefix", "m.tag"),
    ("h.tag", "m.prefix"),
    ("h.suffix", "h.tag", "m.suffix", "m.tag"),
    ("h.suffix", "m.suffix"),
    ("h.suffix", "m.tag"),
    ("h.tag", "m.suffix"),
    ("h.lemma", "m.lemma"),
    ("h.lemma", "h.coarse", "m.lemma", "m.coarse"),
    ("h.coarse", "m.coarse"),
    ("h.lemma", "m.tag"),
    ("h.tag", "m.lemma"),
    ("h-1.word", "h.tag", "m.tag"),
    ("h+1.word", "h.tag", "m.tag"),
    ("h.tag", "m-1.word", "m.tag"),
    ("h.tag", "m.tag", "m+1.word"),
    ("h-1.tag", "h.word", "m.tag"),
    ("h.word", "h+1.tag", "m.tag"),
)


def _hundred() -> tuple[Template, ...]:
    between = (("h.tag", "b.tag", "m.tag", "direction"), ("h.tag", "b.tag", "m.tag", "distance"))
    return (*((*t, reach) for t, reach in itertools.product(_ARC, ("direction", "distance"))), *between)


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "20": (
        *((*template, "distance") for template in _ARC[:11]),
        *((*_ARC[i], "direction") for i in (0, 4, 5, 6, 7, 9, 13, 14)),
        ("h.tag", "b.tag", "m.tag", "direction"),
    ),
    "100": _hundred(),
}  # fmt: skip


def named_templates(name: str) -> tuple[Template, ...]:
    """A set of the package by its name. Raises ValueError for another name."""
    if name not in TEMPLATES:
        raise ValueError(f"templates: expected {' or '.join(TEMPLATES)} or a sequence of templates, got {name!r}")
    return TEMPLATES[name]
