"""Training over partitions, the same for any number of workers; and ``diptych grid``, many runs of a command."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from argparse import ArgumentTypeError, Namespace

import numpy as np
import pytest

import reference
from conformance.application.processes import ended, group_of, lines_of, started, until
from diptych.commands.executors import LOCAL, parts_a_file, size
from diptych.files import load_model

SENTENCES = "the DT B-NP\ndog NN I-NP\nbarks VB O\n|a DT B-NP\ncat NN I-NP\n|birds NN B-NP\nsing VB O\n|"
SENTENCES += "he PR B-NP\nsees VB O\nthe DT B-NP\ncat NN I-NP\n|dogs NN B-NP\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with three files of five sentences, and one with all of them."""
    each = SENTENCES.split("|")
    texts = ["\n".join(each[k:] + each[:k]) for k in range(3)]
    for k, text in enumerate(texts):
        (tmp_path / f"part{k}.txt").write_text(text)
    (tmp_path / "whole.txt").write_text("\n".join(texts))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.beyond("a long training through a command or learner")
@pytest.mark.parametrize("more", [[], ["--loss", "hinge"], ["--loss", "hinge", "--pairs", "all", "--bits", 9]])
def test_partitions_reach_the_objective_of_the_whole(folder, cli, more):
    """By defaults that work: L-BFGS; for the hinge cutting planes, or CoCoA where there are weights for all pairs."""
    common = "tag", "train", "part*.txt", "--quiet", "--lam", 0.1, "--tol", 1e-6, "--epochs", 200, *more
    parts = cli.reported(*common, "--partitions", 5)
    whole = cli.reported(*common, "--optimizer", "bcfw" if more else "lbfgs")
    assert parts["partitions"] == 5 and parts["workers"] == 1 and parts["bytes_a_pass"] == 0
    assert abs(parts["objective"] - whole["objective"]) <= (1e-2 if more else 1e-5) * abs(whole["objective"])
    assert parts["job"]["optimizer"] == ("cocoa" if "--pairs" in more else "cutting-planes" if more else "lbfgs")


def test_other_partitions_do_not_resume(folder, reference_cli):
    """Their sums have other bits. The error and the model file name the partitions."""
    words = ["tag", "train", "part*.txt", "--optimizer", "lbfgs", "--quiet"]
    reference_cli.printed(*words, "--epochs", 2, "--partitions", 4, "--checkpoint", "run.npz", "--save", "m.npz")
    assert load_model("m.npz", reference)[2]["partitions"] == "4 of 5, 5, 2, 3 examples"
    error = reference_cli.refused(*words, "--epochs", 3, "--partitions", 3, "--resume", "run.npz")
    assert "of a run with partitions = 4 of 5, 5, 2, 3 examples, this one has 3 of 5, 5, 5 examples" in error
    reference_cli.printed(*words, "--epochs", 3, "--partitions", 4, "--resume", "run.npz")


def test_partitions_are_as_many_in_all_as_were_asked_for_and_sizes_have_units():
    for asked, files, parts in (
        (None, 1, [8]), (None, 3, [2, 3, 3]), (None, 20, 20 * [1]), (5, 4, [1, 1, 1, 2]), (2, 3, [1, 1, 1]),
        (9, 2, [4, 5]),
    ):  # fmt: skip
        assert parts_a_file(Namespace(partitions=asked), files) == parts
    assert (size("500MB"), size("2 GiB"), size("1.5kB")) == (500_000_000, 2**31, 1500)
    for wrong in ("3", "-1MB", "x", "10", "1e9", "5 parsecs"):
        with pytest.raises(ArgumentTypeError, match="expected a number of bytes such as 500MB"):
            size(wrong)


def test_several_files_are_one_training_set(folder, reference_cli):
    """The objective of one file with all; of column files, which are one after another, to the bit."""
    common = "--quiet", "--loss", "crf", "--optimizer", "lbfgs", "--lam", 0.1, "--tol", 1e-8
    many = reference_cli.reported("tag", "train", "part?.txt", *common, "--partitions", 3)
    several, one = (reference_cli.reported("tag", "train", name, *common) for name in ("part?.txt", "whole.txt"))
    assert many["partitions"] == 3 and len(many["files"]) == 3 and several["objective"] == one["objective"]
    assert many["objective"] == pytest.approx(one["objective"], rel=1e-7)
    (folder / "short.txt").write_text("\n" * 40 + "a X\n\nb Y\n")  # fewer sentences than parts
    report = reference_cli.reported("tag", "train", "short.txt", "--partitions", 9, "--quiet")
    assert report["sentences"] == 2 and report["partitions"] == 1 and report["labels"] == ["X", "Y"]


