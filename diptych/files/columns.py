"""Files of tokens: columns as in the CoNLL shared tasks, CoNLL-U, and one tokenised sentence per line.

In column files each line is a token, blanks or tabs separate its columns, and an empty line ends a sentence.

Sources: Tjong Kim Sang and Buchholz (2000), "Introduction to the CoNLL-2000 shared task: chunking"; Tjong Kim Sang
(2002), "Introduction to the CoNLL-2002 shared task".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from diptych.files.conllu import CONLLU, conllu_blocks, conllu_columns
from reference.archives import MOST_BYTES, read_zip

__all__ = ["FORMS", "NAMES", "Layout", "load_columns", "load_lines", "load_text", "load_tokens", "read_columns"]

Columns = dict[str, tuple[str, ...]]

NAMES = {1: ("word",), 2: ("word", "label"), 3: ("word", "tag", "label"), 4: ("word", "tag", "chunk", "label")}


FORMS = ("columns", "conllu")


class Layout(NamedTuple):
    """How a file of tokens is read; None: detect from the file.

    columns: the names of the columns, "label" among them; form: one of FORMS; comment: the prefix of lines to skip. In
    CoNLL-U, lines that start with # are always skipped.
    """

    columns: tuple[str, ...] | None = None
    form: str | None = None
    comment: str | None = None


def load_columns(
    path: str, names: Sequence[str] | None = None, *, comment: str | None = None, most_bytes: int = MOST_BYTES
) -> list[Columns]:
    """The sentences of a file. Each is a dictionary from column names to tuples of strings, one for each token.

    Parameters
    ----------
    path : str
        A text file in UTF-8, or ``name.zip:member`` for a file inside a zip. ``member`` is the full name in the zip, or
        its end after a slash.
    names : sequence of str, optional
        Names of the columns. If "label" is among them, files without that column are read too. Default: for one to four
        columns, (word), (word, label), (word, tag, label) or (word, tag, chunk, label); for CoNLL-U ``CONLLU``, where
        label is UPOS.
    comment : str, optional
        Skip lines that start with this prefix; not "". Default None: no line is skipped, as a token may start with #.
        In CoNLL-U, lines that start with # are always skipped.
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
    Columns are split at blanks and tabs. If this gives lines of unequal length and tabs alone do not, they are split at
    tabs.

    Examples
    --------
    >>> read_columns("a", b"The DT B-NP\\ncat NN I-NP\\n")
    [{'word': ('The', 'cat'), 'tag': ('DT', 'NN'), 'label': ('B-NP', 'I-NP')}]
    """
    layout = Layout(None if names is None else tuple(names), None, comment)
    return load_tokens(path, layout, most_bytes=most_bytes)[1]


def load_tokens(path: str, layout: Layout, *, most_bytes: int = MOST_BYTES) -> tuple[Layout, list[Columns]]:
    """The result of :func:`load_columns`, and the layout that was detected."""
    return _read(path, load_text(path, most_bytes=most_bytes), layout)


def load_part(
    path: str, layout: Layout, part: int, parts: int, *, most_bytes: int = MOST_BYTES
) -> tuple[Layout, list[Columns]]:
    """The sentences of part number ``part`` of ``parts`` of a file, about as many lines each; as :func:`load_tokens`.

    A part begins behind an empty line. A file of few sentences may have empty parts.
    """
    text = load_text(path, most_bytes=most_bytes)
    cuts = [len(text) * k // parts for k in (part, part + 1)]
    first, end = (
        next((i for i in range(cut, len(text)) if i == 0 or not text[i - 1].strip()), len(text)) for cut in cuts
    )
    return _read(path, text[first:end], layout, first + 1)


def load_lines(path: str, *, most_bytes: int = MOST_BYTES) -> list[tuple[str, ...]]:
    """The words of each non-empty line, one tokenised sentence per line.

    Raises
    ------
    ValueError
        A file that looks like a column file: with tabs, with one word on each line, or with empty lines between lines
        of the same number of words.
    """
    lines = load_text(path, most_bytes=most_bytes)
    while lines and not lines[-1].strip():
        lines.pop()
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            raise ValueError(f"{path}, line {number}: expected words apart by blanks, a sentence a line, got a tab")
    words = [tuple(word for word in line.split(" ") if word) for line in lines]
    sizes = {len(each) for each in words if each}
    if len(words) > 1 and (sizes == {1} or (len(sizes) == 1 and () in words)):
        size = "one word" if sizes == {1} else f"{sizes.pop()} words, with empty lines between"
        raise ValueError(f"{path}: expected a sentence a line, but every line has {size}: as if lines were tokens")
    return [each for each in words if each]


def load_text(path: str, *, most_bytes: int = MOST_BYTES) -> list[str]:
    """The lines of a file, or of a member of a zip, without line ends."""
    return _decoded(path, _content(path, most_bytes))


def read_columns(
    name: str, content: bytes, names: Sequence[str] | None = None, *, comment: str | None = None
) -> list[Columns]:
    """The sentences of a file's content, as in :func:`load_columns`; ``name`` is its name in error messages."""
    return _read(name, _decoded(name, content), Layout(None if names is None else tuple(names), None, comment))[1]


