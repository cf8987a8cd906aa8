"""Files of tokens: columns as in the CoNLL shared tasks, CoNLL-U, and one tokenised sentence per line.

In column files each line is a token, blanks or tabs separate its columns, and an empty line ends a sentence.

Sources: Tjong Kim Sang and Buchholz (2000), "Introduction to the CoNLL-2000 shared task: chunking"; Tjong Kim Sang
(2002), "Introduction to the CoNLL-2002 shared task".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diptych.files.conllu import CONLLU, conllu_blocks, is_conllu
from diptych.files.text import lines_of, load_text
from reference.archives import MOST_BYTES

__all__ = [
    "FORMS",
    "NAMES",
    "SEPARATORS",
    "Layout",
    "Tokens",
    "load_columns",
    "load_lines",
    "load_tokens",
    "read_columns",
]

Columns = dict[str, tuple[str, ...]]

NAMES = {1: ("word",), 2: ("word", "label"), 3: ("word", "tag", "label"), 4: ("word", "tag", "chunk", "label")}


FORMS = ("columns", "conllu")
SEPARATORS = ("blank", "tab", "any")  # any: blanks, tabs or both


class Layout(NamedTuple):
    """How a file of tokens is read; None: detect from the file, by default in the encoding.

    columns: the names of the columns, "label" among them; form: one of FORMS; comment: the prefix of lines to skip;
    separator: one of SEPARATORS; encoding: see :mod:`diptych.files.text`. In CoNLL-U, lines that start with # are
    always skipped, and the separator is the tab.
    """

    columns: tuple[str, ...] | None = None
    form: str | None = None
    comment: str | None = None
    separator: str | None = None
    encoding: str | None = None


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

    part, parts: only part number ``part`` of ``parts`` of the file, about as many lines each. A part begins behind an
    empty line. A file of few sentences may have empty parts.
    """
    return _read(path, load_text(path, encoding=layout.encoding, most_bytes=most_bytes), layout, part, parts)


def load_lines(path: str, *, encoding: str | None = None, most_bytes: int = MOST_BYTES) -> list[tuple[str, ...]]:
    """The words of each line, one tokenised sentence per line; () for an empty one."""
    return [tuple(_words(line)) for line in load_text(path, encoding=encoding, most_bytes=most_bytes)]


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
    form = layout.form or ("conllu" if is_conllu(line for _, line in lines) else "columns")
    separator = "tab" if form == "conllu" else layout.separator or _separator([line for _, line in lines])
    layout = layout._replace(form=form, separator=separator)
    cuts = (len(lines) * k // parts for k in (part, part + 1))
    first, end = (
        next((i for i in range(cut, len(lines)) if i == 0 or not lines[i - 1][1].strip(" \t")), len(lines))
        for cut in cuts
    )
    lines = lines[first:end]
    blocks = list(conllu_blocks(name, lines) if form == "conllu" else _blocks(name, lines, layout))
    if not blocks:
        return Tokens(layout, [], [])
    width = len(blocks[0][1][0])
    names = CONLLU if form == "conllu" and layout.columns is None else layout.columns
    names = _named(f"{name}, line {blocks[0][0][0]}", width, names)
    sentences = []
    for numbers, rows in blocks:
        if len(rows[0]) != width:
            raise ValueError(_wrong(name, numbers[0], width, names, rows[0]))
        sentences.append(dict(zip(names, zip(*rows, strict=True), strict=True)))
    layout = layout._replace(columns=layout.columns or names)
    return Tokens(layout, sentences, [tuple(numbers) for numbers, _ in blocks])


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
            raise ValueError(f"{name}, line {number}: expected something in each column, got {line!r:.80}")
        if layout.separator == "blank" and "\t" in line:
            told = "expected columns apart by blanks, got a tab (--separator any reads both, tab splits at tabs alone)"
            raise ValueError(f"{name}, line {number}: {told}: {line!r:.80}")
        if rows and len(columns) != len(rows[0]):
            wrong = _wrong(name, number, len(rows[0]), None, columns)
            if layout.comment is None and (columns[0].startswith("#") or rows[0][0].startswith("#")):
                wrong += " (--comment '#' leaves out lines that start so)"
            raise ValueError(wrong)
        rows.append(columns)
        numbers.append(number)


DOCUMENT = "-DOCSTART-"


def _cells(line: str, separator: str | None) -> list[str]:
    """The columns of a line, [] for an empty one. Blanks and tabs at its end are no columns."""
    if separator != "tab" or not line.strip(" \t"):
        return _words(line)
    return [cell.strip(" ") for cell in line.rstrip(" \t").split("\t")]


def _words(line: str) -> list[str]:
    return [word for word in line.replace("\t", " ").split(" ") if word]  # str.split() splits at other spaces too


def _separator(lines: list[str]) -> str:
    """The separator of a file: one of SEPARATORS."""
    tokens = [line.rstrip(" \t") for line in lines if line.strip(" \t") and not line.startswith(DOCUMENT)]
    if not any("\t" in line for line in tokens):
        return "blank"
    words, tabs = {len(_words(line)) for line in tokens}, {line.count("\t") + 1 for line in tokens}
    return "tab" if len(tabs) == 1 < max(tabs) and (len(words) > 1 or words == tabs) else "any"


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
