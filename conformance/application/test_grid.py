"""``diptych grid``: its runs are the commands that it stands for, on any workers, kept as they come."""

from __future__ import annotations

import itertools
import json
import os
import signal

import numpy as np
import pytest

from conformance.application.processes import ended, group_of, lines_of, started, until

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
        options = [*VARIED, *(word for name in mean for word in ("--mean", name)), "--by", by, "--plot", picture]
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


def test_values_with_commas(tmp_path, reference_cli):
    """Between semicolons; a path of a sparse CRF is a run."""
    file = tmp_path / "train.txt"
    file.write_text("a X\nb Y\n\nb Y\na X\n\n")
    options = ["--vary", "columns=word,label;label,word", "--kept", tmp_path / "k", "--quiet", "--json"]
    rows = json.loads(
        reference_cli.printed("grid", *options, "tag", "train", file, "--learner", "sparse-crf", "--path", 3)
    )["runs"]
    assert [row["values"]["columns"] for row in rows] == ["word,label", "label,word"]
    assert all(row["scores"]["train.accuracy.token"] >= 0.5 for row in rows)


@pytest.mark.beyond("starts clusters of processes")
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_was_cut_goes_on(files, how, workers):
    """Cut in the middle, by Ctrl-C or by SIGKILL, the grid ends with what it kept; the same command goes on from it."""
    pytest.importorskip("distributed")
    values, where = ",".join(f"{k}e-3" for k in range(1, 25)), [] if workers is None else ["--workers", workers]
    words = ["grid", "--json", "--kept", "kept.jsonl", "--vary", f"lam={values}", *where, "tag", "train", "part*.txt"]
    words += ["--optimizer", "lbfgs", "--epochs", "300", "--tol", "0"]
    process, kept = started(files, *words), files / "kept.jsonl"
    until(lambda: lines_of(kept) >= 2)
    os.killpg(process.pid, how)
    status, _, _ = ended(process)
    before = kept.read_bytes()
    whole = before[: before.rfind(b"\n") + 1]  # SIGKILL may cut the last line
    n = whole.count(b"\n")
    assert status == (130 if how == signal.SIGINT else -how) and 2 <= n < 24
    until(lambda: group_of(process) == [], 5)
    assert group_of(process) == []
    status, out, err = ended(started(files, *words))
    assert status == 0 and err.startswith(f"{n} of 24 runs are in kept.jsonl\n  1 of {24 - n}: ")
    assert kept.read_bytes().startswith(whole) and kept.read_bytes().count(b"\n") == 24
    assert len(json.loads(out)["runs"]) == 24
