"""Files of kernels that were compiled elsewhere, for processors of the level x86-64-v3 (AVX2 and what came before it).

The wheel ``diptych-kernels`` brings one, and ``diptych warm --to FILE`` writes one. A file serves one version of numba,
one kind of Python, one system and the sources that it was compiled from, on processors that have all FEATURES, as long
as no setting of numba that changes code is changed. Its code is run, so trust in a file is trust in where it comes
from: digests reveal damage, not forgery.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_default_triple, get_host_cpu_features

from reference.files import save_bytes

try:
    import lzma
except ImportError:  # a Python that was built without it
    lzma = None  # type: ignore[assignment]

__all__ = ["FOR_LEVEL", "LEVEL", "PROCESSOR", "PYTHON", "SETTINGS", "Archive", "companion", "obstacle", "save_archive"]

LEVEL = "x86-64-v3"
FEATURES = (
    *("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),  # what v2 adds to x86-64
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),  # what v3 adds to v2
)
PROCESSOR = LEVEL, ",".join(f"+{name}" for name in FEATURES)  # name and features, as numba's keys have them
FOR_LEVEL = dict(zip(("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"), PROCESSOR, strict=True))  # compile for the level
PYTHON = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"  # free-threaded: with a t
SETTINGS: dict[str, Any] = {  # of numba: those that change code, and their defaults
    "BOUNDSCHECK": None,
    "OPT": 3,
    "LOOP_VECTORIZE": 1,
    "SLP_VECTORIZE": 0,
    "USING_SVML": False,
    "ENABLE_AVX": True,  # from here on, numba's own keys tell them apart
    "CPU_NAME": None,
    "CPU_FEATURES": None,
}
PACKAGE, NAME = "diptych_kernels", f"{LEVEL}.kernels"  # of the companion wheel, and its file
OPENING = b"kernels of diptych, 1\n"  # the number is that of the format
DIGEST = sha256


def companion() -> Path | None:
    """The file that the wheel ``diptych-kernels`` has installed, or None."""
    spec = importlib.util.find_spec(PACKAGE)
    return Path(spec.origin).with_name(NAME) if spec is not None and spec.origin else None


@cache
def obstacle() -> str | None:
    """Why code for the level is not used in this process; None if it is."""
    if lzma is None:
        return "this Python has no module lzma"
    for name, usual in SETTINGS.items():
        if getattr(numba.config, name, usual) != usual:
            return f"numba's setting {name} is changed"
    try:
        features = get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this processor
        features = {}
    lacking = [name for name in FEATURES if not features.get(name)]
    return f"they are for {LEVEL}, and this processor lacks {', '.join(lacking)}" if lacking else None


def _here(stamp: str) -> dict[str, str]:
    """What a file must be made for, to be used here. stamp: the hash of the sources."""
    system = get_default_triple()
    return {"numba": numba.__version__, "Python": PYTHON, "system": system, "level": LEVEL, "sources": stamp}


def save_archive(path: str | Path, stamp: str, kernels: Mapping[str, bytes]) -> None:
    """Write a file of kernels, given by the names of their files. Raises OSError."""
    packed = {name: lzma.compress(kernels[name]) for name in sorted(kernels)}
    sizes = {name: len(content) for name, content in packed.items()}
    head = json.dumps({"made for": _here(stamp), "sizes": sizes}).encode() + b"\n"
    rest = head + b"".join(packed.values())
    save_bytes(path, OPENING + DIGEST(rest).digest() + rest)


class Archive:
    """A file of kernels, in memory: the file may be replaced while the process runs.

    Raises OSError if it cannot be read, and ValueError if it is damaged or made for anything else than what is here.
    """

    def __init__(self, path: str | Path, stamp: str) -> None:
        self.path = Path(path)
        content = self.path.read_bytes()
        start = len(OPENING) + DIGEST().digest_size
        if not content.startswith(OPENING):
            raise ValueError(f"{path}: expected a file that begins with {OPENING.decode()!r}")
        if DIGEST(memoryview(content)[start:]).digest() != content[len(OPENING) : start]:
            raise ValueError(f"{path}: damaged, not as it was written")
        if reason := obstacle():
            raise ValueError(f"{path}: {reason}")
        end = content.index(b"\n", start) + 1
        head = json.loads(content[start:end])
        here = _here(stamp)
        for name, theirs in head["made for"].items():
            if theirs != here[name]:
                raise ValueError(f"{path}: made for {name} {theirs}, and here is {here[name]}")
        self._content, self._places = memoryview(content), dict[str, slice]()
        for name, size in head["sizes"].items():
            self._places[name] = slice(end, end + size)
            end += size

    @property
    def names(self) -> list[str]:
        """The names of the kernels' files."""
        return list(self._places)

    def read(self, name: str) -> bytes | None:
        """The content of a kernel's file; None if there is none of this name."""
        place = self._places.get(name)
        return None if place is None else lzma.decompress(self._content[place])
