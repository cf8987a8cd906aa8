"""CoNLL-U, CoNLL-X and CoNLL-U Plus: a line for each word with columns separated by tabs, and comments that start
with #.

There are ten columns, or those that a comment above the first word names (CoNLL-U Plus)::

    # global.columns = ID FORM UPOS PARSEME:MWE

Lines of ranges of words (1-2) and of empty nodes (1.1) are skipped in reading and kept in writing.

Sources: https://universaldependencies.org/format.html, https://universaldependencies.org/ext-format.html; Buchholz and
Marsi (2006), "CoNLL-X shared task".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

CONLLU = ("id", "word", "lemma", "label", "xpos", "feats", "head", "deprel", "deps", "misc")  # label: UPOS
STANDARD = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_HEADER = re.compile(r"#\s*global\.columns\s*=(.*)")
_WORD = re.compile(r"[1-9]\d*")
_OTHER = re.compile(r"[1-9]\d*-\d+|\d+\.\d+")  # ranges, empty nodes


class Block(NamedTuple):
    """A sentence of a file.

    numbers: the line number of each word. lines: all lines, up to the empty one at the end. words: the index of each
    word's line among them. columns: the names of the columns. end: what ends the lines before the line feed.
    """

    numbers: list[int]
    lines: list[str]
    words: list[int]
    columns: tuple[str, ...]
    end: str = ""

    @property
    def comments(self) -> tuple[str, ...]:
        """The comment lines."""
        return tuple(line for line in self.lines if _is_comment(line, self.columns))

    @property
    def rows(self) -> list[list[str]]:
        """The columns of each word."""
        return [self.lines[k].split("\t") for k in self.words]

    def changed(self, values: Mapping[str, Sequence[str]], comments: Sequence[str] = ()) -> list[str]:
        """The lines with new values in some columns, one for each word, and with further comments above the words.

        Columns that the file lacks come last.
        """
        more = [name for name in values if name not in self.columns]
        lines = [self._wider(line, more) for line in self.lines]
        for i, (k, cells) in enumerate(zip(self.words, self.rows, strict=True)):
            new = (values[name][i] if name in values else cell for name, cell in zip(self.columns, cells, strict=True))
            lines[k] = "\t".join([*new, *(values[name][i] for name in more)])
        above = next(k for k, line in enumerate(self.lines) if line.strip() and not _is_comment(line, self.columns))
        return [*lines[:above], *comments, *lines[above:]]

    def _wider(self, line: str, more: list[str]) -> str:
        """A line with further columns, which are "_"."""
        if _is_comment(line, self.columns):
            return line + "".join(f" {STANDARD[CONLLU.index(name)]}" for name in more if _HEADER.match(line))
        return line + "\t_" * len(more) if line.strip() else line


def conllu_columns(name: str, lines: Iterable[str], comment: str | None = None) -> tuple[str, ...] | None:
    """The names of the columns of a CoNLL-U file, or None for another file.

    It is CoNLL-U if a comment above the first word names the columns, or if the first word has ten columns and begins
    with a number. name: of the file, in error messages. comment: a prefix of comments, besides #.
    """
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            if (columns := _header(f"{name}, line {number}", line)) is not None:
                return columns
        elif line.strip() and not (comment and line.startswith(comment)):
            cells = line.split("\t")
            numbered = _WORD.fullmatch(cells[0]) or _OTHER.fullmatch(cells[0])
            return CONLLU if numbered and len(cells) == len(CONLLU) else None
    return None


def _header(where: str, line: str) -> tuple[str, ...] | None:
    """The columns that a comment names, or None."""
    match = _HEADER.match(line)
    if match is None:
        return None
    names = tuple(dict(zip(STANDARD, CONLLU, strict=True)).get(name, name) for name in match[1].split())
    if "word" not in names or len(set(names)) < len(names):
        raise ValueError(f"{where}: global.columns: expected different names, one of them FORM, got {match[1].strip()}")
    return names


def conllu_blocks(name: str, lines: Sequence[tuple[int, str]], columns: tuple[str, ...] = CONLLU) -> list[Block]:
    """The sentences of numbered lines; lines below the last sentence belong to it. A ValueError names file and line."""
    blocks: list[Block] = []
    block, begun = Block([], [], [], columns), 0
    text = lines[:-1] if lines and not lines[-1][1] else lines  # the file ends with a line end
    for number, line in [*text, (0, "")]:
        block.lines.append(line)
        where = f"{name}, line {number}"
        if _is_comment(line, columns):
            if _header(where, line) not in (None, columns):
                raise ValueError(f"{where}: global.columns: expected those above, got {line!r:.80}")
        elif line.strip():
            begun = begun or number
            if _is_word(where, line, columns, len(block.words) + 1):
                block.words.append(len(block.lines) - 1)
                block.numbers.append(number)
        elif begun:
            if not block.words:
                raise ValueError(f"{name}, line {begun}: a sentence without words")
            blocks.append(block)
            block, begun = Block([], [], [], columns), 0
    if blocks:
        blocks[-1].lines.extend(block.lines[:-1])
    return blocks


def _is_comment(line: str, columns: tuple[str, ...]) -> bool:
    """Whether a line is a comment: it starts with # and is not the line of a word that starts with #."""
    return line.startswith("#") and (columns[0] == "id" or line.count("\t") + 1 != len(columns))


def _is_word(where: str, line: str, columns: tuple[str, ...], expected: int) -> bool:
    """Whether a line is that of a word, and not of a range or an empty node. expected: the number that a word must
    have.
    """
    cells = line.split("\t")
    if len(cells) != len(columns) or not all(cells):
        got = f"{len(cells)} of them" if all(cells) else "an empty one"
        names = "10 columns of CoNLL-U" if columns == CONLLU else f"{len(columns)} columns of global.columns"
        raise ValueError(f"{where}: expected the {names}, separated by tabs, got {got}: {line!r:.80}")
    if "id" not in columns:
        return True
    number = cells[columns.index("id")]
    if _OTHER.fullmatch(number):
        return False
    if not _WORD.fullmatch(number):
        raise ValueError(f"{where}: expected the number of a word, got {number!r:.80}")
    if number != str(expected):
        raise ValueError(f"{where}: expected word {expected} of its sentence, got {number:.80}")
    return True
