"""``train --learner sparse-crf``: a path and one beta, from training to labels; what is held out, Ctrl-C, logs,
pictures, errors.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.application.test_app import PNG, data_file, printed, refused, reported, run  # noqa: F401 (a fixture)
from conformance.application.test_tag import SENTENCES
from diptych.commands import learners
from diptych.files import load_model, load_sequences
from diptych.files.columns import load_columns
from diptych.pictures.plots import plot_path
from reference.models.token_templates import TOKEN_TEMPLATES

HOW = ["--learner", "sparse-crf"]


@pytest.fixture
def problem(backend, data_file):
    """The log loss that the command has of that file, or of some of its sequences."""
    data = load_sequences(data_file)
    model = backend.SequenceModel(3, data.labels)

    def objective(examples=slice(None)):
        part = data.take(np.arange(6)[examples])
        return backend.LogLoss(model, model.pack(part.X, part.Y))

    return objective


def test_a_path_from_training_to_labels(backend, data_file, problem, tmp_path, capsys):
    """Values as ``sparse_path`` has them; the last is saved, and is what evaluate and predict use, in both panels."""
    saved, log = tmp_path / "m.npz", tmp_path / "run.jsonl"
    how = [*HOW, "--path", 5, "--ratio", 0.02, "--alpha", 0.5, "--tol", 1e-9]
    status, out, err = run(backend, capsys, "train", data_file, *how, "--save", saved, "--log", log, "--json")
    report = json.loads(out)
    path = backend.sparse_path(problem(), alpha=0.5, count=5, ratio=0.02, tol=1e-9)
    assert status == 0 and report["success"] and report["chosen"] == 5 and len(report["values"]) == 5
    assert sum("iterations" in line for line in err.splitlines()) == 5  # progress, a line a value
    for value, point in zip(report["values"], path.points, strict=True):
        assert value["support"] == point.nonzeros and abs(value["beta"] - point.beta) <= 1e-15
        assert abs(value["objective"] - point.fun) <= 1e-12 and 0 <= value["gap"] <= 1e-9 * point.fun
        assert value["rejection"] == list(point.rejection) and value["reservation"] == list(point.reservation)
        assert value["solver_seconds"] >= 0 <= value["screening_seconds"] and "held_out" not in value
    _, w, info = load_model(saved, backend.module)
    np.testing.assert_allclose(w, np.asarray(path.weights(4)), atol=1e-9)
    assert info["alpha"] == 0.5 and info["beta"] == report["beta"] == report["values"][4]["beta"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["job"]["path"] == 5 and [line["value"] for line in lines[1:-1]] == [1, 2, 3, 4, 5]
    assert lines[-1]["success"] and lines[-1]["objective"] == report["objective"]
    status, out, err = run(backend, capsys, "train", data_file, *how, "--quiet", "--fold", 0)
    assert status == 0 and "5 values of beta" in out and "test  accuracy" in out and "1/5" not in err
    assert "(value 5 of 5; --held-out SHARE would choose one)" in out and "not converged" not in out
    status, out, _ = run(backend, capsys, "train", data_file, *how, "--epochs", 0)
    assert status == 0 and "not converged: 4 of the values" in out  # at the first, all weights are 0
    status, out, _ = run(backend, capsys, "train", data_file, *how, "--epochs", 0, "--held-out", 0.34)
    assert status == 0 and "of the values without what is held out" in out


def test_what_is_held_out_chooses(backend, data_file, problem, tmp_path, capsys):
    """The least loss, by solving for each value anew without what is held out; the weights are of all sequences."""
    how = [*HOW, "--path", 6, "--ratio", 1e-3, "--held-out", 0.34, "--rng", 3, "--tol", 1e-9, "--quiet"]
    saved, picture = tmp_path / "m.npz", tmp_path / "path.png"
    status, out, _ = run(backend, capsys, "train", data_file, *how, "--json", "--save", saved, "--plot", picture)
    report = json.loads(out)
    held = np.sort(np.random.default_rng(3).permutation(6)[[0, 3]])
    rest = np.setdiff1d(np.arange(6), held)
    losses = []
    for value in report["values"]:
        found = backend.solve_sparse(problem(rest), beta=value["beta"], tol=1e-9)
        losses.append(problem(held).value_and_gradient(found.x)[0])
        assert abs(value["held_out"] - losses[-1]) <= 1e-4 * losses[-1]
    k = int(np.argmin(losses))
    assert status == 0 and report["chosen"] == k + 1 and "chosen by 2 held-out examples" in report["message"]
    all_of_them = backend.solve_sparse(problem(), beta=report["values"][k]["beta"], tol=1e-9).x
    np.testing.assert_allclose(load_model(saved, backend.module)[1], np.asarray(all_of_them), atol=1e-3)
    assert picture.read_bytes().startswith(PNG)


@pytest.mark.beyond("long runs")
def test_a_path_ends_where_it_gains_no_more_and_warnings_are_said(backend, data_file, problem, capsys):
    """Below a tenth of beta_max four values a decade follow; at the end of a given path that still gains, a warning."""

    def report(*how):
        status, out, err = run(backend, capsys, "train", data_file, *HOW, "--tol", 1e-9, *how, "--json")
        assert status == 0 and all(f"warning: {line}\n" in err for line in json.loads(out)["warnings"])
        return json.loads(out)

    held_out = "--path", 3, "--held-out", 0.34, "--rng", 3
    ended, deep = report(*held_out, "--ratio", 0.1), report(*held_out)
    assert "0.1 of beta_max, is the best" in ended["warnings"][0] and not deep["warnings"]
    assert deep["values"][2]["share"] == pytest.approx(0.1) and ended["held_out"] > deep["held_out"]
    deeper = [value["share"] for value in deep["values"][3:]]
    np.testing.assert_allclose(deeper, 0.1 * 10.0 ** (-0.25 * np.arange(1, len(deeper) + 1)))
    losses = [value["held_out"] for value in deep["values"]]
    assert min(losses) == deep["held_out"] and losses[-2] - losses[-1] < 1e-3 * losses[0]
    alone = report("--path", 3)  # by the loss on all sequences, and the last is kept
    point = backend.solve_sparse(problem(), beta=alone["beta"], tol=1e-9)
    assert len(alone["values"]) > 3 and abs(alone["objective"] - point.fun) < 1e-8
    (line,) = report("--beta-share", 0.999)["warnings"]
    assert "is predicted everywhere in the training data" in line


def test_one_beta(backend, data_file, problem, tmp_path, capsys):
    """Given, or by its share of beta_max; rows of history in the log, which curves draws."""
    most, log, picture = backend.beta_max(problem()), tmp_path / "run.jsonl", tmp_path / "c.png"
    files = ["--log", log, "--plot", picture]
    status, out, _ = run(backend, capsys, "train", data_file, *HOW, "--beta-share", 0.25, *files, "--json")
    report = json.loads(out)
    result = backend.solve_sparse(problem(), beta=0.25 * most)
    assert status == 0 and report["beta"] == 0.25 * most and report["share"] == 0.25 and report["beta_max"] == most
    assert abs(report["objective"] - result.fun) <= 1e-12 and report["support"] == len(result.support)
    assert len(report["history"]) == report["iterations"] == result.nit and picture.read_bytes().startswith(PNG)
    status, out, _ = run(backend, capsys, "train", data_file, *HOW, "--beta", 0.25 * most, "--json")
    assert status == 0 and json.loads(out)["objective"] == report["objective"]
    for rule in ("count", "union", "none"):
        found = reported(backend, capsys, "train", data_file, *HOW, "--beta-share", 0.25, "--rule", rule)
        assert abs(found["objective"] - report["objective"]) <= 2e-6 * report["objective"]
        assert bool(found["reservation"]) == (rule != "none")
    assert "support 0 of" in printed(backend, capsys, "train", data_file, *HOW, "--beta", 10 * most)
    assert f"{report['iterations']:7}" in printed(backend, capsys, "curves", log)
    status, out, _ = run(backend, capsys, "train", data_file, *HOW, "--beta-share", 0.01, "--tol", 0, "--epochs", 3)
    assert status == 0 and "not converged: the duality gap is" in out


@pytest.mark.parametrize("rule", ["half-space", "l2-gap", "union", "count", "l1-gap"])
def test_positions_by_themselves(backend, data_file, tmp_path, capsys, rule):
    """Classes: the same optimum by rules that list outputs; a saved model labels each position."""
    data, saved = load_sequences(data_file), tmp_path / "m.npz"
    how = [*HOW, "--positions", "--beta-share", 0.1, "--tol", 1e-10, "--rule", rule, "--save", saved]
    status, out, _ = run(backend, capsys, "train", data_file, *how, "--json")
    report = json.loads(out)
    model = backend.MulticlassModel(3, data.labels)
    objective = backend.LogLoss(model, model.pack(np.concatenate(data.X), np.concatenate(data.Y)))
    result = backend.solve_sparse(objective, beta=report["beta"], tol=1e-10, rule=None)
    assert status == 0 and report["weights"] == 9 and report["reservation"]
    assert abs(report["beta"] - 0.1 * backend.beta_max(objective)) <= 1e-15
    assert abs(report["objective"] - result.fun) <= 1e-10 * result.fun
    assert report["train"]["letter"] == 1.0
    out = printed(backend, capsys, "predict", saved, data_file)
    assert out.split() == ["".join(data.labels[k] for k in y) for y in data.Y]


@pytest.mark.beyond("a long training through a command or learner")
def test_taggers(backend, tmp_path, capsys):
    """A column file: the path of the tagging model's log loss; the model is one for evaluate, predict and show."""
    bank, saved, picture = tmp_path / "bank.txt", tmp_path / "m.npz", tmp_path / "path.png"
    bank.write_text(SENTENCES)
    how = [*HOW, "--path", 3, "--ratio", 0.01, "--tol", 1e-9, "--templates", "words", "--quiet"]
    status, out, _ = run(
        backend, capsys, "tag", "train", bank, *how, "--test", bank, "--save", saved, "--plot", picture, "--json"
    )
    report = json.loads(out)
    sentences = load_columns(str(bank))
    Y = [each["label"] for each in sentences]
    model = backend.TaggingModel.of(sentences, Y, TOKEN_TEMPLATES["words"])
    path = backend.sparse_path(backend.LogLoss(model, model.pack(sentences, Y)), count=3, ratio=0.01, tol=1e-9)
    assert status == 0 and picture.read_bytes().startswith(PNG)
    assert [value["support"] for value in report["values"]] == [point.nonzeros for point in path.points]
    assert report["train"] == report["test"] and report["test"]["accuracy"]["token"] == 1.0
    assert reported(backend, capsys, "tag", "evaluate", saved, bank)["accuracy"] == report["test"]["accuracy"]
    status, out, _ = run(backend, capsys, "tag", "show", saved, "--top", 1000, "--json")
    shown = json.loads(out)
    assert (
        sum(map(len, shown["labels"].values())) + sum(move[2] != 0 for move in shown["transitions"])
        == report["support"]
    )
    assert f"plot {picture}" in printed(backend, capsys, "tag", "train", bank, "--epochs", 2, "--plot", picture)


