"""Templates of features of segments: texts with macros for what a segment looks like.

``%s[column]`` is the segment's values of a column, joined by blanks; ``%b[row,column]`` the value ``row`` tokens to the
right of the first token, so that ``%b[-1,word]`` is the word before the segment; ``%e[row,column]`` the same of the
last token; ``%l`` the number of tokens. A column may have a treatment of :mod:`reference.models.token_templates`:
``%s[word.lower]``. Outside the sentence a value is ``_B-1``, ``_B-2``, ... before and ``_B+1``, ... behind, as in
CRF++. The feature of ``%l/%s[tag]`` for two tokens is ``%l/%s[tag]=2/DT NN``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from reference.models.macros import outside
from reference.models.token_templates import atoms_of, check_templates, column_of

__all__ = ["SEGMENT_TEMPLATES", "Spans", "check_segment_templates", "segment_columns", "segment_names", "segment_rows"]

SEGMENT_TEMPLATES = (
    "%s[word]",
    "%s[word.lower]",
    "%s[word.brief]",
    "%b[-1,word]/%e[1,word]",
    "%s[tag]",
    "%b[-1,tag]/%e[1,tag]",
    "%b[0,tag]/%l/%e[0,tag]",
)
Spans = Sequence[tuple[int, int]]  # first token, and the one behind the last
MACRO = re.compile(
    r"%(?:(?P<whole>s)\[|(?P<edge>[be])\[ *(?P<row>[+-]?\d{1,2}) *,) *(?P<column>[^\s,\]]+)\]|%(?P<length>l)"
)
Macro = tuple[str, str, str, int]  # command (s, b, e or l), column, treatment, row


@lru_cache(maxsize=4096)
def parts_of(template: str) -> tuple[str | Macro, ...]:
    """The macros of a template and the text between them. Raises ValueError."""
    parts: list[str | Macro] = []
    last = 0
    for match in MACRO.finditer(template):
        parts += [template[last : match.start()], _macro(match)]
        last = match.end()
    parts.append(template[last:])
    if len(parts) == 1 or any("%" in part for part in parts if isinstance(part, str)):
        forms = "%s[word], %b[-1,word], %e[1,word.lower] or %l"
        raise ValueError(f"segment_templates: expected macros such as {forms}, got {template!r:.80}")
    return tuple(part for part in parts if part)


def _macro(match: re.Match[str]) -> Macro:
    command = match["whole"] or match["edge"] or match["length"]
    if command == "l":
        return command, "", "", 0
    try:
        ((column, treatment, _),) = atoms_of(*check_templates([match["column"]]))
    except ValueError:
        expected = "expected a column such as word or word.lower"
        raise ValueError(f"segment_templates: {expected}, got {match[0]!r:.80}") from None
    return command, column, treatment, int(match["row"] or 0)


def check_segment_templates(templates: Iterable[str]) -> tuple[str, ...]:
    """Templates of segments, checked. ValueError for one that is none, or is there twice."""
    if isinstance(templates, str):
        raise ValueError(f"segment_templates: expected a list of templates, got {templates!r:.80}")
    checked = tuple(templates)
    for k, template in enumerate(checked):
        if not isinstance(template, str):
            raise ValueError(f"segment_templates: expected strings such as %s[word], got {template!r:.80}")
        parts_of(template)
        if template in checked[:k]:
            raise ValueError(f"segment_templates: expected different ones, got {template} twice")
    return checked


def segment_columns(templates: Iterable[str]) -> list[str]:
    """The columns that templates look at, each once."""
    macros = (part for template in templates for part in parts_of(template) if not isinstance(part, str))
    return list(dict.fromkeys(column for _, column, *_ in macros if column))


def segment_names(template: str, x: Mapping[str, Sequence[str]], n: int, spans: Spans) -> list[str]:
    """The feature of each span of a sentence of n tokens by a template."""
    values = [[p] * len(spans) if isinstance(p, str) else _values(p, x, n, spans) for p in parts_of(template)]
    return [f"{template}={''.join(each)}" for each in zip(*values, strict=True)]


def _values(macro: Macro, x: Mapping[str, Sequence[str]], n: int, spans: Spans) -> list[str]:
    command, name, treatment, row = macro
    if command == "l":
        return [str(b - a) for a, b in spans]
    column = column_of(x[name], treatment)
    if command == "s":
        return [" ".join(column[a:b]) for a, b in spans]
    places = [(a if command == "b" else b - 1) + row for a, b in spans]
    return [column[t] if 0 <= t < n else outside("crfpp", t, n) for t in places]


def segment_rows(
    X: Sequence[Mapping[str, Sequence[str]]],
    lengths: np.ndarray,
    templates: Sequence[str],
    n_widths: int,
    index: Mapping[str, int],
) -> tuple[np.ndarray, np.ndarray]:
    """The features of all segments of up to ``n_widths`` tokens that have a number in ``index``, as rows: indptr (N W +
    1,), row t W + w for tokens t..t+w, and the numbers.
    """
    numbers, counts = [np.zeros(0, np.int64)], [np.zeros((0, n_widths), np.int64)]
    for x, n in zip(X, lengths.tolist(), strict=True):
        spans = [(s, s + w + 1) for s in range(n) for w in range(min(n_widths, n - s))]
        each = [[index.get(name, -1) for name in segment_names(one, x, n, spans)] for one in templates]
        table = np.array(each, np.int64).reshape(len(templates), len(spans)).T
        counts.append(np.zeros((n, n_widths), np.int64))
        counts[-1][np.arange(n)[:, None] + np.arange(n_widths) < n] = np.sum(table >= 0, axis=1)
        numbers.append(table[table >= 0])
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64), np.concatenate(numbers)
