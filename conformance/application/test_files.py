"""Readers on damaged files, on files that ask for much more than they have, and on files of earlier versions."""

from __future__ import annotations

import io
import itertools
import tracemalloc
import zipfile
from contextlib import contextmanager
from dataclasses import astuple, is_dataclass

import numpy as np
import pytest

import accelerated
import reference
from conformance.damage import damaged, spoil
from conformance.kept import CHECKPOINTS, FILES, FOLDERS, run
from conformance.readers import READERS
from conformance.specimens.pages import entries
from diptych.files import load_log, load_model, load_sequences, save_model
from diptych.files.columns import load_columns, read_columns
from diptych.files.localization import LocalizationImage, load_localization, save_localization
from diptych.files.treebank import load_treebank, read_sentences
from reference.archives import MOST_BYTES, read_npy, read_npz
from reference.models.token_templates import load_templates

COPIES, MEMORY = 200, 64 << 20
PANELS = [reference, accelerated]
pytestmark = pytest.mark.filterwarnings("ignore:.*no other integer occurs:UserWarning")  # of labels that are damaged


@contextmanager
def bounded(most=MEMORY):
    """Fails where more memory is taken meanwhile."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def npy(shape, dtype="<f8", content=b""):
    """A file in numpy's format, whatever it says of its shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_formats_of_numpy(tmp_path, rng, version):
    file, x = io.BytesIO(), rng.normal(size=(3, 2))
    np.lib.format.write_array(file, x, version=version)
    (tmp_path / "x.npy").write_bytes(file.getvalue())
    if version == (3, 0):
        with pytest.raises(ValueError, match=r"x.npy: .*: expected numpy's format 1.0 or 2.0, got 3.0"):
            read_npy(tmp_path / "x.npy")
    else:
        assert np.array_equal(read_npy(tmp_path / "x.npy"), x)