@pytest.mark.parametrize("how", [[], ["--bits", 8], ["--pairs", "all", "--transitions", "bio"]])
@pytest.mark.parametrize("share", [0.2, 2.0])
def test_saved_taggers_have_no_weights_that_are_zero(backend, tmp_path, capsys, how, share):
    """The file's model has as many weights as the support, and the scores of the one that was trained; also where
    all are 0.
    """
    bank, saved = tmp_path / "bank.txt", tmp_path / "m.npz"
    bank.write_text(SENTENCES)
    how = [*how, *HOW, "--beta-share", share, "--tol", 1e-9, "--templates", "words", "--json", "--save", saved]
    _, out, _ = run(backend, capsys, "tag", "train", bank, *how)
    report = json.loads(out)
    model, w, _ = load_model(saved, backend.module)
    assert model.size == report["support"] == np.count_nonzero(w) and (model.size > 0) == (share < 1)
    assert model.vocabulary is None or len(model.vocabulary) <= model.size
    sentences = load_columns(str(bank))
    Y = [each["label"] for each in sentences]
    settings = {"pairs": "all" if "all" in how else "observed", "bits": 8 if "--bits" in how else None}
    settings["transitions"] = "bio" if "bio" in how else None
    whole = backend.TaggingModel.of(sentences, Y, TOKEN_TEMPLATES["words"], **settings)
    objective = backend.LogLoss(whole, whole.pack(sentences, Y))
    x = np.asarray(backend.solve_sparse(objective, beta=report["beta"], tol=1e-9).x)
    assert whole.size == report["weights"] > model.size
    for one, other in zip(model.split(w), whole.split(x), strict=True):
        np.testing.assert_allclose(np.sort(one[one != 0]), np.sort(other[other != 0]), atol=1e-4)
    for i in range(3):
        one = model.scores(model.pack(sentences), np.array([i]), w)
        other = whole.scores(whole.pack(sentences), np.array([i]), x)
        np.testing.assert_allclose(one.unary, other.unary, atol=1e-4)
        np.testing.assert_allclose(one.pairwise, other.pairwise, atol=1e-4)