@cache
def _standard_input() -> bytes:
    """The content of standard input, read once and cached."""
    return sys.stdin.buffer.read()


def _content(path: str, most_bytes: int) -> bytes:
    """The content of a file, of a member of a zip, or of standard input (``-``)."""
    if path == "-":
        return _standard_input()
    archive, colon, member = path.partition(".zip:")
    if not colon:
        if not Path(path).is_file():
            missing = "not a regular file; - is standard input" if Path(path).exists() else "no such file"
            raise ValueError(f"{path}: {'is a folder' if Path(path).is_dir() else missing}")
        if path.lower().endswith(".zip"):
            list(read_zip(path, choose=lambda held: _one_of(path, held, None)))
        return Path(path).read_bytes()
    archive += ".zip"
    if not Path(archive).is_file():
        raise ValueError(f"{archive}: no such file")
    ((_, content),) = read_zip(archive, choose=lambda held: _one_of(path, held, member), most_bytes=most_bytes)
    return content


def _one_of(path: str, held: list[str], member: str | None) -> list[str]:
    """The selected member of a zip."""
    files = [name for name in held if not name.endswith("/")]
    if member is None:
        data = sorted(files, key=lambda name: name.endswith("README"))
        raise ValueError(f"{path}: expected a member, such as {path}:{', '.join(data[:1])}")
    matches = [name for name in files if name == member or name.endswith(f"/{member}")]
    if len(matches) != 1:
        raise ValueError(f"{path}: expected one of {', '.join(files)}, got {member!r}")
    return matches


def _decoded(name: str, content: bytes) -> list[str]:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as problem:
        raise ValueError(f"{name}: not a text file in UTF-8: {problem}") from None


def _read(name: str, text: list[str], layout: Layout, first_line: int = 1) -> tuple[Layout, list[Columns]]:
    """The sentences, and the layout of the file."""
    if layout.comment == "":
        raise ValueError("comment: expected what lines to leave out start with, got ''")
    lines = list(enumerate(text, first_line))
    if layout.comment is not None:
        lines = [(number, line) for number, line in lines if not line.startswith(layout.comment)]
    own = conllu_columns(name, (line for _, line in lines))
    form = layout.form or ("columns" if own is None else "conllu")
    if form == "conllu":
        parsed = conllu_blocks(name, text, own or CONLLU, first=first_line, comment=layout.comment)
        blocks = [(block.numbers[0], block.rows) for block in parsed]
    else:
        blocks = list(_blocks(name, lines, layout))
    if not blocks:
        return layout._replace(form=form), []
    width = len(blocks[0][1][0])
    names = own if layout.columns is None and form == "conllu" else layout.columns
    names = _named(f"{name}, line {blocks[0][0]}", width, names)
    sentences = []
    for first, rows in blocks:
        if len(rows[0]) != width:
            raise ValueError(_wrong(name, first, width, names, rows[0]))
        sentences.append(dict(zip(names, zip(*rows, strict=True), strict=True)))
    return Layout(layout.columns or names, form, layout.comment), sentences


def _blocks(name: str, lines: list[tuple[int, str]], layout: Layout) -> Iterator[tuple[int, list[list[str]]]]:
    """For each sentence: the number of its first line, and the columns of each line."""
    tabs = _by_tabs([line for _, line in lines])
    rows: list[list[str]] = []
    first = 0
    same: dict[str, str] = {}  # equal cells are one string: most of a text repeats
    for number, line in [*lines, (0, "")]:
        cells = [cell.strip(" ") for cell in line.split("\t")] if tabs and line else _words(line)
        columns = [same.setdefault(cell, cell) for cell in cells]
        if columns and columns[0].partition(" ")[0] != DOCUMENT:
            if rows and len(columns) != len(rows[0]):
                wrong = _wrong(name, number, len(rows[0]), None, columns)
                if layout.comment is None and (columns[0].startswith("#") or rows[0][0].startswith("#")):
                    wrong += " (--comment '#' leaves out lines that start so)"
                raise ValueError(wrong)
            first = first if rows else number
            rows.append(columns)
        elif rows:
            yield first, rows
            rows = []


DOCUMENT = "-DOCSTART-"


def _words(line: str) -> list[str]:
    return [word for word in line.replace("\t", " ").split(" ") if word]  # str.split() splits at other spaces too


def _by_tabs(lines: list[str]) -> bool:
    """Whether to split columns at tabs only: blanks give lines of unequal numbers of columns, and tabs do not."""
    tokens = [line for line in lines if line.strip("\t ") and not line.startswith(DOCUMENT)]
    if len({len(_words(line)) for line in tokens}) == 1:
        return False
    cells = [line.split("\t") for line in tokens]
    return len({len(each) for each in cells}) == 1 < len(cells[0]) and all(
        cell.strip(" ") for each in cells for cell in each
    )


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
