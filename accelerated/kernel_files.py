"""The files of compiled kernels: whole or not there, and never used if damaged."""

from __future__ import annotations

import glob
import hashlib
import logging
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numba

from reference.files import replacing

__all__ = ["SUFFIX", "KernelFiles", "warn_once"]

SUFFIX = ".nbc"  # files of compiled code
DIGEST = hashlib.sha256
DAMAGED = "damaged kernel cache: %s (%s): compiled anew, and so is what else is damaged there"
_told: set[str] = set()


class KernelFiles:
    """The files of one function, in place of numba's ``IndexDataCacheFile``. Each holds a digest of its name and of the
    rest, then the key and the code.
    """

    written: ClassVar[set[str]] = set()  # names of the files that this process has written

    def __init__(self, folder: Path, name: str, dumps: Callable[[Any], bytes]) -> None:
        self.folder, self.name, self.dumps = folder, name.replace("<", "").replace(">", ""), dumps
        self.stamp = folder.name  # which has the hash of the sources

    def load(self, key: Any) -> Any:
        """The code saved under this key. None if there is none; None and one logged line if the file is damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            return warn_once(DAMAGED, path, problem.strerror)
        size = DIGEST().digest_size
        if content[:size] != _digest(path, content[size:]):
            return warn_once(DAMAGED, path, "not as it was written")
        try:
            saved, code = pickle.loads(memoryview(content)[size:])
        except (AttributeError, ImportError):  # a type of the key or the code has moved
            return None
        return code if saved == (self.stamp, key) else None

    def save(self, key: Any, code: Any) -> None:
        path, content = self._path(key), self.dumps(((self.stamp, key), code))
        if path.is_dir():
            shutil.rmtree(path)
        with replacing(path) as file:
            file.write(_digest(path, content) + content)
        self.written.add(path.name)

    def flush(self) -> None:
        """Delete the function's files, as numba's ``recompile`` wants; those that cannot be deleted stay."""
        for path in self.folder.glob(f"{glob.escape(self.name)}-{16 * '[0-9a-f]'}{SUFFIX}"):
            with suppress(OSError):
                path.unlink()

    def _path(self, key: Any) -> Path:
        """The file of a key. Keys with types of equal names share a file; the key in the file distinguishes them."""
        hashed = DIGEST(repr((numba.__version__, self.name, key)).encode()).hexdigest()[:16]
        return self.folder / f"{self.name}-{hashed}{SUFFIX}"


def _digest(path: Path, content: bytes) -> bytes:
    return DIGEST(path.name.encode() + b"\0" + content).digest()


def warn_once(message: str, *details: Any) -> None:
    """Log each message once in a process."""
    if message not in _told:
        _told.add(message)
        logging.getLogger("accelerated.kernel").warning(message, *details)
