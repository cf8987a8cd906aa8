"""Files of tokens: columns as in the CoNLL shared tasks, CoNLL-U, and items of crfsuite.

In column files each line is a token, blanks or tabs separate its columns, and an empty line ends a sentence.

Sources: Tjong Kim Sang and Buchholz (2000), "Introduction to the CoNLL-2000 shared task: chunking"; Tjong Kim Sang
(2002), "Introduction to the CoNLL-2002 shared task".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from diptych.files.conllu import CONLLU, conllu_blocks, conllu_columns
from diptych.files.items import ITEMS, item_blocks
from diptych.files.sources import Source, Sourced
from diptych.files.text import lines_of, load_text
from reference.archives import MOST_BYTES

Columns = dict[str, tuple[str, ...]]  # of files: Sourced

NAMES = {1: ("word",), 2: ("word", "label"), 3: ("word", "tag", "label"), 4: ("word", "tag", "chunk", "label")}


FORMS = ("columns", "conllu", "items")
SEPARATORS = ("blank", "tab", "any")  # any: blanks, tabs or both


class Layout(NamedTuple):
    """How a file of tokens is read; None: detected from the file (encoding: the default).

    columns: the names of the columns, "label" among them; form: one of FORMS; comment: the prefix of lines to skip;
    separator: one of SEPARATORS; encoding: see :mod:`diptych.files.text`; header: in CoNLL-U the file's own names of
    the columns. In CoNLL-U, lines that start with # are always skipped, and the separator is the tab. In the form
    "items" a sentence has the columns label and items (:mod:`diptych.files.items`).
    """

    columns: tuple[str, ...] | None = None
    form: str | None = None
    comment: str | None = None
    separator: str | None = None
    encoding: str | None = None
    header: tuple[str, ...] | None = None


class Tokens(NamedTuple):
    """The sentences of a file, its layout, and for each sentence the numbers of its tokens' lines, from 1."""

    layout: Layout
    sentences: list[Columns]
    lines: list[tuple[int, ...]]


def load_columns(
    path: str,
    names: Sequence[str] | None = None,
    *,
    comment: str | None = None,
    encoding: str | None = None,
    most_bytes: int = MOST_BYTES,
) -> list[Columns]:
    """The sentences of a file. Each is a dictionary from column names to tuples of strings, one for each token.

    Parameters
    ----------
    path : str
        A text file, or ``name.zip:member`` for a file inside a zip. ``member`` is the full name in the zip, or
        its end after a slash.
    names : sequence of str, optional
        Names of the columns. If "label" is among them, files without that column are read too. Default: for one to four
        columns, (word), (word, label), (word, tag, label) or (word, tag, chunk, label); for CoNLL-U ``CONLLU``, where
        label is UPOS.
    comment : str, optional
        Skip lines that start with this prefix; not "". Default None: no line is skipped, as a token may start with #.
        In CoNLL-U, lines that start with # are always skipped.
    encoding : str, optional
        Default: UTF-8, or UTF-16 with a byte order mark.
    most_bytes : int
        Maximum size of a file inside a zip (see :mod:`reference.archives`), which is stored or deflated.

    Returns
    -------
    list of dict
        Lines whose first column is -DOCSTART- count as empty.

    Raises
    ------
    ValueError
        A missing file or member, or an invalid line. The message names the file and the line.

    Notes
    -----
    Columns are split at blanks and tabs. They are split at tabs alone if this gives lines of equal length, and blanks
    and tabs give lines of unequal length or the same columns.

    Examples
    --------
    >>> read_columns("a", b"The DT B-NP\\ncat NN I-NP\\n")
    [{'word': ('The', 'cat'), 'tag': ('DT', 'NN'), 'label': ('B-NP', 'I-NP')}]
    """
    layout = Layout(None if names is None else tuple(names), None, comment, encoding=encoding)
    return load_tokens(path, layout, most_bytes=most_bytes).sentences


def load_tokens(path: str, layout: Layout, part: int = 0, parts: int = 1, *, most_bytes: int = MOST_BYTES) -> Tokens:
    """The sentences of :func:`load_columns` with their lines, and the layout that was detected in the whole file.

    part, parts: only part number ``part`` of ``parts`` parts of the file, which have about the same number of lines. A
    part begins behind an empty line. A file of few sentences may have empty parts.
    """
    return _read(path, load_text(path, encoding=layout.encoding, most_bytes=most_bytes), layout, part, parts)


def commas_of(lines: Iterable[str]) -> str:
    """The message about lines whose columns are separated by commas or similar characters; "" for other lines."""
    lines = list(lines)
    for sign in ",;|":
        if lines and all(re.search(rf"\S{re.escape(sign)}", line) for line in lines):
            told = f"{lines[0]!r:.80}; tr '{sign}' '\\t' makes tabs of them"
            return f"columns are separated by blanks or tabs, not by {sign!r}: {told}"
    return ""


