"""Files and folders as partitions, and their models: what the whole holds, whatever numbers labels have."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pytest

from conformance.distributed.test_partitioned import LOADERS
from conformance.models.test_packed import PACKED, kernels, places, used
from conformance.tolerances import close
from diptych.distributed import (
    PackedFolder,
    Partitioned,
    SequenceFile,
    TreebankFile,
    save_packed,
    sequence_model,
    tagging_model,
)

# sequences and treebanks ----------------------------------------------------------------------------------------------


def write(path, sequences, names=None, features=2):
    """A sequence file; sequences: pairs of features (n, F) and labels (n,)."""
    fields = {} if names is None else {"names": np.array(names)}
    X = np.concatenate([np.zeros((0, features)), *(x for x, _ in sequences)])
    Y = np.concatenate([np.zeros(0, np.int64), *(y for _, y in sequences)])
    np.savez(path, features=X, labels=Y, offsets=np.cumsum([0, *(len(y) for _, y in sequences)]), **fields)
    return str(path)


def drawn(seed, labels, n=4):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    return [(rng.normal(size=(m, 2)), rng.integers(0, labels, m)) for m in lengths]


def test_labels_mean_their_names_in_each_file(sp, tmp_path):
    """Files number the same names differently; the loss is that of all sequences by names."""
    names = [("a", "b", "c"), ("c", "a", "b"), ("b", "d")]
    parts = [drawn(seed, len(each)) for seed, each in enumerate(names)]
    paths = [write(tmp_path / f"{k}.npz", parts[k], each) for k, each in enumerate(names)]
    model = sequence_model(sp, [SequenceFile(path) for path in paths], start_stop=False)
    assert model.labels == ("a", "b", "c", "d") and model.n_features == 2 and not model.start_stop
    objective = Partitioned([SequenceFile(path, model.labels) for path in paths], model, sp.LogLoss)
    X = [x for part in parts for x, _ in part]
    Y = [["abcd".index(each[i]) for i in y] for part, each in zip(parts, names, strict=True) for _, y in part]
    w = np.random.default_rng(9).normal(size=model.size)
    close(objective.value(w), sp.LogLoss(model, model.pack(X, Y)).value(w))
    unnamed = [SequenceFile(write(tmp_path / f"u{k}.npz", drawn(k, labels))) for k, labels in enumerate((2, 4, 1))]
    assert sequence_model(sp, unnamed).labels == ("0", "1", "2", "3")


def test_files_that_do_not_fit_are_named(sp, tmp_path):
    two = SequenceFile(write(tmp_path / "two.npz", drawn(0, 2)))
    three = SequenceFile(write(tmp_path / "three.npz", [(np.ones((2, 3)), np.array([0, 1]))], features=3))
    none = SequenceFile(write(tmp_path / "none.npz", []))
    with pytest.raises(ValueError, match=r"three\.npz has 3 features, .*two\.npz has 2$"):
        sequence_model(sp, [none, two, three])
    with pytest.raises(ValueError, match=r"none\.npz: no positions in its sequences"):
        sequence_model(sp, [none, none])
    other = SequenceFile(write(tmp_path / "other.npz", drawn(0, 2), ("a", "x")), ("a", "b"))
    with pytest.raises(ValueError, match=r"other\.npz: labels\[\d+\]: expected a label of the model, a, b, got x$"):
        other()


def test_a_loader_of_a_treebank_gives_fields_and_heads(tmp_path):
    row = "{}\tw\tw\tN\tN\t_\t{}\t_\t_\t_\n"
    path = tmp_path / "bank.conllu"
    path.write_text(row.format(1, 2) + row.format(2, 0))
    X, Y = TreebankFile(str(path))()
    assert X[0]["word"] == ("w", "w") and Y[0].tolist() == [2, 0]


# the model of a tagger ------------------------------------------------------------------------------------------------

TEMPLATES = ["bias", "word[-1..1]", "tag|word", "tag[-1]|tag[0]"]


@dataclass(frozen=True)
class Sentences:
    """Drawn sentences, one of them empty."""

    seed: int

    def __call__(self) -> tuple[list[Any], list[Any]]:
        rng = np.random.default_rng(self.seed)
        lengths = [0, *rng.integers(1, 6, size=4).tolist()]
        X = [{name: [f"{name}{i}" for i in rng.integers(0, 7, n)] for name in ("word", "tag")} for n in lengths]
        return X, [[f"L{i}" for i in rng.integers(0, 2 + self.seed, n)] for n in lengths]


SENTENCES = [Sentences(seed) for seed in (2, 0, 1)]


@pytest.mark.parametrize("options", [{"least": 1}, {"least": 2}, {"bits": 4}, {"bits": 9}], ids=str)
@pytest.mark.parametrize("pairs", ["observed", "all"])
def test_a_tagger_has_the_weights_of_all_sentences(sp, pairs, options):
    X, Y = (list(chain(*each)) for each in zip(*(load() for load in SENTENCES), strict=True))
    one = sp.TaggingModel.of(X, Y, TEMPLATES, pairs=pairs, **options)
    parts = tagging_model(sp, SENTENCES, TEMPLATES, pairs=pairs, **options)
    with ThreadPoolExecutor(3) as pool:
        assert tagging_model(sp, SENTENCES, TEMPLATES, pool, pairs=pairs, **options).settings() == parts.settings()
    if "bits" in options:
        assert parts.settings() == one.settings()
    assert parts.labels == one.labels and parts.size == one.size
    assert "bits" in options or set(parts.vocabulary) == set(one.vocabulary)
    best = sp.lbfgs(Partitioned(SENTENCES, parts, sp.LogLoss), lam=0.1, tol=1e-8)
    close(best.fun, sp.lbfgs(sp.LogLoss(one, one.pack(X, Y)), lam=0.1, tol=1e-8).fun)


def test_wrong_arguments_are_named(sp):
    def labelled(*labels):
        return [lambda: ([{"word": ["a"], "tag": ["b"]}], [list(labels)])]

    for loaders, options, message in (
        (SENTENCES, {"pairs": "some"}, "pairs: expected observed or all"),
        (SENTENCES, {"least": 0}, "least: "),
        (SENTENCES, {"templates": ["word["]}, "templates: "),
        (labelled(0), {}, "Y: expected names of labels"),
        (labelled("X", "Y"), {}, "partition 0 .* 1 tokens have 2 labels"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            tagging_model(sp, loaders, **{"templates": TEMPLATES, **options})


# packed data in folders -----------------------------------------------------------------------------------------------


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
    model, folders = sp.SequenceModel(2, 3), []
    for k, loader in enumerate(LOADERS):
        save_packed(tmp_path / str(k), model.pack(*loader()))
        folders.append(PackedFolder(str(tmp_path / str(k))))
    ours, theirs = (Partitioned(loaders, model, sp.LogLoss) for loaders in (folders, LOADERS))
    limited = Partitioned(folders, model, sp.LogLoss, memory=max(size.nbytes for size in ours.sizes))
    w = np.linspace(-1, 1, model.size)
    for each in (ours, limited):
        assert each.value_and_gradient(w)[1].tobytes() == theirs.value_and_gradient(w)[1].tobytes()
    with pytest.raises(ValueError, match="^data: packed by a different model, with "):
        Partitioned(folders, sp.SequenceModel(3, 3), sp.LogLoss)


def test_damage_is_named(sp, tmp_path):
    path, data = tmp_path / "part", sp.SequenceModel(2, 3).pack(*LOADERS[0]())
    with pytest.raises(ValueError, match=r"part: no packed data: no file record\.json"):
        PackedFolder(str(path))()
    save_packed(path, data)
    with pytest.raises(FileExistsError, match="expected a new folder"):
        save_packed(path, data)
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
    np.save(path / "0.npy", np.load(path / "0.npy") + 1)
    with pytest.raises(ValueError, match="part: damaged packed data: rows.indptr: expected numbers that rise"):
        PackedFolder(str(path))()
