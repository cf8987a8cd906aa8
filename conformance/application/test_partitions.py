"""Training over partitions from the command line: the same model for any number of workers; many files at once."""

from __future__ import annotations

import json
import sys
import zipfile
from argparse import ArgumentTypeError, Namespace

import numpy as np
import pytest

import reference
from diptych.commands.executors import LOCAL, executor_of, parts_a_file, size
from diptych.commands.main import main
from diptych.files import load_model

SENTENCES = [
    "the DT B-NP\ndog NN I-NP\nbarks VB O\n",
    "a DT B-NP\ncat NN I-NP\n",
    "birds NN B-NP\nsing VB O\n",
    "he PR B-NP\nsees VB O\nthe DT B-NP\ncat NN I-NP\n",
    "dogs NN B-NP\n",
]


@pytest.fixture
def files(tmp_path):
    for k in range(3):
        (tmp_path / f"part{k}.txt").write_text("\n".join(SENTENCES[k:] + SENTENCES[:k]))
    (tmp_path / "whole.txt").write_text("\n".join("\n".join(SENTENCES[k:] + SENTENCES[:k]) for k in range(3)))
    return tmp_path


def run(*words):
    return main([str(word) for word in words])


def reported(capsys, *words):
    assert run(*words, "--json", "--quiet") == 0
    return json.loads(capsys.readouterr().out)


