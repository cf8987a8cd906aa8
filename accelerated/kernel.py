"""``@kernel``: the only way to compile here. Compiled code is kept on disk in a folder named by a hash of our sources.

Numba's disk cache does not notice that a function called from another file has changed, and would run stale machine
code. So the cache lies in ``BASE/diptych-<hash>``, a hash of accelerated/**/*.py, of the files of ``reference`` that
kernels take constants from, of the processor and of numba's settings. An edit anywhere compiles all kernels afresh,
without any setting; the same sources in another place find what is compiled. BASE is ``NUMBA_CACHE_DIR`` where set,
else ``diptych`` in the user's cache directory. A file holds one function's code for one signature behind a digest. A
damaged file is never used, and processes that compile at the same time lose nothing. From a folder that cannot be
written, kept kernels are loaded, and those compiled now are not kept.
Kernels are float64 loops over arrays. They are compiled without fastmath (it breaks -inf), divide as NumPy does, and
release the GIL.
"""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import pickle
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator, _SourceFileBackedLocatorMixin
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

import reference
from accelerated.parts import EntryDispatcher
from reference.files import replacing

__all__ = ["cache_folder", "cache_is_cold", "cache_is_writable", "inlined", "kernel"]

KEEP_SECONDS = 30 * 24 * 3600.0  # folders of other versions are deleted after this long without use
SUFFIX = ".nbc"  # files of compiled code
DIGEST = hashlib.sha256
SETTINGS = (
    "BOUNDSCHECK",
    "OPT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "CPU_NAME",
    "CPU_FEATURES",
)  # settings of numba that change the code but not its cache keys


def _source_hash() -> str:
    root = Path(__file__).parent
    processor = get_host_cpu_name(), get_host_cpu_features().flatten()
    settings = [getattr(config, name) for name in SETTINGS]
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {processor} {settings}".encode())
    sources = {path.relative_to(root.parent).as_posix(): path.read_bytes() for path in root.rglob("*.py")}
    for path in (root / "compiled").rglob("*.py"):
        for module in re.findall(r"^from (reference[.\w]+) import", path.read_text(encoding="utf-8"), re.MULTILINE):
            name = f"{module.replace('.', '/')}.py"
            sources[name] = Path(reference.__file__).parents[1].joinpath(name).read_bytes()
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + sources[name])
    return digest.hexdigest()[:16]


def _base() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "diptych"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "diptych"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diptych"


def _prepare() -> tuple[Path | None, bool]:
    """The folder of this version's kernels, created and marked as used, and whether it can be written. If not, one line
    is logged, and the folder is None unless it holds kernels.
    """
    folder = None
    try:
        base = _base()
        folder = base / f"diptych-{_source_hash()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        os.utime(folder)
        for other in base.glob("diptych-*"):
            with suppress(FileNotFoundError):  # another process was faster
                if other != folder and time.time() - other.stat().st_mtime > KEEP_SECONDS:
                    shutil.rmtree(other, ignore_errors=True)
    except (OSError, RuntimeError) as problem:
        kept = folder is not None and _holds_kernels(folder)
        how = "new kernels are not kept" if kept else "kernels are compiled in each process: no cache folder"
        logging.getLogger(__name__).warning("%s (%s)", how, problem)
        return folder if kept else None, False
    return folder, True


def _holds_kernels(folder: Path) -> bool:
    try:
        return next(folder.glob(f"*{SUFFIX}"), None) is not None
    except OSError:
        return False


_FOLDER, _WRITABLE = _prepare()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a module-level function of arrays, numbers and NamedTuples, cached on disk, GIL released."""
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A kernel that is copied into its callers: for bodies so short that passing arrays costs as much as the work."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    dispatcher: Any = EntryDispatcher(function, {"nopython": True, "nogil": True, "error_model": "numpy", **options})
    if _FOLDER is not None:
        dispatcher._cache = _Cache(function)
    return dispatcher


def cache_folder() -> Path | None:
    """The folder of this version's compiled kernels; None if nothing can be written there and nothing is kept there."""
    return _FOLDER


