"""Items of crfsuite: lines ``label TAB attribute TAB attribute:2.5 ...``, one a token; an empty line ends a sentence.

The value of an attribute is 1 unless a number follows it after a colon. In names a colon is written ``\\:`` and a
backslash ``\\\\``. An attribute that a token has twice has the sum of its values.

Source: http://www.chokkan.org/software/crfsuite/manual.html, Data format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

ITEMS = ("label", "items")  # the columns of a sentence
_FIELD = re.compile(r"((?:\\[:\\]|[^:])*)(?::(.*))?", re.DOTALL)
_ESCAPED = re.compile(r"\\([:\\])")

Item = dict[str, float]


def item_blocks(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[list[int], list[tuple[str, Item]]]]:
    """For each sentence of numbered lines: the numbers of its lines, and the label and the item of each.

    ValueError, with name and line: no label, a declaration such as ``@weight``, a value that is not a finite number.
    """
    rows: list[tuple[str, Item]] = []
    numbers: list[int] = []
    for number, line in [*lines, (0, "")]:
        if line.strip():
            try:
                rows.append(_row(line))
            except ValueError as problem:
                raise ValueError(f"{name}, line {number}: {problem}") from None
            numbers.append(number)
        elif rows:
            yield numbers, rows
            rows, numbers = [], []


def escaped(name: str) -> str:
    """A label or a name as it is written."""
    return name.replace("\\", "\\\\").replace(":", "\\:")


def _row(line: str) -> tuple[str, Item]:
    """The label and the attributes of a line."""
    first, *fields = line.split("\t")
    label, value = _named(first)
    if label.startswith("@"):
        raise ValueError(f"declarations such as @weight are not supported, got {first!r:.80}")
    if not label or value is not None:
        raise ValueError(f"expected a label (a colon in it is written \\:) and a tab, got {line!r:.80}")
    item: Item = {}
    for field in filter(None, fields):
        attribute, value = _named(field)
        item[attribute] = item.get(attribute, 0.0) + (_number(field, value) if value else 1.0)
    return label, item


def _named(field: str) -> tuple[str, str | None]:
    """The name in a field, and what follows it after a colon or None."""
    if ":" not in field and "\\" not in field:
        return field, None
    match = _FIELD.fullmatch(field)
    name, value = match.groups() if match else (field, None)
    return _ESCAPED.sub(r"\1", name), value


def _number(field: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number after the colon (in a name it is written \\:), got {field!r:.80}")
    return value
