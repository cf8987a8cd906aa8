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
from typing import Any, ClassVar, NamedTuple

import numba

from accelerated.kernel_archive import Archive, obstacle
from reference.files import replacing

__all__ = ["SUFFIX", "KernelFiles", "KernelPlace", "warn_once"]

SUFFIX = ".nbc"  # files of compiled code
DIGEST = hashlib.sha256
DAMAGED = "damaged kernel cache: %s (%s): compiled anew, and so is what else is damaged there"
_told: set[str] = set()


class KernelPlace(NamedTuple):
    """Where kernels are kept.

    folder: None if there is none; stamp: the hash of the sources; writable: whether new kernels are kept there;
    shipped: finds the kernels that were compiled elsewhere.
    """

    folder: Path | None
    stamp: str
    writable: bool
    shipped: Callable[[], Archive | None]


class KernelFiles:
    """The files of one function, in place of numba's ``IndexDataCacheFile``. Each holds a digest of its name and of the
    rest, then the key and the code.
    """

    written: ClassVar[set[str]] = set()  # names of the files that this process has written

    def __init__(self, place: KernelPlace, name: str, dumps: Callable[[Any], bytes]) -> None:
        self.place, self.name, self.dumps = place, name.replace("<", "").replace(">", ""), dumps
        self.anew = False  # whether what arrived compiled is left aside

    def load(self, key: Any, key_of_level: Any) -> Any:
        """The code saved under a key, or compiled elsewhere under the other, for all processors of a level. None if
        there is none; None and one logged line if the file is damaged.
        """
        code = self._kept(key)
        if code is None and not self.anew:
            if obstacle() is None:
                code = self._kept(key_of_level)
            if code is None and (archive := self.place.shipped()) is not None:
                name = self._name_of(key_of_level)
                code = self._code(archive.read(name), archive.path, name, key_of_level)
        return code

    def _kept(self, key: Any) -> Any:
        if self.place.folder is None:
            return None
        path = self.place.folder / self._name_of(key)
        try:
            return self._code(path.read_bytes(), path, path.name, key)
        except FileNotFoundError:
            return None
        except OSError as problem:
            return self._damaged(path, problem.strerror)

    def _code(self, content: bytes | None, path: Path, name: str, key: Any) -> Any:
        """What a file's content, found in ``path``, has under a key."""
        if content is None:
            return None
        size = DIGEST().digest_size
        if content[:size] != _digest(name, content[size:]):
            return self._damaged(path, "not as it was written")
        try:
            saved, code = pickle.loads(memoryview(content)[size:])
        except (AttributeError, ImportError):  # a type of the key or the code has moved
            return None
        return code if saved == (self.place.stamp, key) else None

    def _damaged(self, path: Path, why: str | None) -> None:
        self.anew = True
        warn_once(DAMAGED, path, why)

    def save(self, key: Any, code: Any) -> None:
        """Keep code in the folder, where there must be one."""
        assert self.place.folder is not None
        path, content = self.place.folder / self._name_of(key), self.dumps(((self.place.stamp, key), code))
        if path.is_dir():
            shutil.rmtree(path)
        with replacing(path) as file:
            file.write(_digest(path.name, content) + content)
        self.written.add(path.name)

    def flush(self) -> None:
        """Delete the function's files, as numba's ``recompile`` wants; those that cannot be deleted stay. What was
        compiled elsewhere is not used from now on.
        """
        self.anew = True
        pattern = f"{glob.escape(self.name)}-{16 * '[0-9a-f]'}{SUFFIX}"
        for path in () if self.place.folder is None else self.place.folder.glob(pattern):
            with suppress(OSError):
                path.unlink()

    def _name_of(self, key: Any) -> str:
        """The name of a key's file. Keys with types of equal names share a file; the key in the file distinguishes
        them.
        """
        hashed = DIGEST(repr((numba.__version__, self.name, key)).encode()).hexdigest()[:16]
        return f"{self.name}-{hashed}{SUFFIX}"


def _digest(name: str, content: bytes) -> bytes:
    return DIGEST(name.encode() + b"\0" + content).digest()


def warn_once(message: str, *details: Any) -> None:
    """Log each message once in a process."""
    if message not in _told:
        _told.add(message)
        logging.getLogger("accelerated.kernel").warning(message, *details)
