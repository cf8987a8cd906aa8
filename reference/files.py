"""Atomic writes: a file is complete or does not exist."""

from __future__ import annotations

import errno
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

__all__ = ["NotWritten", "append", "replacing", "save_bytes"]

ABANDONED_SECONDS = 3600.0  # on file systems without locks: the age at which a part counts as abandoned


class NotWritten(RuntimeWarning):
    """A file of a run cannot be written, as on a full disk. The run goes on."""


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write, which replaces ``path`` when the block ends without an error. After an interrupted or failed
    write the old file is unchanged.

    An OSError of the write names ``path``. The data go to ``.NAME.xxxxxxxx.part`` in the same folder, under a lock that
    ends with the process. Parts without a lock were left by killed processes and are removed first. Links are followed,
    and the file's permissions stay. Devices, pipes and other special files are written to directly.
    """
    path, beside = Path(os.path.realpath(path)), ""
    if path.exists() and not path.is_file() and not path.is_dir():
        try:
            with open(path, "wb") as as_it_is:
                yield as_it_is
        except OSError as problem:
            raise _named(problem, path) from None
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
    """Write a file atomically. Raises OSError with its name if it cannot be written."""
    with replacing(path) as file:
        file.write(content)


def append(file: IO[bytes], path: str | Path, content: bytes) -> None:
    """Add to the end of a file that was opened for appending without a buffer: all of the content, or nothing. Raises
    OSError with the name of ``path`` if it cannot be written.
    """
    status = os.fstat(file.fileno())
    try:
        while content:  # a nearly full disk may take only a part
            content = content[file.write(content) :]
    except BaseException as problem:
        if stat.S_ISREG(status.st_mode):
            os.ftruncate(file.fileno(), status.st_size)
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
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(name):
            return file, name
        file.close()  # another process removed it as abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove the parts of ``path`` whose processes have ended. Parts that cannot be opened stay."""
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
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while the process that writes it runs
        part.unlink()


def _mode(path: Path) -> int:
    """The permissions of the existing file, or those of a new one."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _is_part(name: Any, path: Path) -> bool:
    return re.fullmatch(rf"\.{re.escape(path.name)}\.\w{{8}}\.part", os.path.basename(str(name))) is not None


def _named(problem: OSError, path: str | Path) -> OSError:
    """The same error, naming ``path``."""
    if problem.errno is None:  # errors of NumPy and Pillow when a disk is full
        return OSError(errno.EIO, f"cannot be written: {problem}", str(path))
    return OSError(problem.errno, problem.strerror, str(path))
