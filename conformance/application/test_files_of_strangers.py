"""Files that ask for much more than they have: refused before there is an array, by a bound that an argument raises."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

import reference as r
from conformance.damage import spoil
from conformance.specimens.pages import entries
from diptych.files import (
    LocalizationImage,
    load_localization,
    load_model,
    load_sequences,
    save_localization,
    save_model,
)
from diptych.files.columns import load_columns
from diptych.files.treebank import load_treebank
from diptych.pictures.grids import read_pictures
from reference.archives import MOST_BYTES
from reference.models.token_templates import load_templates

SMALL = 32 << 20


@pytest.fixture
def small():
    """A block that takes little memory."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < SMALL


def npy(shape, dtype="<f8", content=b""):
    """A file in numpy's format, whatever it says of its shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def members(path):
    with np.load(path) as archive:
        return dict(archive)


def bomb(path, member, content, said=None):
    """A zip whose member inflates to far more than the file; said: the size in its directory, if it lies."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    if said is not None:
        whole = bytearray(path.read_bytes())
        entry = whole.rindex(b"PK\1\2")
        whole[entry + 24 : entry + 28] = whole[22:26] = said.to_bytes(4, "little")
        path.write_bytes(whole)


@pytest.mark.parametrize("labels", [[1, 2, 3], [1001, 1003, 1002], [3, 0, 1], [10**15, 7, 7], [*range(40, 0, -1)]])
def test_labels_that_do_not_occur_are_no_labels(tmp_path, small, labels):
    """In a file without names, and a line says so; names that are given stay, whether they occur or not."""
    path, n = tmp_path / "a.npz", len(labels)
    np.savez(path, features=np.zeros((n, 3)), labels=labels, offsets=[0, n])
    with pytest.warns(UserWarning, match=rf"a.npz: labels {min(labels)}, .*: no other integer occurs"):
        data = load_sequences(path)
    assert [int(data.labels[y]) for y in data.Y[0]] == labels and set(map(int, data.labels)) == set(labels)
    if max(labels) < 10:
        names = [f"n{k}" for k in range(max(labels) + 2)]
        np.savez(path, features=np.zeros((n, 3)), labels=labels, offsets=[0, n], names=names)
        assert load_sequences(path).labels == tuple(names) and load_sequences(path).Y[0].tolist() == labels


@pytest.mark.parametrize("labels", [20_000, [str(k) for k in range(20_000)]])
@pytest.mark.parametrize("kind", ["SequenceModel", "MulticlassModel", "TreeModel"])
def test_labels_are_held_against_the_header_before_there_is_a_model(tmp_path, small, kind, labels):
    path, model = tmp_path / "m.npz", getattr(r, kind)(0, 2)
    save_model(path, model, np.zeros(model.size))
    fields = members(path)
    header = json.loads(str(fields["header"]))
    header["settings"]["labels"] = labels
    for cost in ([[0, 1], [1, 0]], None, [[0.0]] * 20_000):
        header["settings"]["cost"] = cost
        np.savez(path, **{**fields, "header": json.dumps(header)})
        with pytest.raises(ValueError, match=r"m.npz: damaged header: settings: (labels|cost): expected"):
            load_model(path, r)


@pytest.mark.parametrize("shape", [(10**18,), (10**9, 10**9), (3, 4), (0, 10**30), (True, 2), (-1, 2)])
def test_shapes_are_held_against_the_bytes(tmp_path, small, shape):
    for name, write in (
        ("x.npy", lambda path, x: path.write_bytes(x)),
        ("x.npz", lambda path, x: bomb(path, "one.npy", x)),
    ):
        write(tmp_path / name, npy(shape, content=bytes(16)))
        with pytest.raises(ValueError, match=name):
            read_pictures(tmp_path / name)


@pytest.mark.parametrize(("entry", "message"), entries("wrong_members.txt"))
def test_members_that_are_no_arrays_are_named(tmp_path, entry, message):
    bomb(tmp_path / "a.npz", "labels.npy", eval(entry))
    with pytest.raises(ValueError, match=f"a.npz: .*{message}"):
        load_sequences(tmp_path / "a.npz")


