"""Text files: the one reader of lines for all commands, from files, members of zips and standard input.

Text is UTF-8, or UTF-16 with a byte order mark, or in an encoding that is given. A line ends at ``\\n``, ``\\r\\n`` or
``\\r``, in one file at any of them, and at no other character.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from reference.archives import MOST_BYTES, decode_text, read_zip, split_lines

HINT = "; --encoding names another encoding, such as latin-1"


def load_text(path: str | Path, *, encoding: str | None = None, most_bytes: int = MOST_BYTES) -> list[str]:
    """The lines of a file, of a member of a zip (``name.zip:member``) or of standard input (``-``), without line ends.

    Raises ValueError for a missing file or member, and as :func:`lines_of`.
    """
    return lines_of(str(path), load_bytes(str(path), most_bytes=most_bytes), encoding)


def lines_of(name: str, content: bytes, encoding: str | None = None) -> list[str]:
    """The lines of a file's content, without line ends and byte order mark.

    encoding: a name that Python knows; None: UTF-8, or UTF-16 with a byte order mark. ValueError, with ``name`` and the
    line, for a byte that does not fit the encoding and for NUL.
    """
    return split_lines(decode_text(name, content, encoding, HINT))


def load_bytes(path: str, *, most_bytes: int = MOST_BYTES) -> bytes:
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


@cache
def _standard_input() -> bytes:
    """The content of standard input, read once and cached."""
    return sys.stdin.buffer.read()


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