@pytest.mark.beyond("starts clusters of processes")
@pytest.mark.parametrize(
    "words",
    [
        "tag train part*.txt --epochs 4",
        "tag train part*.txt --epochs 4 --loss hinge --pairs all --memory 20kB",
        "train letters --epochs 2",
        "parse train sentences --epochs 2 --bits 10",
    ],
)
def test_the_number_of_workers_changes_no_bit(folder, reference_cli, words):
    saved = []
    for workers in (0, 2):
        where = ["--workers", workers, "--save", "m.npz", "--partitions", 6, "--quiet"]
        report = reference_cli.reported(*words.split(), *where)
        assert report["workers"] == max(workers, 1) and report["repeated"] == 0
        assert (report["bytes_a_pass"] > 0) == (workers > 0)
        with np.load("m.npz") as archive:
            saved.append({name: array.tobytes() for name, array in archive.items()})
    assert saved[0] == saved[1]


def test_this_process_needs_no_dask_and_workers_say_what_to_install(folder, reference_cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = ["tag", "train", "part0.txt", "--epochs", 2, "--quiet"]
    for how in (["--workers", 0], ["--partitions", 3], ["--memory", "20kB"]):
        assert reference_cli.reported(*words, *how)["workers"] == 1
    for how in (["--workers", 1], ["--scheduler", "tcp://127.0.0.1:9"]):
        error = reference_cli.refused(*words, *how)
        assert "--workers and --scheduler need Dask" in error and "pip install 'diptych[distributed]'" in error


def test_progress_shows_workers_and_what_they_moved(folder, reference_cli, monkeypatch):
    shown = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("tqdm.std.tqdm.set_postfix", lambda bar, each: shown.append(each))
    status, _, err = reference_cli.run("tag", "train", "part*.txt", "--partitions", 6, "--epochs", 3)
    assert status == 0 and "part*.txt: columns word, tag, label (" in err
    names = {"objective", "workers", "partitions", "lost", "repeated", "bytes_a_pass"}
    assert [set(each) for each in shown] == 3 * [names]
    assert all((each["workers"], each["partitions"], each["repeated"]) == (1, 6, 0) for each in shown)


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:8786", "scheduler.example:8786"])
def test_an_address_beyond_this_machine_without_tls_is_warned_of(folder, reference_cli, monkeypatch, address):
    def refuse(*args, **options):
        raise OSError("no answer")

    monkeypatch.setattr(pytest.importorskip("distributed"), "Client", refuse)
    status, _, err = reference_cli.run(f"tag train part0.txt --quiet --scheduler {address}")
    assert status == 2 and f"--scheduler {address}: no answer" in err and err.count("not encrypted") == 1
    assert not LOCAL.match(address) and all(map(LOCAL.match, ["tcp://127.0.0.1:8786", "localhost:8786", "inproc://x"]))


LAMS, FOLDS = ("1e-3", "0.1"), ("0", "1")
VARIED = ["--vary", f"lam={','.join(LAMS)}", "--vary", f"fold={','.join(FOLDS)}"]


@pytest.fixture
def grid(data_file, tmp_path, reference_cli):
    """A function of the words of a training and the options of a grid: its report, and the lines on stderr."""
    kept = tmp_path / "kept.jsonl"

    def run(words, options, status=0):
        command = ["grid", "--json", "--kept", kept, *options, "train", data_file, *words]
        found, out, err = reference_cli.run(*command)
        assert found == status, err
        return json.loads(out) if out else None, err.splitlines()

    return run


def test_each_run_is_the_command_that_it_stands_for(grid, data_file, tmp_path, reference_cli):
    """Words of the command name what varies; what was kept is not run again."""
    kept, model = tmp_path / "kept.jsonl", str(tmp_path / "model-{lam}-{fold}.npz")
    words = ["--epochs", 3, "--save", model]
    report, lines = grid(words, VARIED)
    assert [tuple(row["values"].values()) for row in report["runs"]] == [*itertools.product(LAMS, FOLDS)]
    assert len(lines) == 4 and lines[0].startswith("  1 of 4: lam=1e-3 fold=0: objective ")
    for row in report["runs"]:
        (lam, fold), trained = row["values"].values(), model.format(**row["values"])
        alone = reference_cli.reported("train", data_file, "--epochs", 3, "--quiet", "--lam", lam, "--fold", fold)
        expected = {f"test.{name}": share for name, share in alone["test"].items()}
        assert row["scores"] == {"objective": alone["objective"], **expected} and row["error"] is None
        assert reference_cli.reported("evaluate", trained, data_file)["trained"]["lam"] == float(lam)
    again, lines = grid(words, VARIED[2:] + VARIED[:2])
    assert lines == [f"4 of 4 runs are in {kept}"] and len(kept.read_text().splitlines()) == 4
    by_values = sorted(again["runs"], key=lambda row: [row["values"][name] for name in ("lam", "fold")])
    assert by_values == sorted(report["runs"], key=lambda row: [*row["values"].values()])


def test_means_and_the_best_first(grid, tmp_path):
    pytest.importorskip("matplotlib")
    picture, names = tmp_path / "grid.png", ("objective", "test.letter", "test.word")
    for by, mean, count in (("test.letter", ["fold"], 2), ("objective", ["fold", "lam"], 4), ("objective", [], 1)):
        options = [*VARIED, "--by", by, *(word for name in mean for word in ("--mean", name))]
        options += ["--plot", picture] if count == 2 else []
        report, _ = grid(["--epochs", 3], options)
        for each in report["means"]:
            rows = [row["scores"] for row in report["runs"] if each["values"].items() <= row["values"].items()]
            assert each["runs"] == len(rows) == count and each["values"].keys() == {"lam", "fold"} - {*mean}
            several = np.array([[row[name] for name in names] for row in rows])
            np.testing.assert_allclose([each["mean"][name] for name in names], several.mean(0), rtol=1e-12)
            if count > 1:
                spread = [each["deviation"][name] for name in names]
                np.testing.assert_allclose(spread, several.std(0, ddof=1), rtol=1e-9, atol=1e-12)
        best = [each["mean"][by] for each in report["means"]]
        assert best == sorted(best, reverse=by != "objective") and picture.read_bytes().startswith(b"\x89PNG")


def test_a_run_that_fails_is_not_kept_and_the_others_go_on(grid, data_file, tmp_path, reference_cli):
    kept, words, vary = tmp_path / "kept.jsonl", ["--optimizer", "sgd", "--epochs", 2], "step-size=1e200,0.1"
    report, lines = grid(words, ["--vary", vary], status=1)
    assert lines[-1].startswith("diptych grid: 1 of 2 runs failed; step-size=1e200: diverged in epoch 1")
    assert [row["error"] is None for row in report["runs"]] == [False, True]
    assert [(mean["runs"], mean["failed"]) for mean in report["means"]] == [(0, 1), (1, 0)]
    assert len(kept.read_text().splitlines()) == 1
    status, out, _ = reference_cli.run("grid", "--kept", kept, "--vary", vary, "train", data_file, *words)
    assert status == 1 and out.splitlines()[1] == "1e200      failed     failed        failed"
    options = ["--vary", "step-size=1e200,1e250", "--by", "test.word", "--plot", tmp_path / "grid.png"]
    _, lines = grid(words, options, status=1)  # no run has a score
    assert lines[-1].startswith("diptych grid: 2 of 2 runs failed; step-size=1e200: diverged in epoch 1")


def test_values_with_commas(write, reference_cli):
    """Between semicolons; a path of a sparse CRF is a run."""
    write("a X\nb Y\n\nb Y\na X\n\n", "train.txt")
    vary = "grid --vary columns=word,label;label,word --kept k --quiet --json"
    rows = json.loads(reference_cli.printed(f"{vary} tag train train.txt --learner sparse-crf --path 3"))["runs"]
    assert [row["values"]["columns"] for row in rows] == ["word,label", "label,word"]
    assert all(row["scores"]["train.accuracy.token"] >= 0.5 for row in rows)


@pytest.mark.beyond("starts clusters of processes")
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_was_cut_goes_on(files, how, workers):
    """Cut in the middle, by Ctrl-C or by SIGKILL, the grid ends with what it kept; the same command goes on from it."""
    pytest.importorskip("distributed")
    values, where = ",".join(f"{k}e-3" for k in range(1, 11)), [] if workers is None else ["--workers", workers]
    words = ["grid", "--json", "--kept", "kept.jsonl", "--vary", f"lam={values}", *where, "tag", "train", "part*.txt"]
    words += ["--optimizer", "lbfgs", "--epochs", "300", "--tol", "0"]
    process, kept = started(files, *words), files / "kept.jsonl"
    until(lambda: lines_of(kept) >= 2)
    os.killpg(process.pid, how)
    status, _, _ = ended(process)
    before = kept.read_bytes()
    whole = before[: before.rfind(b"\n") + 1]  # SIGKILL may cut the last line
    n = whole.count(b"\n")
    assert status == (130 if how == signal.SIGINT else -how) and 2 <= n < 10
    until(lambda: group_of(process) == [], 5)
    status, out, err = ended(started(files, *words))
    assert status == 0 and err.startswith(f"{n} of 10 runs are in kept.jsonl\n  1 of {10 - n}: ")
    assert kept.read_bytes().startswith(whole) and kept.read_bytes().count(b"\n") == 10
    assert len(json.loads(out)["runs"]) == 10
