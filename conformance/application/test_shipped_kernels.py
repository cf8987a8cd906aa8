"""Kernels that arrive compiled: used where they fit, and where not, one line says why and the answers are the same."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import zipfile

import numba
import pytest

from accelerated import kernel_archive
from accelerated.kernel import kernels_are_plain, source_hash
from accelerated.kernel_archive import FOR_LEVEL, Archive, obstacle, save_archive
from conformance.panels.test_kernel_cache import CALLS, GONE, PLAIN, READ_ONLY, ROOT, SAID, files, lines, started
from diptych import warm
from diptych.commands import others
from diptych.kernels_wheel import build

pytestmark = [
    pytest.mark.beyond("starts processes that compile"),
    pytest.mark.skipif(kernels_are_plain() or obstacle() is not None, reason=f"nothing is shipped: {obstacle()}"),
]

NOTHING_COMPILED = "\nimport sys\nassert 'numba.np.linalg' not in sys.modules\n"  # which compiling imports
UNUSED = "shipped kernels are not used, kernels are compiled: "


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The two kernels of CALLS for the level, by the names of their files."""
    folder = tmp_path_factory.mktemp("level")
    assert lines(started(folder, **FOR_LEVEL)) == []
    return {path.name: path.read_bytes() for path in files(folder)}


@pytest.fixture
def wheel(kernels, tmp_path):
    """The file of an installed companion."""
    path = tmp_path / "site" / kernel_archive.PACKAGE / kernel_archive.NAME
    path.parent.mkdir(parents=True)
    (path.parent / "__init__.py").touch()
    save_archive(path, source_hash(), kernels)
    return path


def beside(path, cache, code=CALLS, **settings):
    """A process that finds the companion."""
    places = os.pathsep.join([str(ROOT), str(path.parents[1])])
    return started(cache, code, **{"PYTHONPATH": places, **settings})


def test_nothing_is_compiled_from_a_cache_that_is_empty_or_cannot_be(wheel, tmp_path):
    assert lines(beside(wheel, tmp_path / "cache", CALLS + NOTHING_COMPILED)) == [] and not files(tmp_path / "cache")
    (line,) = lines(beside(wheel, wheel / "below a file", CALLS + NOTHING_COMPILED))
    assert line.startswith("new kernels are not kept")


def test_the_users_own_come_first_and_a_kernel_that_was_not_shipped_is_kept_beside(wheel, kernels, tmp_path):
    """Nothing is said of a damaged wheel that nobody needs."""
    save_archive(wheel, source_hash(), dict(sorted(kernels.items())[:1]))
    assert lines(beside(wheel, tmp_path / "cache")) == [] and len(files(tmp_path / "cache")) == 1
    shutil.rmtree(tmp_path / "cache")
    assert lines(started(tmp_path / "cache")) == [] and len(files(tmp_path / "cache")) == 2
    wheel.write_bytes(b"")
    assert lines(beside(wheel, tmp_path / "cache", CALLS + NOTHING_COMPILED)) == []


WITHOUT_AVX2 = """
import llvmlite.binding

features = llvmlite.binding.get_host_cpu_features()
features["avx2"] = False
llvmlite.binding.get_host_cpu_features = lambda: features
"""
SETTINGS = {"NUMBA_OPT": "2", "NUMBA_BOUNDSCHECK": "1", "NUMBA_ENABLE_AVX": "0", "NUMBA_CPU_NAME": "x86-64"}


@pytest.mark.parametrize("misfit", ["numba", "Python", "sources", "avx2", *SETTINGS])
def test_what_does_not_fit_is_compiled(wheel, kernels, tmp_path, monkeypatch, misfit):
    settings = {misfit: SETTINGS[misfit]} if misfit in SETTINGS else {}
    with monkeypatch.context() as patched:
        if misfit == "numba":
            patched.setattr(numba, "__version__", "0.1.0")
        if misfit == "Python":
            patched.setattr(kernel_archive, "PYTHON", "cpython-39")
        save_archive(wheel, "0123456789abcdef" if misfit == "sources" else source_hash(), kernels)
    (line,) = lines(beside(wheel, tmp_path / "cache", (WITHOUT_AVX2 if misfit == "avx2" else "") + CALLS, **settings))
    assert line.startswith(f"{UNUSED}{wheel}: ") and misfit.removeprefix("NUMBA_") in line
    assert len(files(tmp_path / "cache")) == 2


