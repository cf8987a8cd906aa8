"""Compiled kernels on disk: several processes at once, damaged files, a full disk; a numba without private names. The
answers are always those of the formula."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accelerated
from accelerated.kernel import TRIED

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
ALONE = "import sys\nsys.modules['diptych_kernels'] = None\n"  # without what may be installed
FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"


def started(cache, code=CALLS, place=ROOT, **settings):
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(cache), PYTHONPATH=str(place))
    environment |= {"DIPTYCH_PLAIN_KERNELS": "0", **settings}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    code = code if "PYTHONPATH" in settings else ALONE + code
    return subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=place, **pipes)


def said(process):
    """What a process that ended well printed, and the lines that it logged."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out, err.splitlines()


def lines(process):
    return said(process)[1]


def files(cache):
    """The files and when they were written: equal for two moments between which nothing was compiled."""
    found = (path for path in cache.rglob("*") if not path.is_dir())
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Filled by three processes at once."""
    folder = tmp_path_factory.mktemp("kernels")
    for process in [started(folder) for _ in range(3)]:
        assert lines(process) == []
    return folder


def test_what_processes_compiled_at_once_is_kept(cache):
    before = files(cache)
    assert len(before) == 2 and lines(started(cache)) == [] and files(cache) == before


@pytest.mark.parametrize("damage", ["cut", "turned", "swapped"])
def test_damaged_files_are_found_and_compiled_anew(cache, damage):
    """Empty or shorter; one bit of the code, and a folder in the place of a file; one for the other. One line says so,
    of however many; the next process finds everything."""
    paths = sorted(files(cache))
    one, other = (path.read_bytes() for path in paths)
    middle = len(one) // 2
    bit = one[:middle] + bytes([one[middle] ^ 1]) + one[middle + 1 :]
    contents = {"cut": (b"", other[:-1]), "turned": (bit, None), "swapped": (other, one)}[damage]
    for path, content in zip(paths, contents, strict=True):
        if content is None:
            path.unlink()
            path.mkdir()
            (path / "file").touch()
        else:
            path.write_bytes(content)
    damaged = files(cache)
    (line,) = lines(started(cache))
    assert "damaged kernel cache" in line and any(str(path) in line for path in paths)
    healed = files(cache)
    assert sorted(healed) == paths and not set(healed.items()) & set(damaged.items())
    if damage == "swapped":  # the others are healed alike
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
    """Without the imports of compiling, and one line says so. What is not kept is compiled, and not kept either."""
    shutil.copytree(cache, tmp_path / "kept")
    for gone in ((), sorted(files(tmp_path / "kept"))[:1]):
        for path in gone:
            path.unlink()
        before = files(tmp_path / "kept")
        folders = {path.parent for path in before} | {tmp_path / "kept"}
        for folder in folders:
            folder.chmod(0o555)
        compiled = f"\nimport sys\nassert ('numba.np.linalg' in sys.modules) is {bool(gone)}\n"
        (line,) = lines(started(tmp_path / "kept", READ_ONLY + CALLS + compiled))
        assert "new kernels are not kept" in line and str(tmp_path) in line and files(tmp_path / "kept") == before
        for folder in folders:
            folder.chmod(0o755)


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
    """If it is compiled again, its files are written anew."""
    code = f"import logging\nlogging.basicConfig(level=logging.INFO, format='%(message)s')\n{CALLS}\n{CALLS}"
    first = lines(started(tmp_path, code))
    names = [f"accelerated.compiled.rows.{name}" for name in ("gather_sum", "scatter_sum")]
    assert [line for line in first if "compiling" in line] == [
        f"compiling {name}: the first use on this machine" for name in names
    ]
    assert not any("compiling" in line for line in lines(started(cache, code)))
    before = files(tmp_path)
    code = f"{CALLS}\nfrom accelerated.compiled.rows import gather_sum\ngather_sum.recompile()\n{CALLS}"
    assert lines(started(tmp_path, code)) == []
    after = files(tmp_path)
    assert after.keys() == before.keys() and len(set(after.items()) - set(before.items())) == 1


# without private names of numba ---------------------------------------------------------------------------------------

PLAIN = {"DIPTYCH_PLAIN_KERNELS": "1"}
SAID = "plain kernels, whose first calls take longer: "


def run(code, cache, **settings):
    """What a process printed as JSON, and the lines that it logged."""
    out, logged = said(started(cache, code, **settings))
    return json.loads(out), logged


CHAIN = """
import json
import accelerated.kernel
import numpy as np
from accelerated import Chain

value, labels = Chain(np.eye(3), np.zeros((3, 3))).best()
print(json.dumps([accelerated.kernel.kernels_are_plain(), float(value), labels.tolist()]))
"""
NEWER = "import numba\nnumba.__version__ = '99.1.0dev0+2'\n"
GONE = """
import builtins
real = builtins.__import__

def without(name, globals=None, locals=None, fromlist=(), level=0):
    if globals and globals.get("__name__") == "accelerated.numba_inside" and "{0}" in (fromlist or ()):
        raise ImportError("cannot import name {0}")
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = without
"""
CHANGED = """
from numba.core.compiler import DefaultPassBuilder

define = DefaultPassBuilder.define_nopython_pipeline
DefaultPassBuilder.define_nopython_pipeline = staticmethod(lambda state: define(state))
"""


@pytest.fixture(scope="module")
def plain_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("plain")


def test_plain_kernels_are_kept(plain_cache):
    answer, (line,) = run(CHAIN, plain_cache, **PLAIN)
    assert answer == [True, 3.0, [0, 1, 2]] and line.startswith(SAID + "DIPTYCH_PLAIN_KERNELS=1") and TRIED in line
    kept = files(plain_cache)
    assert kept and run(CHAIN, plain_cache, **PLAIN)[0] == answer and files(plain_cache) == kept


@pytest.mark.parametrize("name", ["NativeLowering", "FunctionCache", "rtsys", None])
def test_without_a_private_name_kernels_are_plain(plain_cache, name):
    """That a name means another thing is noticed in versions that are newer than the one tried last."""
    before, reason = (GONE.format(name), f"cannot import name {name}") if name else (NEWER + CHANGED, "99.1.0")
    answer, (line,) = run(before + CHAIN, plain_cache)
    assert answer == [True, 3.0, [0, 1, 2]]
    assert line.startswith(f"{SAID}numba ") and reason in line and TRIED in line


def test_a_newer_version_that_behaves_is_not_plain(plain_cache):
    assert run(NEWER + CHAIN, plain_cache) == ([False, 3.0, [0, 1, 2]], [])


def test_the_setting_is_0_or_1(tmp_path):
    process = started(tmp_path, "import accelerated.kernel", DIPTYCH_PLAIN_KERNELS="yes")
    assert "ValueError: DIPTYCH_PLAIN_KERNELS: expected 0 or 1, got 'yes'" in process.communicate()[1]
