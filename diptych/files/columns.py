"""Column files of the CoNLL shared tasks: a token is a line, its columns are apart by blanks or tabs, an empty line ends a sentence.

Sources: Tjong Kim Sang and Buchholz (2000), "Introduction to the CoNLL-2000 shared task: chunking"; Tjong Kim Sang (2002), "Introduction to
the CoNLL-2002 shared task".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reference.archives import MOST_BYTES, read_zip

__all__ = ["NAMES", "load_columns", "read_columns"]

Columns = dict[str, tuple[str, ...]]

NAMES = {1: ("word",), 2: ("word", "label"), 3: ("word", "tag", "label"), 4: ("word", "tag", "chunk", "label")}


def load_columns(
    path: str, names: Sequence[str] | None = None, *, comment: str | None = None, most_bytes: int = MOST_BYTES
) -> list[Columns]:
    """The sentences of a file, each a dictionary from names of columns to tuples of strings, one for each token.

    Parameters
    ----------
    path : str
        A text file in UTF-8, or ``name.zip:member``: a file inside a zip, by its whole name or what is behind a slash of it.
    names : sequence of str, optional
        Of the columns; where the last is "label", files without that column are read too. Default: of one to four columns, word, word and
        label, word, tag and label, or word, tag, chunk and label.
    comment : str, optional
        Lines that start so are left out; not "". (None: there are tokens that start with #.)
    most_bytes : int
        What a file inside a zip may hold (see :mod:`reference.archives`); there it is stored or deflated.

    Returns
    -------
    list of dict
        Lines whose first column is -DOCSTART- count as empty.

    Raises
    ------
    ValueError
        Naming the file, the line and what was expected; a file or a member that is not there.

    Examples
    --------
    >>> read_columns("a", b"The DT B-NP\\ncat NN I-NP\\n")
    [{'word': ('The', 'cat'), 'tag': ('DT', 'NN'), 'label': ('B-NP', 'I-NP')}]
    """
    archive, colon, member = path.partition(".zip:")
    if not colon:
        if not Path(path).is_file():
            raise ValueError(f"{path}: no such file")
        if path.lower().endswith(".zip"):
            list(read_zip(path, choose=lambda held: _one_of(path, held, None)))
        return read_columns(path, Path(path).read_bytes(), names, comment=comment)
    archive += ".zip"
    if not Path(archive).is_file():
        raise ValueError(f"{archive}: no such file")
    ((_, content),) = read_zip(archive, choose=lambda held: _one_of(path, held, member), most_bytes=most_bytes)
    return read_columns(path, content, names, comment=comment)


def _one_of(path: str, held: list[str], member: str | None) -> list[str]:
    """The one member of a zip that is meant."""
    files = [name for name in held if not name.endswith("/")]
    if member is None:
        raise ValueError(f"{path}: expected a member, such as {path}:{', '.join(files[:1])}")
    found = [name for name in files if name == member or name.endswith(f"/{member}")]
    if len(found) != 1:
        raise ValueError(f"{path}: expected one of {', '.join(files)}, got {member!r}")
    return found


def read_columns(
    name: str, content: bytes, names: Sequence[str] | None = None, *, comment: str | None = None
) -> list[Columns]:
    """The sentences of a file's content, as :func:`load_columns` gives them; errors call it ``name``."""
    if comment == "":
        raise ValueError("comment: expected what lines to leave out start with, got ''")
    try:
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as problem:
        raise ValueError(f"{name}: not a text file in UTF-8: {problem}") from None
    blocks = list(_blocks(name, lines, comment))
    if not blocks:
        return []
    width = len(blocks[0][1][0])
    names = _named(f"{name}: line {blocks[0][0]}", width, names)
    sentences = []
    for first, rows in blocks:
        if len(rows[0]) != width:
            raise ValueError(_wrong(name, first, width, names, rows[0]))
        sentences.append(dict(zip(names, zip(*rows, strict=True), strict=True)))
    return sentences


def _blocks(name: str, lines: list[str], comment: str | None) -> Iterator[tuple[int, list[list[str]]]]:
    """The number of the first line, and the columns of each line, of each sentence."""
    rows: list[list[str]] = []
    for number, line in enumerate([*lines, ""], 1):
        if comment is not None and line.startswith(comment):
            continue
        columns = [
            column for column in line.replace("\t", " ").split(" ") if column
        ]  # str.split knows other blanks too
        if columns and columns[0] != "-DOCSTART-":
            if rows and len(columns) != len(rows[0]):
                raise ValueError(_wrong(name, number, len(rows[0]), None, columns))
            rows.append(columns)
        elif rows:
            yield number - len(rows), rows
            rows = []


def _wrong(name: str, number: int, width: int, names: Sequence[str] | None, columns: list[str]) -> str:
    what = "" if names is None else f" ({', '.join(names)})"
    return f"{name}: line {number}: expected {width} columns{what}, as above, got {len(columns)}: {' '.join(columns)!r:.80}"


def _named(where: str, width: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names of a file's columns, as many as there are."""
    if names is None:
        if width not in NAMES:
            raise ValueError(f"{where}: got {width} columns; say what they are called, such as word,tag,label")
        return NAMES[width]
    names = tuple(names)
    if len(set(names)) < len(names):
        raise ValueError(f"names: expected different ones, got {', '.join(names)}")
    if len(names) == width + 1 and names[-1] == "label":
        return names[:-1]
    if len(names) != width:
        expected = f"{len(names)} columns ({', '.join(names)})"
        if names[-1:] == ("label",) and len(names) > 1:
            expected += f", or {len(names) - 1} without labels ({', '.join(names[:-1])})"
        raise ValueError(f"{where}: expected {expected}, got {width}")
    return names