@pytest.mark.beyond("a long training through a command or learner")
@pytest.mark.parametrize("held_out", [False, True])
def test_ctrl_c_keeps_the_values_there_are(backend, data_file, tmp_path, capsys, monkeypatch, held_out):
    """After three lines of progress; of what is held out, the values seen so far choose."""
    said, saved, log = [], tmp_path / "m.npz", tmp_path / "run.jsonl"

    def say(options, line):
        said.append(line)
        if len(said) == (5 + 1 + 3 if held_out else 3):
            raise KeyboardInterrupt

    monkeypatch.setattr(learners.SparseRun, "_say", say)
    how = [*HOW, "--path", 5, "--save", saved, "--log", log, "--plot", tmp_path / "p.png"]
    how += ["--held-out", 0.34] if held_out else []
    status, out, _ = run(backend, capsys, "train", data_file, *how)
    assert status == 130 and "not converged: Ctrl-C ended it" in out
    said.clear()
    status, out, _ = run(backend, capsys, "train", data_file, *how, "--json")
    report = json.loads(out)
    assert status == 130 and report["interrupted"] and not report["success"] and saved.exists()
    assert len(report["values"]) == (5 if held_out else 3)
    losses = [value["held_out"] for value in report["values"] if "held_out" in value]
    assert len(losses) == (3 if held_out else 0)
    assert report["chosen"] == (int(np.argmin(losses)) + 1 if held_out else 3)
    assert json.loads(log.read_text().splitlines()[-1])["interrupted"]
    assert "of a path of sparse CRFs, which train --plot draws" in refused(backend, capsys, "curves", log)


