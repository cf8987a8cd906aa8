"""Files are written whole, with the permissions that they should have; nothing of a failed write stays."""

import os
import stat
import sys
import types

import pytest

from reference import files
from reference.files import replacing, save_bytes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions and locks of POSIX")


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_a_new_file_has_the_permissions_of_the_process(tmp_path, umask):
    before = os.umask(umask)
    try:
        save_bytes(tmp_path / "new", b"x")
        assert os.umask(umask) == umask  # as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~umask


def test_a_file_keeps_its_permissions(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o604)
    save_bytes(tmp_path / "old", b"new")
    assert (tmp_path / "old").read_bytes() == b"new" and stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o604


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(KeyError), replacing(tmp_path / "old") as file:
        file.write(b"half")
        raise KeyError
    assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_bytes() == b"old"
    with pytest.raises(KeyError), replacing(tmp_path / "new"):
        (part,) = (name for name in os.listdir(tmp_path) if name.endswith(".part"))
        (tmp_path / part).unlink()  # as by someone who tidies up: what is raised is the block's own error
        raise KeyError


def test_what_a_process_left_is_removed_and_what_one_writes_stays(tmp_path):
    """A part beside the file, of the right name: it is abandoned if nobody holds its lock."""
    (tmp_path / ".kept.12345678.part").write_bytes(b"half")
    with replacing(tmp_path / "kept") as outer:
        outer.write(b"outer")
        (part,) = (name for name in os.listdir(tmp_path) if name.startswith(".kept."))  # of the outer write
        save_bytes(tmp_path / "kept", b"inner")
        assert sorted(os.listdir(tmp_path)) == [part, "kept"]
    assert os.listdir(tmp_path) == ["kept"] and (tmp_path / "kept").read_bytes() == b"outer"


def test_without_locks_age_decides_what_is_abandoned(tmp_path, monkeypatch):
    now, young, old = 1e9, tmp_path / ".kept.1234567y.part", tmp_path / ".kept.1234567o.part"
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "time", types.SimpleNamespace(time=lambda: now))
    for part, age in ((young, files.ABANDONED_SECONDS - 1), (old, files.ABANDONED_SECONDS + 1)):
        part.write_bytes(b"half")
        os.utime(part, (now - age, now - age))
    save_bytes(tmp_path / "kept", b"x")
    assert sorted(os.listdir(tmp_path)) == [young.name, "kept"] and (tmp_path / "kept").read_bytes() == b"x"