def zipped(members, method=zipfile.ZIP_DEFLATED, said=None):
    """An archive; said: the size of its first member in its directory, if it lies."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    whole = bytearray(file.getvalue())
    if said is not None:
        entry = whole.rindex(b"PK\1\2")
        whole[entry + 24 : entry + 28] = whole[22:26] = said.to_bytes(4, "little")
    return bytes(whole)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", ">i4", "<U3"])
def test_arrays_are_read_in_either_order_of_axes_and_of_bytes(tmp_path, order, dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    np.savez(tmp_path / "x.npz", x=np.asarray(x, order=order))
    found = read_npz(tmp_path / "x.npz", "file")["x"]
    assert np.array_equal(found, x) and found.dtype == x.dtype.newbyteorder("=")


@pytest.fixture
def given(tmp_path, name):
    """A reader, the path of a valid file, and its content."""
    write, read = READERS[name]
    if name.endswith(".png"):
        pytest.importorskip("matplotlib")
    write(tmp_path / name)
    read(tmp_path / name)
    return read, tmp_path / name, (tmp_path / name).read_bytes()


def refused(read, path, content):
    """Whether a content is refused, in one line that names the file."""
    path.write_bytes(content)
    try:
        read(path)
    except ValueError as problem:
        assert path.name in str(problem) and "\n" not in str(problem), (content, problem)
        return True
    return False


@pytest.mark.parametrize("name", READERS)
def test_files_that_are_cut_turned_or_of_another_kind_are_refused_by_name(given, name):
    """Cut at 24 places, with one byte turned over at sixteen; another kind of file, a folder, none."""
    read, path, whole = given
    cuts, turns = (np.linspace(0, len(whole) - 1, count, dtype=int) for count in (24, 16))
    cut = [refused(read, path, whole[:k]) for k in cuts]
    turned = [refused(read, path, whole[:k] + bytes([whole[k] ^ 255]) + whole[k + 1 :]) for k in turns]
    if path.suffix == ".npz" or name in ("a.npy", "a.pbm", "a.pgm"):  # they end with a directory or with pixels
        assert all(cut)
    if path.suffix == ".npz":  # its members have checksums
        assert sum(turned) > 5
    for content in (b"PK not", b"\x00\xff" * 8, b"[" * 100_000):
        refused(read, path, content)
    path.unlink()
    for _ in range(2):  # none, then a folder
        with pytest.raises((ValueError, OSError)) as error:
            read(path)
        assert name in str(error.value)
        path.mkdir(exist_ok=True)


@pytest.mark.parametrize(("entry", "message"), entries("unreadable.txt"))
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path, entry, message):
    reader, _, expression = entry.partition(" ")
    kind, _, names = reader.partition(":")
    content, path = eval(expression), tmp_path / (kind if kind in READERS else "a")
    path.write_bytes(content)
    if path.suffix == ".png":
        pytest.importorskip("matplotlib")
    read = {
        "columns": lambda: read_columns("a", content, tuple(names.split(",")) if names else None),
        "treebank": lambda: read_sentences("a", content),
        "unparsed": lambda: read_sentences("a", content, heads=False),
        "log": lambda: load_log(path),
    }
    with bounded(), pytest.raises(ValueError, match=message):
        read[kind]() if kind in read else READERS[kind][1](path)


@pytest.mark.parametrize(("entry", "message"), entries("spoiled.txt"))
def test_a_field_that_is_wrong_is_named_with_its_file(tmp_path, entry, message):
    name, _, change = entry.partition(": ")
    write, read = READERS[name]
    write(tmp_path / name)
    spoil(tmp_path / name, change)
    with bounded(), pytest.raises(ValueError, match=message) as error:
        read(tmp_path / name)
    assert name in str(error.value)


@pytest.mark.beyond("fuzz: thousands of damaged files")
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused_by_name(given, name):
    """Bytes turned over, cuts, spans twice; members of zips and values of JSON changed, checksums made to fit."""
    read, path, whole = given
    count = 0
    for content in itertools.islice(damaged(whole, np.random.default_rng(len(name))), COPIES):
        with bounded():
            count += refused(read, path, content)
    assert count > 0


@pytest.mark.parametrize("labels", [[1, 2, 3], [1001, 1003, 1002], [3, 0, 1], [10**15, 7, 7], [*range(40, 0, -1)]])
def test_labels_that_do_not_occur_are_no_labels(tmp_path, labels):
    """In a file without names, and a line says so; names that are given stay, whether they occur or not."""
    path, n = tmp_path / "a.npz", len(labels)
    np.savez(path, features=np.zeros((n, 3)), labels=labels, offsets=[0, n])
    with bounded(), pytest.warns(UserWarning, match=rf"a.npz: labels {min(labels)}, .*: no other integer occurs"):
        data = load_sequences(path)
    assert [int(data.labels[y]) for y in data.Y[0]] == labels and set(map(int, data.labels)) == set(labels)
    if max(labels) < 10:
        names = [f"n{k}" for k in range(max(labels) + 2)]
        np.savez(path, features=np.zeros((n, 3)), labels=labels, offsets=[0, n], names=names)
        assert load_sequences(path).labels == tuple(names) and load_sequences(path).Y[0].tolist() == labels


def test_what_inflates_is_bounded_and_the_bound_is_an_argument(tmp_path, reference_cli):
    """By the directory of an archive, and where a bit of a file is a number of eight bytes in memory."""
    path, model = tmp_path / "m.npz", reference.SequenceModel(128, [*"abcdefghijklmnopqrstuvwxyz"])
    save_model(path, model, np.zeros(model.size))
    with np.load(path) as archive:
        members = dict(archive)
    size = sum(x.nbytes for x in members.values())
    assert path.stat().st_size < size / 2 and size < MOST_BYTES
    with pytest.raises(ValueError, match=r"m.npz: its members hold \d+ bytes, more than most_bytes = 1000 and"):
        load_model(path, reference, most_bytes=1000)
    assert load_model(path, reference, most_bytes=2 * size)[0].settings() == model.settings()
    error = reference_cli.refused("predict", path, "letters", "--most-bytes", 1000)
    assert "most_bytes = 1000" in error and len(error.splitlines()) == 1
    np.savez(path, **members)  # nothing is inflated: the file itself is as large
    assert load_model(path, reference, most_bytes=0)[0].settings() == model.settings()
    n, message = 20_000, r"pixels: expected at most most_bytes = 1000000, .* got 20480000 bytes"
    np.savez_compressed(path, pixels=np.zeros((n, 16), np.uint8), labels=np.zeros(n, np.int8), offsets=[0, n])
    with bounded(), pytest.raises(ValueError, match=message):
        load_sequences(path, most_bytes=1_000_000)
    offsets = npy((2,), "<i8", np.array([0, 10**9]).tobytes())
    path.write_bytes(zipped({"features.npy": npy((10**9, 0)), "offsets.npy": offsets}))
    with bounded(), pytest.raises(ValueError, match=r"m.npz: features: expected at most most_bytes"):
        load_sequences(path, labelled=False)
    (tmp_path / "t.toml").write_text('templates = ["word[-99..99]"]')  # as wide as windows may be
    assert len(load_templates(tmp_path / "t.toml")) == 199


@pytest.mark.parametrize(
    ("sentences", "said", "bound", "message"),
    [
        *((250_000, said, {"most_bytes": 1 << 22}, "") for said in (100, 1 << 31, 1 << 21)),
        (250_000, None, {"most_bytes": 100_000}, ""),
        (1, 2**30 + 1, {}, ".*its members hold 1073741825 bytes"),  # a gibibyte where none is given
        (1, 2**30, {}, ".*a.txt: "),
    ],
)
def test_zips_of_text_are_bounded_whatever_their_directory_says(tmp_path, sentences, said, bound, message):
    (tmp_path / "a.zip").write_bytes(zipped({"a.txt": b"w l\n" * sentences}, said=said))
    for read in (load_columns, load_treebank):
        with bounded(MEMORY // 2), pytest.raises(ValueError, match=f"a.zip{message}"):
            read(f"{tmp_path / 'a.zip'}:a.txt", **bound)


def test_images_whose_numbers_wrap_around_are_refused(tmp_path):
    """Differences of offsets that are all >= 1 in 64 bits, and areas whose sum there is 0."""
    path, side = tmp_path / "a.boxes", 2**30
    pixels = "header['arrays']['pixels'] = {'dtype': '|u1', 'shape': [0], 'offset': 0}"
    for n, change, message in (
        (4, "offsets[:] = [0, 2**62, -(2**63), -(2**62), 4]", "image 0: offsets: expected at least one candidate"),
        (16, pixels, f"pixels: expected {16 * side**2}, as the sizes say, got 0"),
    ):
        save_localization(path, [LocalizationImage([[0, 0, 1, 1]], np.ones((1, 1, 1, 1)), (side, side))] * n, ["a"])
        spoil(path, change)
        with pytest.raises(ValueError, match=f"a.boxes: {message}"):
            load_localization(path)


def leaves(x):
    """The arrays, numbers and strings in a value, in order."""
    if isinstance(x, dict):
        x = [list(x), *x.values()]
    elif is_dataclass(x):
        x = astuple(x)
    return [leaf for each in x for leaf in leaves(each)] if isinstance(x, list | tuple) else [x]


def same(one, other):
    """Whether two values have equal leaves, arrays up to rounding."""
    one, other = leaves(one), leaves(other)
    close = lambda a, b: np.allclose(a, b, rtol=1e-9) if isinstance(a, np.ndarray | float) else a == b  # noqa: E731
    return len(one) == len(other) and all(map(close, one, other))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_before_has_what_this_version_writes(folder, name, tmp_path):
    write, read = READERS[name] if name != "log.jsonl" else (READERS[name][0], load_log)
    write(tmp_path / name)
    if name.endswith(" model.npz"):
        for panel in PANELS:
            (model, *others), (again, *theirs) = (load_model(each / name, panel) for each in (folder, tmp_path))
            assert same((model.settings(), *others), (again.settings(), *theirs))
    else:
        assert same(read(folder / name), read(tmp_path / name))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.__name__)
@pytest.mark.parametrize("learner", CHECKPOINTS)
def test_a_run_goes_on_from_a_checkpoint_of_before(folder, panel, learner):
    whole = run(panel, learner, 4)()
    resumed = run(panel, learner, 4)(resume=folder / f"{panel.__name__} {learner}.npz")
    assert resumed.nit == whole.nit and same(resumed.x, whole.x)
    assert [row.objective for row in resumed.history] == pytest.approx([row.objective for row in whole.history])
