"""Files that are whole or not there."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, where an open file can be neither removed nor renamed
    fcntl = None  # type: ignore[assignment]

__all__ = ["append", "replacing", "save_bytes"]

ABANDONED_SECONDS = 3600.0  # without locks: a part this old that nobody has open


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` when the block ends well: an interrupted or failed write leaves
    the old file whole.

    An OSError of the write names ``path``. What is written lies beside it as ``.NAME.xxxxxxxx.part``, under a lock that
    ends with the process;
    a part of that name without a lock is what a killed process left, and is removed first. A link is followed, a file's
    permissions stay; what
    is no file, such as a device or a pipe, is written to as it is.
    """
    path, beside = Path(os.path.realpath(path)), ""
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb") as as_it_is:
            yield as_it_is
        return
    _remove_abandoned(path)
    try:
        file, beside = _part(path)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.chmod(beside, _mode(path))
            if fcntl is not None:  # while the lock holds
                os.replace(beside, path)
        if fcntl is None:
            os.replace(beside, path)
    except BaseException as problem:
        if beside:
            Path(beside).unlink(missing_ok=True)
        if isinstance(problem, OSError) and (problem.filename is None or _is_part(problem.filename, path)):
            raise _named(problem, path) from None
        raise


def save_bytes(path: str | Path, content: bytes) -> None:
    """Write a file that is whole or not there; OSError naming it where it cannot be written."""
    with replacing(path) as file:
        file.write(content)


def append(file: IO[bytes], path: str | Path, content: bytes) -> None:
    """Add to the end of a file that was opened for appending without a buffer: all of the content, or none of it and an
    OSError that names ``path``."""
    found = os.fstat(file.fileno())
    try:
        while content:  # a nearly full disk takes a piece
            content = content[file.write(content) :]
    except BaseException as problem:
        if stat.S_ISREG(found.st_mode):
            os.ftruncate(file.fileno(), found.st_size)
        if isinstance(problem, OSError):
            raise _named(problem, path) from None
        raise


# parts -------------------------------------------------------------------------------------------------------------


def _part(path: Path) -> tuple[IO[bytes], str]:
    """A new file beside ``path``, locked, and its name."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        file = os.fdopen(handle, "wb")
        if fcntl is None:
            return file, name
        with suppress(OSError):  # a file system without locks: nothing is taken for abandoned there
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(name):
            return file, name
        file.close()  # before it was locked, another save took it for abandoned


def _remove_abandoned(path: Path) -> None:
    """Remove the parts of ``path`` whose processes have ended; what cannot be looked at stays."""
    with suppress(OSError):
        for name in filter(lambda name: _is_part(name, path), os.listdir(path.parent)):
            with suppress(OSError):
                _remove_if_abandoned(path.parent / name)


def _remove_if_abandoned(part: Path) -> None:
    if fcntl is None:
        if time.time() - part.stat().st_mtime > ABANDONED_SECONDS:
            part.unlink()
        return
    with open(part, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its save lives
        part.unlink()


def _mode(path: Path) -> int:
    """The permissions of the file that is there, or those of a new one."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _is_part(name: Any, path: Path) -> bool:
    return re.fullmatch(rf"\.{re.escape(path.name)}\.\w{{8}}\.part", os.path.basename(str(name))) is not None


def _named(problem: OSError, path: str | Path) -> OSError:
    """The same error, naming ``path``."""
    if problem.errno is None:  # as NumPy and Pillow say that a disk is full
        return OSError(f"{path}: cannot be written: {problem}")
    return OSError(problem.errno, problem.strerror, str(path))
