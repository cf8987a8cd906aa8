"""Compiled kernels on disk: several processes at once, damaged files, a full disk. The answers are always those of the
formula."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accelerated

pytestmark = pytest.mark.beyond("starts processes that compile")

ROOT = Path(accelerated.__file__).parent.parent
# two kernels, two files: the sums of rows 0 and 1 of W, and of row 1 alone; and the adjoint
CALLS = """
import numpy as np
from accelerated.arrays import Rows, gather_sum, scatter_sum

rows = Rows.of([[0, 1], [1]], width=2)
assert gather_sum(rows, np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[4.0, 6.0], [3.0, 4.0]]
assert scatter_sum(rows, np.array([[1.0, 0.0], [0.0, 1.0]])).tolist() == [[1.0, 0.0], [1.0, 1.0]]
"""
FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"


def started(cache, code=CALLS, place=ROOT, **settings):
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(cache), PYTHONPATH=str(place), **settings)
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=environment, cwd=place)


def lines(process):
    """What a process that ended well said."""
    _, err = process.communicate()
    assert process.returncode == 0, err
    return err.splitlines()


def files(cache):
    """The files and when they were written: equal for two moments between which nothing was compiled."""
    found = (path for path in cache.rglob("*") if not path.is_dir())
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Filled by eight processes at once."""
    folder = tmp_path_factory.mktemp("kernels")
    for process in [started(folder) for _ in range(8)]:
        assert lines(process) == []
    return folder


def test_what_eight_processes_compiled_at_once_is_kept(cache):
    before = files(cache)
    assert len(before) == 2 and lines(started(cache)) == [] and files(cache) == before


def test_kept_kernels_are_loaded_without_the_imports_of_compiling(cache, tmp_path):
    """Where one is kept and the other is not, the other is compiled."""
    imported = "\nimport sys\nassert ('numba.np.linalg' in sys.modules) is {}\n"
    assert lines(started(cache, CALLS + imported.format(False))) == []
    for k in range(2):
        partly = tmp_path / str(k)
        shutil.copytree(cache, partly)
        sorted(files(partly))[k].unlink()
        assert lines(started(partly, CALLS + imported.format(True))) == [] and len(files(partly)) == 2


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def turned(path):
    """One bit of the code."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def folder(path):
    path.unlink()
    path.mkdir()
    (path / "file").write_text("")


def swapped(path, other):
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


@pytest.mark.parametrize("damages", [(empty, cut), (turned, folder), (swapped,)])
def test_damaged_files_are_found_and_compiled_anew(cache, damages):
    """One line says so, of however many; the next process finds everything."""
    before = sorted(files(cache))
    if damages == (swapped,):
        swapped(*before)
    else:
        for damage, path in zip(damages, before, strict=True):
            damage(path)
    damaged = files(cache)
    (line,) = lines(started(cache))
    assert "damaged kernel cache" in line and any(str(path) in line for path in before)
    healed = files(cache)
    assert sorted(healed) == before and not set(healed.items()) & set(damaged.items())
    if damages == (swapped,):  # the others are healed alike
        assert lines(started(cache)) == [] and files(cache) == healed


def test_a_full_disk_keeps_no_kernels(tmp_path):
    pytest.importorskip("resource")
    (line,) = lines(started(tmp_path, FULL + CALLS))
    assert "compiled kernels are not kept" in line and "File too large" in line and str(tmp_path) in line
    assert not files(tmp_path)


READ_ONLY = """
import ctypes

libc = ctypes.CDLL(None)
if libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) != 0:  # root may write everywhere
    raise SystemExit("capset failed")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="gives up the rights of root by a call of Linux")
def test_kept_kernels_of_a_folder_that_is_not_writable_are_used(cache, tmp_path):
    """One line says so. What is not kept is compiled, and not kept either; a folder without kernels is none."""
    shutil.copytree(cache, tmp_path / "kept")
    (tmp_path / "none").mkdir()
    for gone in ((), sorted(files(tmp_path / "kept"))[:1]):
        for path in gone:
            path.unlink()
        before = files(tmp_path / "kept")
        for folder in {path.parent for path in before} | {tmp_path / "kept", tmp_path / "none"}:
            folder.chmod(0o555)
        compiled = f"\nimport sys\nassert ('numba.np.linalg' in sys.modules) is {bool(gone)}\n"
        (line,) = lines(started(tmp_path / "kept", READ_ONLY + CALLS + compiled))
        assert "new kernels are not kept" in line and str(tmp_path) in line and files(tmp_path / "kept") == before
        (line,) = lines(started(tmp_path / "none", READ_ONLY + CALLS))
        assert "no cache folder" in line and not files(tmp_path / "none")
        for folder in (*(tmp_path / "kept").iterdir(), tmp_path / "kept", tmp_path / "none"):
            folder.chmod(0o755)


def test_recompiling_a_kernel_writes_its_files_anew(cache, tmp_path):
    shutil.copytree(cache, tmp_path / "kept")
    before = files(tmp_path / "kept")
    code = f"{CALLS}\nfrom accelerated.compiled.rows import gather_sum\ngather_sum.recompile()\n{CALLS}"
    assert lines(started(tmp_path / "kept", code)) == []
    after = files(tmp_path / "kept")
    assert after.keys() == before.keys() and len(set(after.items()) - set(before.items())) == 1


def copied(folder):
    """The panels in another place, as another virtual environment has them."""
    for package in ("accelerated", "reference"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_the_same_sources_elsewhere_compile_nothing(cache, tmp_path):
    """Copies of other times, too: they are known by what they say. An edit of a constant that kernels take from the
    reference, or another setting of numba, compiles anew."""
    place, before = copied(tmp_path / "place"), files(cache)
    for path in place.rglob("*.py"):
        os.utime(path, (1e9, 1e9))
    assert lines(started(cache, place=place)) == [] and files(cache) == before
    assert lines(started(cache, place=place, NUMBA_OPT="2")) == []
    (folder,) = {path.parent for path in files(cache)} - {path.parent for path in before}
    constants = place / "reference" / "optimizers" / "simplex.py"
    constants.write_text(constants.read_text().replace("STEPS = ", "STEPS = 1 + "))
    assert lines(started(cache, place=place)) == []
    assert len({path.parent for path in files(cache)} - {path.parent for path in before} - {folder}) == 1


def test_a_kernel_that_is_compiled_is_logged_once(cache, tmp_path):
    code = f"import logging\nlogging.basicConfig(level=logging.INFO, format='%(message)s')\n{CALLS}\n{CALLS}"
    first = lines(started(tmp_path, code))
    names = [f"accelerated.compiled.rows.{name}" for name in ("gather_sum", "scatter_sum")]
    assert [line for line in first if "compiling" in line] == [
        f"compiling {name}: the first use on this machine" for name in names
    ]
    assert not any("compiling" in line for line in lines(started(cache, code)))
