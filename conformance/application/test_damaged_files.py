"""Every reader on damaged copies of valid files: an answer, or a ValueError that names the file; never much memory."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from conformance.damage import damaged, spoil
from conformance.readers import READERS
from conformance.specimens.pages import entries
from diptych.files import load_log
from diptych.files.columns import read_columns
from diptych.files.treebank import read_sentences

COPIES, MEMORY = 200, 64 << 20
pytestmark = pytest.mark.filterwarnings("ignore:.*no other integer occurs:UserWarning")  # of labels that are damaged


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
    n = len(whole)
    cut = [refused(read, path, whole[:k]) for k in np.linspace(0, n - 1, 24, dtype=int)]
    turned = [
        refused(read, path, whole[:k] + bytes([whole[k] ^ 255]) + whole[k + 1 :])
        for k in np.linspace(0, n - 1, 16, dtype=int)
    ]
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
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        read[kind]() if kind in read else READERS[kind][1](path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY


@pytest.mark.parametrize(("entry", "message"), entries("spoiled.txt"))
def test_a_field_that_is_wrong_is_named_with_its_file(tmp_path, entry, message):
    name, _, change = entry.partition(": ")
    write, read = READERS[name]
    write(tmp_path / name)
    spoil(tmp_path / name, change)
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path / name)
    assert name in str(error.value)


@pytest.mark.beyond("fuzz: thousands of damaged files")
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused_by_name(given, name):
    """Bytes turned over, cuts, spans twice; members of zips and values of JSON changed, checksums made to fit."""
    read, path, whole = given
    count = 0
    tracemalloc.start()
    try:
        for content in itertools.islice(damaged(whole, np.random.default_rng(len(name))), COPIES):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            count += refused(read, path, content)
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < MEMORY, (content, used)
    finally:
        tracemalloc.stop()
    assert count > 0
