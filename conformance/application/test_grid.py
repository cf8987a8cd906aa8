"""``diptych grid``: its runs are the commands that it stands for, on any workers, kept as they come."""

from __future__ import annotations

import itertools
import json
import os
import signal
import statistics
import time

import pytest

from conformance.application.processes import group_of, lines_of, started, until
from conformance.application.test_app import data_file
from conformance.application.test_clusters import files
from diptych.commands.main import main

__all__ = ["data_file", "files"]  # fixtures

LAMS, FOLDS = ("1e-3", "0.1"), ("0", "1")
VARIED = ["--vary", f"lam={','.join(LAMS)}", "--vary", f"fold={','.join(FOLDS)}"]


def said(capsys, *words, status=0):
    """The report of a command and the lines on stderr."""
    assert main([*map(str, words), "--json"]) == status
    out, err = capsys.readouterr()
    return json.loads(out) if out else None, err.splitlines()


def grid(capsys, kept, data, *words, options=(), status=0):
    assert main(["grid", "--json", "--kept", str(kept), *map(str, options), "train", str(data), *words]) == status
    out, err = capsys.readouterr()
    return json.loads(out) if out else None, err.splitlines()


def test_each_run_is_the_command_that_it_stands_for(data_file, tmp_path, capsys):
    kept = tmp_path / "kept.jsonl"
    report, lines = grid(capsys, kept, data_file, "--epochs", "3", options=VARIED)
    assert [row["values"] for row in report["runs"]] == [
        {"lam": lam, "fold": fold} for lam, fold in itertools.product(LAMS, FOLDS)
    ]
    assert len(lines) == 4 and lines[0].startswith("  1 of 4: lam=1e-3 fold=0: objective ")
    for row in report["runs"]:
        values = [word for name, value in row["values"].items() for word in (f"--{name}", value)]
        alone, _ = said(capsys, "train", data_file, "--epochs", 3, "--quiet", *values)
        expected = {"objective": alone["objective"]}
        expected |= {f"test.{name}": share for name, share in alone["test"].items()}
        assert row["scores"] == expected and row["error"] is None
    again, lines = grid(capsys, kept, data_file, "--epochs", "3", options=VARIED[2:] + VARIED[:2])
    assert lines == [f"4 of 4 runs are in {kept}"]
    by_values = sorted(again["runs"], key=lambda row: [row["values"][name] for name in ("lam", "fold")])
    assert by_values == sorted(report["runs"], key=lambda row: [*row["values"].values()])
    assert len(kept.read_text().splitlines()) == 4


def test_means_and_the_best_first(data_file, tmp_path, capsys):
    options = [*VARIED, "--mean", "fold", "--by", "test.letter", "--plot", tmp_path / "grid.png"]
    pytest.importorskip("matplotlib")
    report, _ = grid(capsys, tmp_path / "kept.jsonl", data_file, "--epochs", "3", options=options)
    for mean in report["means"]:
        rows = [row["scores"] for row in report["runs"] if row["values"]["lam"] == mean["values"]["lam"]]
        assert mean["runs"] == len(rows) == 2 and mean["values"].keys() == {"lam"}
        for score in ("objective", "test.letter", "test.word"):
            several = [row[score] for row in rows]
            assert mean["mean"][score] == pytest.approx(statistics.mean(several), rel=1e-12)
            assert mean["deviation"][score] == pytest.approx(statistics.stdev(several), rel=1e-9, abs=1e-12)
    letters = [mean["mean"]["test.letter"] for mean in report["means"]]
    assert letters == sorted(letters, reverse=True)
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")
    options = [*VARIED, "--mean", "fold", "--mean", "lam", "--by", "objective"]
    report, _ = grid(capsys, tmp_path / "kept.jsonl", data_file, "--epochs", "3", options=options)
    assert [mean["runs"] for mean in report["means"]] == [4]
    report, _ = grid(
        capsys, tmp_path / "kept.jsonl", data_file, "--epochs", "3", options=[*VARIED, "--by", "objective"]
    )
    objectives = [mean["mean"]["objective"] for mean in report["means"]]
    assert objectives == sorted(objectives) and len(objectives) == 4


