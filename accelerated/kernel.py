"""``@kernel``: the only way to compile here. Compiled code is kept on disk in a folder named by a hash of our sources.

Numba's disk cache does not see that a function called from another file has changed and would run stale machine code.
So for the moment of decoration its cache points at ``BASE/<hash of accelerated/**/*.py>``: an edit anywhere compiles
afresh, and nobody needs a setting. BASE is ``NUMBA_CACHE_DIR`` where set, else ``diptych`` in the user's cache directory.
Kernels are float64 loops over arrays without fastmath (it breaks -inf), divide as NumPy does, and release the GIL.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config

__all__ = ["cache_folder", "cache_is_cold", "inlined", "kernel"]

KEEP_SECONDS = 30 * 24 * 3600.0  # folders of other versions are dropped after this long without use


def _source_hash() -> str:
    root = Path(__file__).parent
    digest = hashlib.sha256(f"{sys.implementation.cache_tag}".encode())
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _base() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "diptych"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "diptych"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diptych"


def _prepare() -> Path | None:
    """The folder of this version's kernels, made and marked as used; None (and one logged line) if it cannot be written."""
    try:
        base = _base()
        folder = base / f"diptych-{_source_hash()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        os.utime(folder)
        for other in base.glob("diptych-*"):
            if other != folder and time.time() - other.stat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    except (OSError, RuntimeError) as problem:
        logging.getLogger(__name__).warning("kernels are compiled in each process: no cache folder (%s)", problem)
        return None
    return folder


_FOLDER = _prepare()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a module-level function of arrays, numbers and NamedTuples, cached on disk, GIL released."""
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A kernel that is copied into its callers: for bodies so short that handing over arrays costs as much as the work."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    if _FOLDER is None:
        return njit(nogil=True, error_model="numpy", **options)(function)
    before, config.CACHE_DIR = config.CACHE_DIR, str(_FOLDER)  # type: ignore[attr-defined]
    try:
        return njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


def cache_folder() -> Path | None:
    """Where this version's compiled kernels lie, or None where nothing can be written."""
    return _FOLDER


def cache_is_cold() -> bool:
    """Whether no kernel of this version has been compiled yet (the first use then takes some seconds more)."""
    return _FOLDER is None or next(_FOLDER.rglob("*.nbi"), None) is None