def weights(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("panel", ["reference", "accelerated"])
@pytest.mark.parametrize("more", [[], ["--loss", "hinge", "--pairs", "all", "--bits", "9"], ["--optimizer", "svrg"]])
def test_partitions_reach_the_objective_of_the_whole(files, capsys, panel, more):
    common = "--panel", panel, "--lam", "0.1", "--tol", "1e-6", "--epochs", "200"
    parts = reported(capsys, "tag", "train", files / "part*.txt", "--partitions", "5", *common, *more)
    alone = ["--optimizer", "bcfw" if "hinge" in more else "lbfgs", *more[:-2], *(more[-2:] if "hinge" in more else [])]
    whole = reported(capsys, "tag", "train", files / "part*.txt", *common, *alone)
    assert parts["partitions"] == 5 and parts["workers"] == 1 and parts["bytes_a_pass"] == 0
    scale = abs(whole["objective"])
    assert abs(parts["objective"] - whole["objective"]) <= (1e-2 if "hinge" in more else 1e-5) * scale


def test_other_partitions_do_not_resume(files, capsys):
    """Their sums have other bits. The error and the model file name the partitions."""
    words = ["tag", "train", str(files / "part*.txt"), "--optimizer", "lbfgs", "--quiet"]
    file, model = files / "run.npz", files / "m.npz"
    reported(capsys, *words, "--epochs", 2, "--partitions", 4, "--checkpoint", file, "--save", model)
    assert load_model(model, reference)[2]["partitions"] == "4 of 5, 5, 2, 3 examples"
    assert run(*words, "--epochs", 3, "--partitions", 3, "--resume", file) == 2
    message = "of a run with partitions = 4 of 5, 5, 2, 3 examples, this one has 3 of 5, 5, 5 examples"
    assert message in capsys.readouterr().err
    reported(capsys, *words, "--epochs", 3, "--partitions", 4, "--resume", file)


@pytest.mark.parametrize(("asked", "files", "parts"), [
    (None, 1, [8]), (None, 3, [2, 3, 3]), (None, 20, 20 * [1]), (5, 4, [1, 1, 1, 2]), (2, 3, [1, 1, 1]), (9, 2, [4, 5]),
])  # fmt: skip
def test_partitions_are_as_many_in_all_as_were_asked_for(asked, files, parts):
    assert parts_a_file(Namespace(partitions=asked), files) == parts


def test_several_files_are_one_training_set(files, capsys):
    """The objective is that of one file with all; of column files, which are one after another, to the bit."""
    word = "{}\tw{}\tw\tN\tN\t_\t{}\t_\t_\t_\n"
    sentences = ["".join(word.format(i, i + k, i - 1) for i in range(1, 3 + k)) for k in range(4)]
    for name, part in {"a1": sentences[:1], "a2": sentences[1:], "all": sentences}.items():
        (files / f"{name}.conllu").write_text("\n".join(part))
    features, labels = np.eye(3)[[0, 1, 2, 2, 0, 1]], np.array([0, 1, 2, 2, 0, 1])
    for name, part, offsets in (
        ("b1", slice(0, 2), [0, 2]),
        ("b2", slice(2, 6), [0, 3, 4]),
        ("b", slice(6), [0, 2, 5, 6]),
    ):
        np.savez(files / f"{name}.npz", features=features[part], labels=labels[part], offsets=offsets)
    common = "--loss", "crf", "--optimizer", "lbfgs", "--lam", 0.1, "--tol", 1e-8
    for words, pattern, whole in (
        (["parse", "train"], "a?.conllu", "all.conllu"),
        (["train"], "b?.npz", "b.npz"),
        (["tag", "train"], "part?.txt", "whole.txt"),
    ):
        more = ["--bits", 8] if "parse" in words else []
        many = reported(capsys, *words, files / pattern, *common, *more, "--partitions", 3)
        one = reported(capsys, *words, files / whole, *common, *more)
        assert many["partitions"] == 3 and len(many["files"]) == len([*files.glob(pattern)])
        assert many["objective"] == pytest.approx(one["objective"], rel=1e-7)
    several, one = (reported(capsys, "tag", "train", files / name, *common[:4]) for name in ("part?.txt", "whole.txt"))
    assert several["objective"] == one["objective"]


def test_the_hinge_has_a_default_that_works(files, capsys):
    words = "tag", "train", files / "part*.txt", "--loss", "hinge", "--partitions", 2, "--epochs", 2
    assert reported(capsys, *words)["job"]["optimizer"] == "cutting-planes"
    assert reported(capsys, *words, "--pairs", "all")["job"]["optimizer"] == "cocoa"
    common = "--loss", "hinge", "--tol", 1e-4, "--epochs", 200
    many = reported(capsys, *words[:3], "--partitions", 2, "--optimizer", "cocoa", *common)
    one = reported(capsys, *words[:3], "--optimizer", "bcfw", *common)
    assert many["success"] and one["success"] and many["objective"] == pytest.approx(one["objective"], rel=1e-4)


def test_a_file_may_have_fewer_sentences_than_parts(files, capsys):
    (files / "short.txt").write_text("\n" * 40 + "a X\n\nb Y\n")
    report = reported(capsys, "tag", "train", files / "short.txt", "--partitions", 9)
    assert report["sentences"] == 2 and report["partitions"] == 1 and report["labels"] == ["X", "Y"]


@pytest.mark.beyond("starts clusters of processes")
@pytest.mark.parametrize(
    "words",
    [
        ["tag", "train", "part*.txt", "--epochs", "4"],
        ["tag", "train", "part*.txt", "--epochs", "4", "--loss", "hinge", "--pairs", "all", "--memory", "20kB"],
        ["train", "letters", "--epochs", "2"],
        ["parse", "train", "sentences", "--epochs", "2", "--bits", "10"],
    ],
)
def test_the_number_of_workers_changes_no_bit(files, capsys, words, monkeypatch):
    monkeypatch.chdir(files)
    saved = []
    for workers in (0, 1, 2):
        path = files / f"{workers}.npz"
        report = reported(capsys, *words, "--workers", workers, "--save", path, "--partitions", 6)
        assert report["workers"] == max(workers, 1) and report["repeated"] == 0
        assert (report["bytes_a_pass"] > 0) == (workers > 0)
        saved.append(weights(path))
    assert saved[0] == saved[1] == saved[2]


def test_this_process_needs_no_dask_and_workers_say_what_to_install(files, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.chdir(files)
    for how in (["--workers", "0"], ["--partitions", "3"], ["--memory", "20kB"]):
        assert reported(capsys, "tag", "train", "part0.txt", "--epochs", "2", *how)["workers"] == 1
    for how in (["--workers", "1"], ["--scheduler", "tcp://127.0.0.1:9"]):
        assert run("tag", "train", "part0.txt", *how) == 2
        err = capsys.readouterr().err
        assert "--workers and --scheduler need Dask" in err and "pip install 'diptych[distributed]'" in err


def test_progress_shows_workers_and_what_they_moved(files, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("tqdm.std.tqdm.set_postfix", lambda bar, each: shown.append(each))
    assert run("tag", "train", files / "part*.txt", "--partitions", 6, "--epochs", 3) == 0
    err = capsys.readouterr().err
    assert "part*.txt: columns word, tag, label (" in err
    names = {"objective", "workers", "partitions", "lost", "repeated", "bytes_a_pass"}
    assert [set(each) for each in shown] == 3 * [names]
    assert all((each["workers"], each["partitions"], each["repeated"]) == (1, 6, 0) for each in shown)


def test_sizes_have_units():
    assert (size("500MB"), size("2 GiB"), size("1.5kB")) == (500_000_000, 2**31, 1500)
    for wrong in ("3", "-1MB", "x", "10", "1e9", "5 parsecs"):
        with pytest.raises(ArgumentTypeError, match="expected a number of bytes such as 500MB"):
            size(wrong)


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:8786", "scheduler.example:8786"])
def test_an_address_beyond_this_machine_without_tls_is_warned_of(address, capsys):
    import reference

    names = ("workers", "scheduler", "partitions", "memory", "tls_ca_file", "tls_cert", "tls_key")
    options = Namespace(**dict.fromkeys(names), quiet=True)
    options.scheduler = address
    distributed = pytest.importorskip("distributed")

    class Refused(Exception):
        pass

    def refuse(*args, **options):
        raise OSError("no answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "Client", refuse)
        with (
            pytest.raises(ValueError, match=f"^--scheduler {address}: no answer"),
            executor_of(options, reference, None),
        ):
            pass
    assert capsys.readouterr().err.count("not encrypted") == 1
    assert not LOCAL.match(address) and all(map(LOCAL.match, ["tcp://127.0.0.1:8786", "localhost:8786", "inproc://x"]))