def test_a_run_that_fails_is_not_kept_and_the_others_go_on(data_file, tmp_path, capsys):
    kept = tmp_path / "kept.jsonl"
    words = ["--optimizer", "sgd", "--epochs", "2"]
    report, lines = grid(capsys, kept, data_file, *words, options=["--vary", "step-size=1e200,0.1"], status=1)
    assert lines[-1].startswith("diptych grid: 1 of 2 runs failed; step-size=1e200: diverged in epoch 1")
    assert [row["error"] is None for row in report["runs"]] == [False, True]
    assert [(mean["runs"], mean["failed"]) for mean in report["means"]] == [(0, 1), (1, 0)]
    assert len(kept.read_text().splitlines()) == 1
    assert main(["grid", "--kept", str(kept), "--vary", "step-size=1e200,0.1", "train", str(data_file), *words]) == 1
    assert capsys.readouterr().out.splitlines()[1] == "1e200      failed     failed        failed"
    options = ["--vary", "step-size=1e200,1e250", "--by", "test.word", "--plot", str(tmp_path / "grid.png")]
    _, lines = grid(capsys, kept, data_file, *words, options=options, status=1)  # no run has a score
    assert lines[-1].startswith("diptych grid: 2 of 2 runs failed; step-size=1e200: diverged in epoch 1")


def test_words_of_the_command_name_what_varies(data_file, tmp_path, capsys):
    model = str(tmp_path / "model-{lam}-{fold}.npz")
    grid(capsys, tmp_path / "kept.jsonl", data_file, "--epochs", "1", "--save", model, options=VARIED)
    for lam, fold in itertools.product(LAMS, FOLDS):
        report, _ = said(capsys, "evaluate", model.format(lam=lam, fold=fold), data_file, "--fold", fold)
        assert report["trained"]["lam"] == float(lam)


def test_values_with_commas(tmp_path, capsys):
    """Between semicolons; a path of a sparse CRF is a run."""
    file = tmp_path / "train.txt"
    file.write_text("a X\nb Y\n\nb Y\na X\n\n")
    options = ["--vary", "columns=word,label;label,word", "--kept", str(tmp_path / "k"), "--quiet", "--json"]
    assert main(["grid", *options, "tag", "train", str(file), "--learner", "sparse-crf", "--path", "3"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [row["values"]["columns"] for row in rows] == ["word,label", "label,word"]
    assert all(row["scores"]["train.accuracy.token"] >= 0.5 for row in rows)


# processes ------------------------------------------------------------------------------------------------------------


@pytest.mark.beyond("starts clusters of processes")
def test_workers_give_the_scores_of_one_process(data_file, tmp_path, capsys):
    pytest.importorskip("distributed")
    found = [
        grid(capsys, tmp_path / f"{workers}.jsonl", data_file, options=[*VARIED, "--workers", workers])[0]["runs"]
        for workers in (0, 2)
    ]
    assert found[0] == found[1]


@pytest.mark.beyond("starts clusters of processes")
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_was_cut_goes_on(files, how, workers):
    """Cut in the middle, by Ctrl-C or by SIGKILL, the grid ends with what it kept; the same command goes on from it."""
    pytest.importorskip("distributed")
    values = ",".join(f"{k}e-3" for k in range(1, 25))
    where = [] if workers is None else ["--workers", workers]
    words = ["grid", "--json", "--kept", "kept.jsonl", "--vary", f"lam={values}", *where, "tag", "train", "part*.txt"]
    words += ["--optimizer", "lbfgs", "--epochs", "300", "--tol", "0"]
    process, kept = started(files, *words), files / "kept.jsonl"
    until(lambda: lines_of(kept) >= 2)
    os.killpg(process.pid, how)
    process.communicate(timeout=60)
    before = kept.read_bytes()
    whole = before[: before.rfind(b"\n") + 1]  # SIGKILL may cut the last line
    n = whole.count(b"\n")
    assert process.returncode == (130 if how == signal.SIGINT else -how) and 2 <= n < 24
    time.sleep(1.0)
    assert group_of(process) == []
    process = started(files, *words)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and err.startswith(f"{n} of 24 runs are in kept.jsonl\n  1 of {24 - n}: ")
    assert kept.read_bytes().startswith(whole) and kept.read_bytes().count(b"\n") == 24
    assert len(json.loads(out)["runs"]) == 24
