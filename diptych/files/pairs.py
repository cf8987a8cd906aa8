"""Lists of strings to align: files of examples, and the features of a pair of strings.

A file of examples is JSON or text. JSON is a list of
``{"left": [strings], "right": [strings], "pairs": [[i, j], ...]}``. In a text file, blank lines separate examples, and
an example has a line ``left TAB right`` for each pair; one side is empty for a string without a partner. Lines that
start with # are comments. The strings of a text example are sorted alphabetically on each side, so that their order in
the file does not reveal the pairs.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diptych.files.sources import Source
from diptych.files.text import lines_of, load_text
from reference.archives import parse_json

FEATURES = (
    "equal",  # letter for letter
    "equal when plain",  # without case, accents and punctuation; so are all features below
    "edit similarity",  # 1 - Levenshtein distance / longer length
    "common prefix",  # its length / shorter length
    "common suffix",
    "bigrams",  # Dice's coefficient of the sets of letter pairs, ends included
    "words",  # Dice's coefficient of the sets of words
    "length difference",  # / longer length
    "first letter",  # 1 if equal
    "digits",  # 1 if both have the same numbers in the same order, -1 if not, 0 if neither has a number
    "place",  # 1 - the difference of relative positions in the lists
)


class PairExample(NamedTuple):
    """Two lists of strings; columns (p,): the index of each left string's partner on the right, or -1; source: the
    file, and the line of each left string.
    """

    left: list[str]
    right: list[str]
    columns: np.ndarray
    source: Source


def load_pairs(name: str, *, encoding: str | None = None) -> list[PairExample]:
    """The examples of the file at the path ``name``, or for "names" those that come with the package.

    encoding: as :func:`diptych.files.text.lines_of` takes it.

    Raises
    ------
    ValueError
        A missing or invalid file. The message names the file, and the line or the example.
    """
    if name == "names":
        content = (resources.files("diptych.files") / "samples" / "names.tsv").read_bytes()
        return _from_lines(name, lines_of(name, content))
    if name != "-" and ".zip:" not in str(name) and not Path(name).exists():
        raise ValueError(f"{name}: no such file (the examples that come with diptych are called names)")
    lines = load_text(name, encoding=encoding)
    first = next((line for line in map(str.lstrip, lines) if line), "")
    return _from_json(name, "\n".join(lines)) if first.startswith(("[", "{")) else _from_lines(name, lines)


def read_lines(path: str, *, encoding: str | None = None) -> list[str]:
    """The non-blank lines of a text file."""
    return [line.strip() for line in load_text(path, encoding=encoding) if line.strip()]


def pair_features(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """The features (p, q, len(FEATURES)) of all pairs of two lists."""
    features = np.zeros((len(left), len(right), len(FEATURES)))
    plain_left, plain_right = [_plain(a) for a in left], [_plain(b) for b in right]
    for (i, a), (j, b) in itertools.product(enumerate(plain_left), enumerate(plain_right)):
        place = 1.0 - abs((i + 0.5) / len(left) - (j + 0.5) / len(right))
        features[i, j] = (left[i] == right[j], *_alike(a, b), place)
    return features


def _alike(a: str, b: str) -> tuple[float, ...]:
    """The features of two plain strings, from "equal when plain" to "digits"."""
    longer, shorter = max(len(a), len(b), 1), max(min(len(a), len(b)), 1)
    numbers, others = re.findall(r"\d+", a), re.findall(r"\d+", b)
    return (
        a == b,
        1.0 - _edits(a, b) / longer,
        _common(a, b) / shorter,
        _common(a[::-1], b[::-1]) / shorter,
        _dice(set(itertools.pairwise(f" {a} ")), set(itertools.pairwise(f" {b} "))),
        _dice(set(a.split()), set(b.split())),
        abs(len(a) - len(b)) / longer,
        a[:1] == b[:1],
        0.0 if not numbers and not others else 1.0 if numbers == others else -1.0,
    )


def _plain(text: str) -> str:
    """The text without case, accents and punctuation: letters, digits and single spaces."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return " ".join(re.findall(r"\w+", bare))


def _edits(a: str, b: str) -> int:
    """Levenshtein distance: the least number of insertions, deletions and replacements that turn a into b."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
    return row[-1]


def _common(a: str, b: str) -> int:
    """Length of the longest common prefix."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _dice(a: set[Any], b: set[Any]) -> float:
    return 2.0 * len(a & b) / max(len(a) + len(b), 1)


# files -------------------------------------------------------------------------------------------------------------


def _from_lines(name: str, lines: list[str]) -> list[PairExample]:
    examples, pairs, numbers = [], list[list[str]](), list[int]()
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            sides = [side.strip() for side in line.split("\t")]
            if len(sides) != 2:
                raise ValueError(f"{name}, line {number}: expected left TAB right, got {line!r}")
            pairs.append(sides)
            numbers.append(number)
        elif pairs:
            examples.append(_sorted(name, pairs, numbers))
            pairs, numbers = [], []
    return examples


def _sorted(name: str, pairs: list[list[str]], numbers: list[int]) -> PairExample:
    """An example with each side in alphabetical order. numbers: of the pairs' lines."""
    left = sorted((a, k) for k, (a, _) in enumerate(pairs) if a)
    right = sorted((b, k) for k, (_, b) in enumerate(pairs) if b)
    column = {k: j for j, (_, k) in enumerate(right)}
    columns = np.array([column.get(k, -1) for _, k in left], np.int64)
    source = Source(name, [numbers[k] for _, k in left] or numbers)
    return PairExample([a for a, _ in left], [b for b, _ in right], columns, source)


def _from_json(name: str, text: str) -> list[PairExample]:
    content = parse_json(name, text)
    if not isinstance(content, list):
        raise ValueError(f"{name}: expected a list of examples, got {type(content).__name__}")
    return [_example(Source(name, name=f"example {i}"), entry) for i, entry in enumerate(content)]


def _example(source: Source, entry: Any) -> PairExample:
    """One example of a JSON file, checked."""
    name = source.at(None)
    if not isinstance(entry, dict) or set(entry) != {"left", "right", "pairs"}:
        raise ValueError(
            f'{name}: expected {{"left": strings, "right": strings, "pairs": [[i, j], ...]}}, got {entry!r:.80}'
        )
    for side in ("left", "right"):
        if not isinstance(entry[side], list) or not all(isinstance(text, str) for text in entry[side]):
            raise ValueError(f"{name}: {side}: expected a list of strings")
    left, right = entry["left"], entry["right"]
    columns = np.full(len(left), -1)
    for pair in entry["pairs"] if isinstance(entry["pairs"], list) else [entry["pairs"]]:
        integers = isinstance(pair, list) and len(pair) == 2 and all(type(x) is int for x in pair)
        if not integers or not (0 <= pair[0] < len(left) and 0 <= pair[1] < len(right)):
            raise ValueError(f"{name}: pairs: expected [i, j] in 0..{len(left) - 1}, 0..{len(right) - 1}, got {pair!r}")
        if columns[pair[0]] >= 0 or pair[1] in columns:
            side = f"left string {pair[0]}" if columns[pair[0]] >= 0 else f"right string {pair[1]}"
            raise ValueError(f"{name}: pairs: {side} has two partners")
        columns[pair[0]] = pair[1]
    return PairExample(left, right, columns, source)