def cache_is_writable() -> bool:
    """Whether kernels that are compiled now are kept for other processes."""
    return _WRITABLE


def cache_is_cold() -> bool:
    """Whether no kernel of this version has been compiled yet (the first use then takes some seconds more)."""
    return _FOLDER is None or not _holds_kernels(_FOLDER)


# the cache ------------------------------------------------------------------------------------------------------------


class _Locator(_SourceFileBackedLocatorMixin, _CacheLocator):
    """Places all functions in the one folder."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(_FOLDER)

    def get_source_stamp(self) -> str:
        return _FOLDER.name if _FOLDER else ""  # which has the hash of the sources

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator | None:
        return cls(function, file) if os.path.exists(file) else None


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _Cache(FunctionCache):
    """Numba's cache of a function, in files of our own: all processes read, change and write numba's index files
    without a lock.
    """

    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._name = f"{function.__module__}.{function.__qualname__}"
        name = f"{function.__module__}.{self._impl.filename_base}"
        self._cache_file = _Entries(Path(self._cache_path), name, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kept machine code, or None.

        Numba would first import everything that a kernel can call, which takes a fifth of a second. Compiling does so
        by itself. Kept code needs only the runtime, which allocates arrays.
        """
        rtsys.initialize(target_context)
        compiled = self._load_overload(sig, target_context)
        if compiled is None:
            logging.getLogger(__name__).info("compiling %s: the first use on this machine", self._name)
        return compiled

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _WRITABLE:  # said at the start
            return
        try:
            super().save_overload(sig, data)
        except OSError as problem:
            _warn_once("compiled kernels are not kept: %s", problem)


class _Entries:
    """The files of one function, in place of numba's ``IndexDataCacheFile``. Each holds a digest of its name and of the
    rest, then the key and the code.
    """

    def __init__(self, folder: Path, name: str, stamp: Any) -> None:
        self.folder, self.name, self.stamp = folder, name, stamp

    def load(self, key: Any) -> Any:
        """The code saved under this key. None if there is none; None and one logged line if the file is damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            return _warn_once(DAMAGED, path, problem.strerror)
        size = DIGEST().digest_size
        if content[:size] != _digest(path, content[size:]):
            return _warn_once(DAMAGED, path, "not as it was written")
        try:
            saved, code = pickle.loads(memoryview(content)[size:])
        except (AttributeError, ImportError):  # a type of the key or the code has moved
            return None
        return code if saved == (self.stamp, key) else None

    def save(self, key: Any, code: Any) -> None:
        path, content = self._path(key), dumps(((self.stamp, key), code))
        if path.is_dir():
            shutil.rmtree(path)
        with replacing(path) as file:
            file.write(_digest(path, content) + content)

    def flush(self) -> None:
        """Delete the function's files, as numba's ``recompile`` wants; those that cannot be deleted stay."""
        for path in self.folder.glob(f"{glob.escape(self.name)}-{16 * '[0-9a-f]'}{SUFFIX}"):
            with suppress(OSError):
                path.unlink()

    def _path(self, key: Any) -> Path:
        """The file of a key. Keys with types of equal names share a file; the key in the file distinguishes them."""
        hashed = DIGEST(repr((numba.__version__, self.name, key)).encode()).hexdigest()[:16]
        return self.folder / f"{self.name}-{hashed}{SUFFIX}"


DAMAGED = "damaged kernel cache: %s (%s): compiled anew, and so is what else is damaged there"
_told: set[str] = set()


def _digest(path: Path, content: bytes) -> bytes:
    return DIGEST(path.name.encode() + b"\0" + content).digest()


def _warn_once(message: str, *details: Any) -> None:
    """Log each message once in a process."""
    if message not in _told:
        _told.add(message)
        logging.getLogger(__name__).warning(message, *details)
