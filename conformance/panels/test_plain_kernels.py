"""Kernels with and without private names of numba give the same answers; a numba that lacks one is no error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import accelerated
from accelerated.compiled.structures.chain import viterbi_range
from accelerated.kernel import TRIED, kernels_are_plain

ROOT = Path(accelerated.__file__).parent
PLAIN = {"DIPTYCH_PLAIN_KERNELS": "1"}
SAID = "plain kernels, whose first calls take longer: "
ANSWERS = """
import json
import accelerated as sp
from accelerated.kernel import kernels_are_plain
import numpy as np

rng = np.random.default_rng(0)
chain = sp.Chain(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))
model = sp.SequenceModel(3, 2)
loss = sp.StructuralHinge(model, model.pack([rng.normal(size=(4, 3)) for _ in range(5)], [[0, 1, 1, 0]] * 5))
answers = [*chain.best(), *chain.expectation()[1][:2], *loss.value_and_gradient(rng.normal(size=model.size))]
print(json.dumps([kernels_are_plain(), *(np.asarray(x).tolist() for x in answers)]))
"""


def run(code, cache, **settings):
    """What a process with these settings printed, as JSON, and the lines that it logged."""
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(cache), PYTHONPATH=str(ROOT.parent))
    environment = {**environment, "DIPTYCH_PLAIN_KERNELS": "0", **settings}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr.splitlines()


def release(version):
    return [int(digits) for digits in re.findall(r"\d+", version)[:3]]


def test_versions_that_were_tried_need_no_plain_kernels():
    """A newer version must be plain or fast, and is what the rest of the suite runs on."""
    plain = type(viterbi_range) is type(numba.njit(test_versions_that_were_tried_need_no_plain_kernels))
    assert plain == kernels_are_plain()
    if release(numba.__version__) <= release(TRIED):
        assert plain == (os.environ.get("DIPTYCH_PLAIN_KERNELS", "0") == "1")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.beyond("starts processes that compile")
def test_plain_kernels_give_the_same_answers_and_are_kept(cache):
    (plain, *got), lines = run(ANSWERS, cache, **PLAIN)
    (line,) = lines
    assert plain and line.startswith(SAID + "DIPTYCH_PLAIN_KERNELS=1") and TRIED in line
    (fast, *expected), lines = run(ANSWERS, cache)
    assert not (fast and release(numba.__version__) <= release(TRIED)) and len(lines) == fast
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nbc")}
    assert run(ANSWERS, cache, **PLAIN)[0] == [True, *got]
    assert kept == {path: path.stat().st_mtime_ns for path in cache.rglob("*.nbc")}


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


@pytest.mark.beyond("starts processes that compile")
@pytest.mark.parametrize(
    ("before", "reason"),
    [
        *((GONE.format(name), f"cannot import name {name}") for name in ("NativeLowering", "FunctionCache", "rtsys")),
        (NEWER + CHANGED, "99.1.0"),
    ],
    ids=["NativeLowering", "FunctionCache", "rtsys", "changed"],
)
def test_without_a_private_name_kernels_are_plain(cache, before, reason):
    """That a name means another thing is noticed in versions that are newer than the one tried last."""
    answer, (line,) = run(before + CHAIN, cache)
    assert answer == [True, 3.0, [0, 1, 2]]
    assert line.startswith(f"{SAID}numba ") and reason in line and TRIED in line


@pytest.mark.beyond("starts processes that compile")
def test_a_newer_version_that_behaves_is_not_plain(cache):
    assert run(NEWER + CHAIN, cache) == ([False, 3.0, [0, 1, 2]], [])


@pytest.mark.beyond("starts processes")
def test_the_setting_is_0_or_1():
    done = subprocess.run(
        [sys.executable, "-c", "import accelerated"],
        capture_output=True,
        text=True,
        env=dict(os.environ, DIPTYCH_PLAIN_KERNELS="yes"),
    )
    assert "ValueError: DIPTYCH_PLAIN_KERNELS: expected 0 or 1, got 'yes'" in done.stderr


def imported(text):
    return re.findall(r"^(?:from|import) (\w+[.\w]*)", text, re.MULTILINE)


def test_one_module_has_all_private_names_of_numba():
    public = {"numba", "numba.extending", "llvmlite", "llvmlite.binding"}
    for path in ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        private = {name for name in imported(text) if name.split(".")[0] in ("numba", "llvmlite")} - public
        assert not private or path.name == "numba_inside.py", f"{path}: {private}"


def test_kernels_are_made_of_the_files_that_their_cache_is_named_by():
    """Kernels are in ``compiled``, which imports from the panel nothing else but how they are compiled."""
    for path in ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(ROOT / "compiled"):
            ours = {name for name in imported(text) if name.split(".")[0] == "accelerated"}
            assert all(name.startswith(("accelerated.compiled", "accelerated.kernel")) for name in ours), path
        elif path.name != "kernel.py":
            assert not re.search(r"^\s*@(kernel|inlined|answers|overload|intrinsic|njit)\b", text, re.MULTILINE), path
