"""``@kernel``: the only way to compile here. Compiled code is kept on disk in a folder named by a hash of our sources.

Numba's disk cache does not notice that a function called from another file has changed, and would run stale machine
code. So the cache lies in ``BASE/diptych-<hash>``: a hash of all modules that hold kernels or decide how they are
compiled (SOURCES), of the files of ``reference`` that kernels take constants from and of numba's settings. An edit of
one of them compiles all kernels afresh, without any setting; the same sources in another place find what is compiled.
BASE is ``NUMBA_CACHE_DIR`` where set, else ``diptych`` in the user's cache directory. A file holds one function's code
for one signature and one processor behind a digest. A damaged file is never used, and processes that compile at the
same time lose nothing. From a folder that cannot be written, kept kernels are loaded, and those compiled now are not
kept. What the folder lacks may have arrived compiled (:mod:`accelerated.kernel_archive`).
Kernels are float64 loops over arrays. They are compiled without fastmath (it breaks -inf), divide as NumPy does, and
release the GIL.

How kernels are compiled is in :mod:`accelerated.numba_inside`, which uses private names of numba. Where a version of
numba lacks one, or if ``DIPTYCH_PLAIN_KERNELS=1`` is set, kernels are ``numba.njit(cache=True)``: first calls take
longer, and answers are the same.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba

import reference
from accelerated.kernel_archive import PYTHON, SETTINGS, Archive, companion
from accelerated.kernel_files import SUFFIX, KernelPlace, warn_once

__all__ = [
    "TRIED",
    "cache_folder",
    "cache_is_cold",
    "cache_is_writable",
    "inlined",
    "kernel",
    "kernel_names",
    "kernels_are_plain",
    "part_options",
    "shipped_kernels",
    "source_hash",
]

TRIED = "0.68.1"  # the last numba whose private names are known to work; newer ones compile a small kernel first
SOURCES = ("kernel.py", "kernel_files.py", "numba_inside.py", "compiled/**/*.py")  # what kernels are compiled from
KEEP_SECONDS = 30 * 24 * 3600.0  # folders of other versions are deleted after this long without use
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
config: Any = numba.config
KEYED = ("ENABLE_AVX", "CPU_NAME", "CPU_FEATURES")  # settings that numba's keys of a kernel contain


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a module-level function of arrays, numbers and NamedTuples, cached on disk, GIL released."""
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A kernel that is copied into its callers: for bodies so short that passing arrays costs as much as the work."""
    return _compiled(function, forceinline=True)


def part_options(**options: Any) -> Any:
    """``jit_options`` of an ``overload``, whose bodies kernels call."""
    return {} if _inside is None else {**_inside.AS_PART, **options}


def kernels_are_plain() -> bool:
    """Whether kernels are compiled without private names of numba, which takes longer."""
    return _inside is None


def cache_folder() -> Path | None:
    """The folder of this version's compiled kernels; None if nothing can be written there and nothing is kept there."""
    return _folder


def cache_is_writable() -> bool:
    """Whether kernels that are compiled now are kept for other processes."""
    return _writable


def cache_is_cold() -> bool:
    """Whether no kernel of this version has been compiled yet (the first use then takes some seconds more)."""
    return (_folder is None or not _holds_kernels(_folder)) and shipped_kernels() is None


def kernel_names() -> list[str]:
    """The names of the files of compiled kernels, in the folder and of those that arrived compiled."""
    kept = [] if _folder is None else [path.name for path in _folder.glob(f"*{SUFFIX}")]
    return kept + ([] if (shipped := shipped_kernels()) is None else shipped.names)


def source_hash() -> str:
    """The hash of what kernels are compiled from."""
    return _source_hash(kernels_are_plain())


@cache
def shipped_kernels() -> Archive | None:
    """The kernels that the wheel ``diptych-kernels`` brought. None if it is not installed or kernels are plain; None
    and one logged line if they do not fit this process.
    """
    path = None if kernels_are_plain() else companion()
    try:
        return None if path is None else Archive(path, source_hash())
    except (OSError, ValueError) as problem:
        warn_once("shipped kernels are not used, kernels are compiled: %s", problem)
        return None


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    folder, typed = _folder, not os.path.exists(function.__code__.co_filename)  # at a prompt: not kept
    if _inside is not None:
        place = None if typed else KernelPlace(folder, source_hash(), _writable, shipped_kernels)
        return _inside.entry(function, {"nopython": True, **OPTIONS, **options}, place)
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)  # read by the decorator
    try:
        return numba.njit(cache=_writable and folder is not None and not typed, **OPTIONS)(function)
    finally:
        config.CACHE_DIR = before


# the folder -----------------------------------------------------------------------------------------------------------


@cache
def _source_hash(plain: bool) -> str:
    root = Path(__file__).parent
    settings = [getattr(config, name, None) for name in SETTINGS if name not in KEYED]
    digest = sha256(f"{PYTHON} {settings} {plain}".encode())
    paths = [path for pattern in SOURCES for path in root.glob(pattern)]
    sources = {path.relative_to(root.parent).as_posix(): path.read_bytes() for path in paths}
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


def _prepare(plain: bool) -> tuple[Path | None, bool]:
    """The folder of this version's kernels, created and marked as used, and whether it can be written. If not, one line
    is logged, and the folder is None unless it holds kernels.
    """
    folder = None
    try:
        base = _base()
        folder = base / f"diptych-{_source_hash(plain)}"
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
        some = kept or (not plain and companion() is not None)
        how = "new kernels are not kept" if some else "kernels are compiled in each process: no cache folder"
        logging.getLogger(__name__).warning("%s (%s)", how, problem)
        return folder if kept else None, False
    return folder, True


def _holds_kernels(folder: Path) -> bool:
    try:
        return next(folder.rglob(f"*{SUFFIX}"), None) is not None
    except OSError:
        return False


# private names of numba -----------------------------------------------------------------------------------------------


def _plain_wanted() -> bool:
    given = os.environ.get("DIPTYCH_PLAIN_KERNELS", "0")
    if given not in ("0", "1"):
        raise ValueError(f"DIPTYCH_PLAIN_KERNELS: expected 0 or 1, got {given!r}")
    return given == "1"


def _numbers(version: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", version)[:3]]


def _say_plain(reason: str) -> None:
    message = "plain kernels, whose first calls take longer: %s (private names of numba were tried last with %s)"
    logging.getLogger(__name__).warning(message, reason, TRIED)


_inside: Any = None
if _plain_wanted():
    _say_plain("DIPTYCH_PLAIN_KERNELS=1")
    _folder, _writable = _prepare(plain=True)
else:
    _folder, _writable = _prepare(plain=False)
    try:
        from accelerated import numba_inside as _inside

        if _numbers(numba.__version__) > _numbers(TRIED):
            from accelerated.compiled.trial import try_out

            try_out()
    except Exception as problem:
        _inside = None
        _say_plain(f"numba {numba.__version__}: {type(problem).__name__}: {problem}")
        _folder, _writable = _prepare(plain=True)
