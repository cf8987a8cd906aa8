"""Packed data in folders: the same values as the data that were written, and what is damaged is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.distributed.test_partitioned import LOADERS, whole
from conformance.models.test_packed import PACKED, kernels, places, used
from conformance.tolerances import close
from diptych.distributed import PackedFolder, Partitioned, save_packed


@pytest.mark.parametrize("make", [make for make in PACKED if make is not kernels], ids=lambda make: make.__name__)
def test_every_kind_is_read_as_it_was_written(backend, tmp_path, make):
    model, data = make(backend)
    save_packed(tmp_path / "part", data)
    again = PackedFolder(str(tmp_path / "part"))()
    assert type(again) is type(data) and list(places(again)) == list(places(data))
    assert used(backend, model, again) == used(backend, model, data)
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


def test_what_has_no_file_form_is_named(backend, tmp_path):
    _, data = kernels(backend)
    with pytest.raises(TypeError, match=r"^data\.grams\[0\]: Gram cannot be saved"):
        save_packed(tmp_path / "part", data)
    assert not list(tmp_path.iterdir())


def test_training_over_folders_is_training_over_their_sources(sp, tmp_path):
    model = sp.SequenceModel(2, 3)
    folders = []
    for k, loader in enumerate(LOADERS):
        data = model.pack(*loader())
        save_packed(tmp_path / str(k), data)
        folders.append(PackedFolder(str(tmp_path / str(k))))
    ours, theirs = (Partitioned(loaders, model, sp.LogLoss) for loaders in (folders, LOADERS))
    w = np.linspace(-1, 1, model.size)
    assert ours.value_and_gradient(w)[1].tobytes() == theirs.value_and_gradient(w)[1].tobytes()
    close(ours.value(w), whole(sp, sp.LogLoss).value(w))
    limited = Partitioned(folders, model, sp.LogLoss, memory=max(size.nbytes for size in ours.sizes))
    assert limited.value(w) == ours.value(w)


def test_data_of_another_model_are_refused(sp, tmp_path):
    save_packed(tmp_path / "part", sp.SequenceModel(2, 3).pack(*LOADERS[0]()))
    with pytest.raises(ValueError, match="^data: packed by a different model, with "):
        Partitioned([PackedFolder(str(tmp_path / "part"))], sp.SequenceModel(3, 3), sp.LogLoss)


def test_damage_is_named(sp, tmp_path):
    path = tmp_path / "part"
    with pytest.raises(ValueError, match=r"part: no packed data: no file record\.json"):
        PackedFolder(str(path))()
    save_packed(path, sp.SequenceModel(2, 3).pack(*LOADERS[0]()))
    with pytest.raises(FileExistsError, match="expected a new folder"):
        save_packed(path, sp.SequenceModel(2, 3).pack(*LOADERS[0]()))
    record = (path / "record.json").read_text()
    for text, message in (
        ("{", "damaged packed data"),
        ("[1]", "expected a record of packed data, got list"),
        (json.dumps({"kind": "Popen", "fields": {}}), "no kind of packed data: 'Popen'"),
        (record.replace('"array": 0', '"array": 77'), "no packed data: no file 77.npy"),
        (record.replace("offsets", "others"), "damaged packed data"),
    ):
        (path / "record.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            PackedFolder(str(path))()
    (path / "record.json").write_text(record)
    offsets = np.load(path / "0.npy")
    np.save(path / "0.npy", offsets + 1)
    with pytest.raises(ValueError, match="part: damaged packed data: rows.indptr: expected numbers that rise"):
        PackedFolder(str(path))()
