"""Files as partitions: what they hold is what the whole holds, whatever numbers their labels have."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.tolerances import close
from diptych.distributed import Partitioned, SequenceFile, TreebankFile, sequence_model


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
    files = [
        SequenceFile(write(tmp_path / f"{k}.npz", part, each))
        for k, (part, each) in enumerate(zip(parts, names, strict=True))
    ]
    model = sequence_model(sp, files, start_stop=False)
    assert model.labels == ("a", "b", "c", "d") and model.n_features == 2 and not model.start_stop
    objective = Partitioned([SequenceFile(each.path, model.labels) for each in files], model, sp.LogLoss)
    X = [x for part in parts for x, _ in part]
    Y = ["".join(each[i] for i in y) for part, each in zip(parts, names, strict=True) for _, y in part]
    w = np.random.default_rng(9).normal(size=model.size)
    whole = sp.LogLoss(model, model.pack(X, [["abcd".index(name) for name in y] for y in Y]))
    close(objective.value(w), whole.value(w))


def test_labels_without_names_are_as_many_as_the_largest_file_has(sp, tmp_path):
    files = [SequenceFile(write(tmp_path / f"{k}.npz", drawn(k, labels))) for k, labels in enumerate((2, 4, 1))]
    assert sequence_model(sp, files).labels == ("0", "1", "2", "3")


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
