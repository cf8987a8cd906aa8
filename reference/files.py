"""Files that are whole or not there, and ``.npz`` archives without pickle."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

__all__ = ["read_npz", "replacing"]


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` when the block ends well: an interrupted or failed write leaves the old file whole."""
    path = Path(path)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(beside, 0o666 & ~umask)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def read_npz(path: str | Path, what: str) -> dict[str, np.ndarray]:
    """All arrays of an npz file, without pickle; ValueError naming the file if it is not there, none or damaged, OSError if unreadable."""
    if not Path(path).exists():
        raise ValueError(f"{path}: no such file")
    content = Path(path).read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError(f"{path}: not a readable {what}: no npz archive")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as problem:  # a damaged archive makes its readers raise nearly anything
        raise ValueError(f"{path}: not a readable {what}: {problem}") from None
