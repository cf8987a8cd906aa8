"""Templates of CRF++ and wapiti: lines such as ``U01:%x[-1,0]/%x[0,1]`` with the names of columns in place of their
numbers, behind ``crfpp:`` or ``wapiti:``.

A U line gives every token the attribute that is the line with values in place of its macros. ``%x[row,column]`` is the
value ``row`` tokens further on. Outside the sentence it is ``_B-1``, ``_B-2``, ... before and ``_B+1``, ... behind; in
wapiti ``_x-1`` to ``_x-4`` and ``_x-#``. A B line without macros asks for weights of transitions; a model of such
templates without a B line has none. A B line with macros gives every token but the first an attribute that has a weight
for each pair of the label before and the token's own.

In wapiti u and b are letters of the same meaning, ``*`` is a U line and a B line, ``[@1,column]`` counts from the first
token of the sentence, ``[@-1,column]`` from the last, ``%t[row,column,"regex"]`` is true or false, and ``%m[...]`` the
first part that matches, or nothing. ``%X``, ``%T`` and ``%M`` make letters small. Its expressions know ``.``, ``*`` (as
few as possible), ``?``, ``^`` and ``$`` at the ends, and the classes ``\\a \\d \\l \\p \\s \\u \\w`` of ASCII, with
their complements as capitals. Here they match characters, there bytes.

Sources: https://taku910.github.io/crfpp/#templ; https://wapiti.limsi.fr/manual.html, Patterns, and the attributes that
both programs write.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

__all__ = [
    "FLAVOURS",
    "Line",
    "Macro",
    "expanded",
    "has_transitions",
    "line_of",
    "named_macro",
    "outside",
    "with_names",
]

FLAVOURS = {"crfpp": "UB", "wapiti": "ub*"}  # what lines begin with
_COLUMN = r"(?P<column>[^\s,\]\"]+)"
_MACRO = {
    "crfpp": re.compile(rf"%(?P<command>x)\[(?P<sentence>)(?P<row>-?\d{{1,2}}),{_COLUMN}(?P<regex>(?!))?\]"),
    "wapiti": re.compile(
        rf"%(?P<command>[xtmXTM])\[(?P<sentence>@?) *(?P<row>[+-]?\d{{1,2}}) *, *{_COLUMN}"
        r'(?:,"(?P<regex>(?:[^"\\]|\\.)*)")?\]'
    ),
}
_CLASSES = {
    "a": "A-Za-z",
    "d": "0-9",
    "l": "a-z",
    "p": re.escape(string.punctuation),
    "s": r"\s",
    "u": "A-Z",
    "w": "A-Za-z0-9",
}
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Macro(NamedTuple):
    """The value of a column ``row`` tokens further on or, with ``sentence``, at a place of the sentence."""

    command: str
    sentence: bool
    row: int
    column: str
    regex: re.Pattern[str] | None


class Line(NamedTuple):
    """A template: what it asks for, and its text with its macros, one after another."""

    flavour: str
    attributes: bool  # of tokens
    transitions: bool
    pairs: bool  # attributes of a token and the one before it
    parts: tuple[str | Macro, ...]


@lru_cache(maxsize=4096)
def line_of(template: str) -> Line | None:
    """A template as it is expanded; None for one that is not of CRF++ or wapiti. Raises ValueError."""
    flavour, _, text = template.partition(":")
    if flavour not in FLAVOURS:
        return None
    if text[:1] not in FLAVOURS[flavour] or not text:
        letters = ", ".join(FLAVOURS[flavour])
        raise ValueError(f"templates: expected a line of {flavour} that begins with {letters}, got {text!r:.80}")
    parts: list[str | Macro] = []
    last = 0
    for match in _MACRO[flavour].finditer(text):
        parts += [text[last : match.start()], _macro(match)]
        last = match.end()
    parts.append(text[last:])
    if any("%" in part for part in parts if isinstance(part, str)):
        forms = '%x[-1,word], %t[0,word,"regex"] or %m[0,word,"regex"]' if flavour == "wapiti" else "%x[-1,word]"
        raise ValueError(f"templates: expected macros such as {forms}, got {text!r:.80}")
    both, looks = text[0] in "Bb*", len(parts) > 1
    return Line(flavour, text[0] not in "Bb", both and not looks, both and looks, tuple(part for part in parts if part))


def with_names(flavour: str, text: str, columns: Sequence[str]) -> str:
    """A line of a template file as a template: its macros with the names of columns in place of their numbers.

    Raises ValueError for a column that does not exist, and as :func:`line_of`.
    """
    if flavour == "wapiti":
        text = text[:1].lower() + text[1:]

    template = f"{flavour}:{_MACRO[flavour].sub(partial(named_macro, columns), text)}"
    line_of(template)
    return template


def named_macro(columns: Sequence[str], match: re.Match[str]) -> str:
    """A macro with the name of its column in place of the number; what stands behind a dot stays. Raises ValueError."""
    if match["column"] is None:
        return match[0]
    number, dot, treatment = match["column"].partition(".")
    name = columns[int(number)] if number.isdecimal() and int(number) < len(columns) else ""
    if name in ("", "label"):
        listed = ", ".join(f"{i} {each}" for i, each in enumerate(columns) if each != "label")
        label = ", the label" if name else ""
        raise ValueError(f"templates: expected the number of a column ({listed}), got {match[0]}{label}")
    a, b = (place - match.start() for place in match.span("column"))
    return match[0][:a] + name + dot + treatment + match[0][b:]


def has_transitions(templates: object) -> bool:
    """Whether a model of these templates has weights of transitions: not if they are of CRF++ without a B line."""
    every = [line_of(template) for template in templates] if isinstance(templates, tuple) else []
    lines = [line for line in every if line is not None]
    return not lines or any(line.transitions for line in lines)


def expanded(line: Line, x: Mapping[str, Sequence[str]], n: int) -> list[str]:
    """The attribute of each of the n tokens of a sentence of columns."""
    values = [_values(line.flavour, part, x, n) if isinstance(part, Macro) else [part] * n for part in line.parts]
    return list(map("".join, zip(*values, strict=True)))


def _macro(match: re.Match[str]) -> Macro:
    command, regex = match["command"], match["regex"]
    if (command in "tTmM") != (regex is not None):
        raise ValueError(f"templates: expected a regular expression for %t and %m alone, got {match[0]!r:.80}")
    compiled = None if regex is None else _regex(regex)
    return Macro(command, match["sentence"] == "@", int(match["row"]), match["column"], compiled)


def _values(flavour: str, macro: Macro, x: Mapping[str, Sequence[str]], n: int) -> list[str]:
    """The value of a macro at each of n tokens."""
    column, row = x[macro.column], macro.row
    if macro.sentence:
        place = row + n if row < 0 else row - 1
        inside = [column[place]] if 0 <= place < n else [outside(flavour, place, n)]
        inside *= n
    else:
        before = [outside(flavour, place, n) for place in range(row, min(row + n, 0))]
        behind = [outside(flavour, place, n) for place in range(max(row, n), row + n)]
        inside = [*before, *column[max(row, 0) : max(row + n, 0)], *behind]
    if macro.regex is not None:
        matches = [macro.regex.search(value) for value in inside]
        if macro.command in "tT":
            inside = ["false" if match is None else "true" for match in matches]
        else:
            inside = ["" if match is None else match[0] for match in matches]
    return [value.translate(_SMALL) for value in inside] if macro.command.isupper() else inside


def outside(flavour: str, place: int, n: int) -> str:
    """The value at a place before the first token, 0, or behind the last, n - 1."""
    sign, distance = ("-", -place) if place < 0 else ("+", place - n + 1)
    if flavour == "crfpp":
        return f"_B{sign}{distance}"
    return f"_x{sign}{distance if distance < 5 else '#'}"


def _regex(text: str) -> re.Pattern[str]:
    """An expression of wapiti as one of Python."""
    start = text.startswith("^")
    written = r"\A" if start else ""
    units = re.compile(r"(\\.|[^\\*?])([*?]?)", re.DOTALL)
    last = int(start)
    while last < len(text):
        match = units.match(text, last)
        if match is None:
            raise ValueError(f"templates: expected a character or a class before *, ? and the end, got {text!r:.80}")
        one, times = match.groups()
        last = match.end()
        if one == "$" and last == len(text) and not times:
            written += r"\Z"
        elif one == ".":
            written += "." + times
        elif one[0] == "\\" and one[1].lower() in _CLASSES:
            written += f"[{'^' * one[1].isupper()}{_CLASSES[one[1].lower()]}]{times}"
        else:
            written += re.escape(one[-1]) + times
        written += "?" * (times == "*")
    return re.compile(written, re.DOTALL | re.ASCII)