def test_what_inflates_is_bounded_and_the_bound_is_an_argument(tmp_path, reference_cli):
    """Both by the directory of the archive; the command line says and raises the bound as well."""
    path, model = tmp_path / "m.npz", r.SequenceModel(128, [*"abcdefghijklmnopqrstuvwxyz"])
    save_model(path, model, np.zeros(model.size))
    size = sum(x.nbytes for x in members(path).values())
    assert path.stat().st_size < size / 2 and size < MOST_BYTES
    with pytest.raises(ValueError, match=r"m.npz: its members hold \d+ bytes, more than most_bytes = 1000 and"):
        load_model(path, r, most_bytes=1000)
    assert load_model(path, r, most_bytes=2 * size)[0].settings() == model.settings()
    status, _, err = reference_cli.run("predict", path, "letters", "--most-bytes", 1000)
    assert status == 2 and "most_bytes = 1000" in err and len(err.splitlines()) == 1
    np.savez(path, **members(path))  # nothing is inflated: the file itself is as large
    assert load_model(path, r, most_bytes=0)[0].settings() == model.settings()


def test_features_in_memory_are_bounded_too(tmp_path, small):
    """A bit of a compressed file is a number of eight bytes in memory."""
    path = tmp_path / "a.npz"
    n = 20_000
    np.savez_compressed(path, pixels=np.zeros((n, 16), np.uint8), labels=np.zeros(n, np.int8), offsets=[0, n])
    with pytest.raises(
        ValueError, match=r"a.npz: pixels: expected at most most_bytes = 1000000, .* got 20480000 bytes"
    ):
        load_sequences(path, most_bytes=1_000_000)
    bomb(path, "features.npy", npy((10**9, 0)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("offsets.npy", npy((2,), "<i8", np.array([0, 10**9]).tobytes()))
    with pytest.raises(ValueError, match=r"a.npz: features: expected at most most_bytes"):
        load_sequences(path, labelled=False)


@pytest.mark.parametrize("said", [None, 100, 1 << 31, 1 << 21])
def test_zips_of_text_are_bounded_whatever_their_directory_says(tmp_path, small, said):
    path = tmp_path / "a.zip"
    bomb(path, "a.txt", b"w l\n" * 250_000, said)
    for read in (load_columns, load_treebank):
        with pytest.raises(ValueError, match=r"a.zip"):
            read(f"{path}:a.txt", most_bytes=100_000 if said is None else 1 << 22)


def test_the_bound_is_a_gibibyte_where_none_is_given(tmp_path, small):
    """Of a byte more than that the directory is not believed; of that much the member, which is shorter."""
    path = tmp_path / "a.zip"
    for said, message in ((2**30 + 1, "its members hold 1073741825 bytes"), (2**30, "a.txt: ")):
        bomb(path, "a.txt", b"w l\n", said)
        for read in (load_columns, load_treebank):
            with pytest.raises(ValueError, match=rf"a.zip: .*{message}"):
                read(f"{path}:a.txt")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_inflate_at_once_are_refused(tmp_path, method):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.txt", b"w l\n")
    with pytest.raises(ValueError, match=r"a.txt: expected a member that is stored or deflated"):
        load_columns(f"{path}:a.txt")
    with pytest.raises(ValueError, match=r"a.txt: expected a member that is stored or deflated"):
        load_treebank(str(path))


def test_templates_are_bounded(tmp_path):
    (tmp_path / "t.toml").write_text('templates = ["word[-99..99]"]')
    assert len(load_templates(tmp_path / "t.toml")) == 199


def test_images_whose_numbers_wrap_around_are_refused(tmp_path):
    """Differences of offsets that are all >= 1 in 64 bits, and areas whose sum there is 0."""
    path, side = tmp_path / "a.boxes", 2**30
    image = LocalizationImage([[0, 0, 1, 1]], np.ones((1, 1, 1, 1)), (side, side))
    save_localization(path, [image] * 4, ["a"])
    spoil(path, "offsets[:] = [0, 2**62, -(2**63), -(2**62), 4]")
    with pytest.raises(ValueError, match=r"a.boxes: image 0: offsets: expected at least one candidate"):
        load_localization(path)
    save_localization(path, [image] * 16, ["a"])
    spoil(path, "header['arrays']['pixels'] = {'dtype': '|u1', 'shape': [0], 'offset': 0}")
    with pytest.raises(ValueError, match=f"a.boxes: pixels: expected {16 * side**2}, as the sizes say, got 0"):
        load_localization(path)