def test_nothing_to_tell_labels_by(backend, data_file, capsys):
    """One label: beta_max = 0."""
    np.savez(data_file, features=np.ones((3, 1)), labels=np.zeros(3, int), offsets=np.array([0, 2, 3]))
    assert "--path: no feature tells the labels from one another" in refused(backend, capsys, "train", data_file, *HOW)
    assert "support 0 of" in printed(backend, capsys, "train", data_file, *HOW, "--beta-share", 0.5)


@pytest.mark.beyond("a long training through a command or learner")
def test_pictures_of_paths(backend, problem, tmp_path):
    """From Python: with and without what is held out; the picture does not change the path."""
    path = backend.sparse_path(problem(), betas=[10.0, 0.1, 1e-3, 1e-6], tol=1e-3)
    plot_path(tmp_path / "plain.png", path, most=2)
    plot_path(tmp_path / "held.png", path, held_out=np.array([3.0, 2.0]), chosen=1)
    nothing = backend.sparse_path(problem(), betas=[100.0])
    plot_path(tmp_path / "nothing.png", nothing)
    for name in ("plain", "held", "nothing"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
    plot_path(tmp_path / "plain.PDF", path)
    assert (tmp_path / "plain.PDF").read_bytes().startswith(b"%PDF")
    plot_path(tmp_path / "plain.svg", path)
    assert b"<svg" in (tmp_path / "plain.svg").read_bytes()
    with pytest.raises(ValueError, match="plain.gif: expected a name that ends with .png, .pdf or .svg"):
        plot_path(tmp_path / "plain.gif", path)