def refuse_comments(path: str, tokens: Tokens, column: str = "label", known: Collection[str] = ()) -> str:
    """Raise ValueError for a line such as ``# doc 7``, which looks like a comment; return the message about one such as
    ``#a b``.

    A line looks like a comment if its value in the column is neither known nor in other lines. "": there is no message.
    """
    others, marked = set(known), []
    if tokens.layout.comment is not None:
        return ""
    for sentence, numbers in zip(tokens.sentences, tokens.lines, strict=True):
        above = True  # there are only comments above
        for number, value, row in zip(numbers, sentence[column], zip(*sentence.values(), strict=True), strict=True):
            if row[0].startswith("#") or (above and row[0] in SIGNS):
                marked.append((number, value, row))
            else:
                others.add(value)
                above = False
    for number, value, row in sorted(marked, key=lambda token: token[2][0] not in SIGNS):
        if others and value not in others and row[0] not in row[1:] and value[:1].isalnum():
            where = f"{path}, line {number}: {' '.join(row)!r:.80}"
            if row[0] in SIGNS:
                told = f"looks like a comment: --comment '{row[0]} ' leaves out such lines"
                raise ValueError(f"{where} {told}; a --comment that begins no line keeps them as tokens")
            return f"{where} is read as a token; --comment '{row[0]:.40}' leaves out lines that start so"
    return ""


def read_columns(
    name: str, content: bytes, names: Sequence[str] | None = None, *, comment: str | None = None
) -> list[Columns]:
    """The sentences of a file's content, as in :func:`load_columns`; ``name`` is its name in error messages."""
    return _read(name, lines_of(name, content), Layout(None if names is None else tuple(names), None, comment))[1]