@pytest.mark.parametrize("damage", ["cut", "turned", "empty", "folder", "swapped"])
def test_a_damaged_file_is_compiled(wheel, kernels, tmp_path, damage):
    """One bit of it; a folder in its place; whole, but with one kernel in the place of the other."""
    content = wheel.read_bytes()
    if damage == "folder":
        wheel.unlink()
        wheel.mkdir()
    elif damage == "swapped":
        save_archive(wheel, source_hash(), dict(zip(kernels, reversed(kernels.values()), strict=True)))
    else:
        half = len(content) // 2
        turned = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        wheel.write_bytes({"cut": content[:-1], "turned": turned, "empty": b""}[damage])
    (line,) = lines(beside(wheel, tmp_path / "cache"))
    assert str(wheel) in line and line.startswith("damaged kernel cache" if damage == "swapped" else UNUSED)
    assert len(files(tmp_path / "cache")) == 2
    assert lines(beside(wheel, tmp_path / "cache", CALLS + NOTHING_COMPILED)) == []


def test_recompile_compiles_and_plain_kernels_need_no_file(wheel, tmp_path):
    again = "from accelerated.compiled.rows import gather_sum\ngather_sum.recompile()\n"
    assert lines(beside(wheel, tmp_path / "cache", f"{CALLS}{again}{CALLS}")) == []
    (path,) = files(tmp_path / "cache")
    assert "gather_sum" in path.name
    for code, settings in ((CALLS, PLAIN), (GONE.format("rtsys") + CALLS, {})):
        (line,) = lines(beside(wheel, tmp_path / "plain", code, **settings))
        assert line.startswith(SAID)


@pytest.mark.skipif(sys.platform != "linux", reason="gives up the rights of root by a call of Linux")
def test_the_wheel_is_installed_read_only_and_compiles_nothing(wheel, tmp_path):
    made, place = build(wheel, tmp_path), tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place)]
    subprocess.run([*pip, str(made)], check=True)
    with zipfile.ZipFile(made) as opened:
        metadata = opened.read(next(name for name in opened.namelist() if name.endswith("METADATA"))).decode()
    assert f"Requires-Dist: numba=={numba.__version__}\n" in metadata
    installed = place / kernel_archive.PACKAGE / kernel_archive.NAME
    assert installed.read_bytes() == wheel.read_bytes()
    for folder in (place, installed.parent):
        folder.chmod(0o555)
    assert lines(beside(installed, tmp_path / "cache", READ_ONLY + CALLS + NOTHING_COMPILED)) == []
    for folder in (place, installed.parent):
        folder.chmod(0o755)


# files of a site ------------------------------------------------------------------------------------------------------


def test_a_file_of_first_calls_serves_an_empty_cache(tmp_path, monkeypatch):
    """Through the commands, with one first call in place of all."""
    file, name = str(tmp_path / "site.kernels"), "Chain: best, K best, sums"
    before = dict(os.environ)
    monkeypatch.setattr(others, "warm", lambda processes: warm.warm(processes, [name]))
    report = others.Warm(processes=1, to=file).run(None).fields
    assert os.environ == before and report["calls"] == [name] and report["bytes"] == os.path.getsize(file)
    names = set(Archive(file, source_hash()).names)
    assert report["compiled"] == len(names) > 3
    for content in map(Archive(file, source_hash()).read, names):  # of its parts it has no names
        ((_, _, (code, _)), *_) = pickle.loads(content[32:])[1]
        assert code.count(b"_ZN") == 4  # its own, its wrapper's, its environment's and that in a message
    again = others.Warm(processes=1, to=file).run(None).fields  # from what the file has
    assert again["compiled"] == 0 and set(Archive(file, source_hash()).names) == names
    code = f"import sys\nfrom diptych.commands.main import main\nsys.exit(main(['warm', '--from', {file!r}]))"
    process = started(tmp_path / "cache", code)
    out, err = process.communicate()
    assert process.returncode == 0 and out.startswith(f"{len(names)} kernels of {file} kept in "), err
    kept = files(tmp_path / "cache")
    assert {path.name for path in kept} == names
    call = f"from diptych.warm import first_call\nfirst_call({name!r})" + NOTHING_COMPILED
    assert lines(started(tmp_path / "cache", call)) == [] and files(tmp_path / "cache") == kept


def test_what_cannot_be_kept_is_refused(wheel, kernels, tmp_path, cli, monkeypatch):
    assert "no such file" in cli.refused("warm", "--from", tmp_path / "none")
    (tmp_path / "text").write_text("words\n")
    assert "expected a file that begins with 'kernels of diptych" in cli.refused("warm", "--from", tmp_path / "text")
    wheel.write_bytes(wheel.read_bytes()[:-1])
    assert f"{wheel}: damaged" in cli.refused("warm", "--from", wheel)
    save_archive(wheel, "0123456789abcdef", kernels)
    assert "made for sources 0123456789abcdef, and here is " in cli.refused("warm", "--from", wheel)
    assert "expected one of them" in cli.refused("warm", "--from", wheel, "--to", tmp_path / "file")
    monkeypatch.setattr(warm, "FIRST_CALLS", {})
    monkeypatch.setattr("accelerated.kernel.kernels_are_plain", lambda: True)
    for option in ("--from", "--to"):
        assert f"{option}: kernels are plain here" in cli.refused("warm", option, wheel)