def _read(name: str, text: list[str], layout: Layout, part: int = 0, parts: int = 1) -> Tokens:
    if layout.comment == "":
        raise ValueError("comment: expected what lines to leave out start with, got ''")
    lines = list(enumerate(text, 1))
    if layout.comment is not None:
        lines = [(number, line) for number, line in lines if not line.startswith(layout.comment)]
    own = None if layout.form in ("columns", "items") else conllu_columns(name, text, layout.comment)
    form = layout.form or ("columns" if own is None else "conllu")
    separator = "tab" if form != "columns" else layout.separator or _separator(lines, layout.columns)
    layout = layout._replace(form=form, separator=separator)
    if form == "conllu":
        layout = layout._replace(header=own or CONLLU, columns=_renamed(own or CONLLU, layout))
    cuts = (len(lines) * k // parts for k in (part, part + 1))
    first, end = (
        next((i for i in range(cut, len(lines)) if i == 0 or not lines[i - 1][1].strip(" \t")), len(lines))
        for cut in cuts
    )
    try:
        return _sentences(name, lines[first:end], layout)
    except ValueError as problem:
        tokens = [(number, line) for number, line in lines if line.strip(" \t,;|") and not line.startswith(DOCUMENT)]
        if form != "columns":
            raise
        if commas := commas_of(line for _, line in tokens):
            raise ValueError(f"{name}, line {tokens[0][0]}: {commas}") from None
        hint = ""
        signs = [sign for sign in SIGNS for _, line in tokens if line.startswith(f"{sign} ")]
        if layout.comment is None and signs:
            hint += f" (--comment '{signs[0]} ' leaves out lines that start so)"
        if separator == "tab" and not any("\t" in line for _, line in tokens):
            hint += " (columns are separated by tabs; --separator blank splits at blanks)"
        raise ValueError(f"{problem}{hint}") from None


def _sentences(name: str, lines: list[tuple[int, str]], layout: Layout) -> Tokens:
    """The sentences of numbered lines in a known form."""
    if layout.form == "items":
        items = [(numbers, zip(*rows, strict=True)) for numbers, rows in item_blocks(name, lines)]
        found: Any = [Sourced(zip(ITEMS, rows, strict=True), Source(name, numbers)) for numbers, rows in items]
        return Tokens(layout._replace(columns=ITEMS), found, [tuple(numbers) for numbers, _ in items])
    if layout.form == "conllu":
        blocks = [(each.numbers, each.rows) for each in conllu_blocks(name, lines, layout.header or ())]
    else:
        blocks = list(_blocks(name, lines, layout))
    if not blocks:
        return Tokens(layout, [], [])
    width = len(blocks[0][1][0])
    names = _named(f"{name}, line {blocks[0][0][0]}", width, layout.columns)
    sentences: list[Columns] = []
    for numbers, rows in blocks:
        if len(rows[0]) != width:
            raise ValueError(_wrong(name, numbers[0], width, names, rows[0]))
        sentences.append(Sourced(zip(names, zip(*rows, strict=True), strict=True), Source(name, numbers)))
    layout = layout._replace(columns=layout.columns or names)
    return Tokens(layout, sentences, [tuple(numbers) for numbers, _ in blocks])


def _renamed(own: tuple[str, ...], layout: Layout) -> tuple[str, ...]:
    """The names of the columns of a CoNLL-U file by a layout; own: the names that the file gives them."""
    if layout.columns is None or layout.header is None:
        return layout.columns or own
    renamed = dict(zip(layout.header, layout.columns, strict=True))
    return tuple(renamed.get(name, name.upper() if name in layout.columns else name) for name in own)


def _blocks(name: str, lines: list[tuple[int, str]], layout: Layout) -> Iterator[tuple[list[int], list[list[str]]]]:
    """For each sentence: the numbers of its lines, and the columns of each line."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    same: dict[str, str] = {}  # equal cells are one string: most of a text repeats
    for number, line in [*lines, (0, "")]:
        columns = [same.setdefault(cell, cell) for cell in _cells(line, layout.separator)]
        if not columns or columns[0].partition(" ")[0] == DOCUMENT:
            if rows:
                yield numbers, rows
            rows, numbers = [], []
            continue
        if "" in columns:
            told = "expected something in each column (--separator any takes several tabs as one)"
            raise ValueError(f"{name}, line {number}: {told}, got {line!r:.80}")
        if layout.separator == "blank" and "\t" in line.strip(" \t"):
            told = (
                "expected columns separated by blanks, got a tab (--separator any reads both, tab splits at tabs alone)"
            )
            raise ValueError(f"{name}, line {number}: {told}: {line!r:.80}")
        if rows and len(columns) != len(rows[0]):
            raise ValueError(_wrong(name, number, len(rows[0]), None, columns))
        rows.append(columns)
        numbers.append(number)


DOCUMENT = "-DOCSTART-"
SIGNS = ("#", "%", "//", ";", ";;")  # of comments


def _cells(line: str, separator: str | None) -> list[str]:
    """The columns of a line, [] for an empty one. Blanks and tabs at its end are no columns."""
    if separator != "tab" or not line.strip(" \t"):
        return _words(line)
    return [cell.strip(" ") for cell in line.rstrip(" \t").split("\t")]


def _words(line: str) -> list[str]:
    return [word for word in line.replace("\t", " ").split(" ") if word]  # str.split() splits at other spaces too


def _separator(lines: list[tuple[int, str]], names: tuple[str, ...] | None) -> str:
    """The separator of a file: one of SEPARATORS. If splitting at tabs and splitting at blanks both give lines of equal
    length, the number of names decides; without names it is the tab, unless each line has one tab: taggers add a tab
    and the label to their input.
    """
    others = (DOCUMENT, *(f"{sign} " for sign in SIGNS))
    tokens = [line.rstrip(" \t") for _, line in lines if line.strip(" \t") and not line.startswith(others)]
    if not any("\t" in line for line in tokens):
        return "blank"
    words, tabs = {len(_words(line)) for line in tokens}, {line.count("\t") + 1 for line in tokens}
    by_tabs = len(words) > 1 or words == tabs or (max(tabs) > 2 if names is None else max(tabs) == len(names))
    return "tab" if len(tabs) == 1 and by_tabs else "any"


def _wrong(name: str, number: int, width: int, names: Sequence[str] | None, columns: list[str]) -> str:
    what = "" if names is None else f" ({', '.join(names)})"
    line = " ".join(columns)
    shown = f"{line[:80]} ..." if len(line) > 84 else line
    return f"{name}, line {number}: expected {width} columns{what}, as above, got {len(columns)}: {shown!r}"


def _named(where: str, width: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names of a file's columns."""
    if names is None:
        if width not in NAMES:
            example = ",".join(["word", *(f"c{k}" for k in range(2, width)), "label"])
            raise ValueError(
                f"{where}: got {width} columns; say what they are called, such as --columns {example:.120}"
            )
        return NAMES[width]
    names = tuple(names)
    if len(set(names)) < len(names):
        raise ValueError(f"names: expected different ones, got {', '.join(names)}")
    others = tuple(name for name in names if name != "label")
    if len(names) == width + 1 and "label" in names:
        return others
    if len(names) != width:
        expected = f"{len(names)} columns ({', '.join(names)})"
        if others and "label" in names:
            expected += f", or {len(others)} without labels ({', '.join(others)})"
        raise ValueError(f"{where}: expected {expected}, got {width}")
    return names
