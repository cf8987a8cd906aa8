"""``train`` with other learners: several kernels, sparse CRFs at one beta and along a path, and any regularizer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import accelerated
import reference
from conformance.application.test_app import PNG
from conformance.application.test_tag import SENTENCES
from conformance.tolerances import close
from diptych.commands import learners
from diptych.estimators import SparseClassifier, SparseCRF, SparseCRFPath
from diptych.files import load_log, load_model, load_sequences, save_model
from diptych.sparse_fits import RULES
from reference.models.kernel_names import described, named, restored


@pytest.mark.parametrize("tau", [0.0, 0.01, 1e6])
def test_a_file_of_kernels_is_all_that_a_prediction_needs(backend, tmp_path, rng, tau):
    """In both panels; only positions with coefficients are in it. A large penalty prunes everything."""
    k, how = backend.kernels, {"cost": [[0, 2, 1], [1, 0, 1], [3, 1, 0]], "transitions": "each"}
    every = [k.Linear(True), k.Mean([k.Polynomial(3, 0.5), k.B1Spline(1.5)]), k.Explicit(), k.Gaussian(2.0)]
    model = backend.KernelSequenceModel(every[3:] if tau else every, [*"xyz"], **how)
    X = [rng.normal(size=(n, 3)) for n in (2, 4, 1, 3, 0)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    data = model.pack(X, Y, like=np.zeros(0, np.float32)) if tau else model.pack(X, Y)
    penalty = {"lam": 0.0, "penalty": backend.L1(tau)} if tau else {"lam": 0.05}
    weights = backend.mkl(model, data, step_size=0.3, epochs=3, rng=0, **penalty).x
    save_model(tmp_path / "m.npz", model, weights, {"C": 10})
    new = [rng.normal(size=(n, 3)) for n in (5, 0, 30, 1)]
    for panel in (reference, accelerated):
        loaded, w, info = load_model(tmp_path / "m.npz", panel)
        assert type(loaded) is panel.KernelSequenceModel and loaded.settings() == model.settings() and info == {"C": 10}
        assert loaded.groups[0] == model.groups[0] and w.rows.shape[0] == model.support(weights).rows.shape[0]
        assert w.rows.dtype == (np.float32 if tau else np.float64) and (w.rows.shape[0] == 0) == (tau > 1)
        assert np.array_equal(w.beta, weights.beta)
        assert all(map(np.array_equal, loaded.predict(w, new), model.predict(weights, new)))
    with pytest.raises(ValueError, match="w: expected finite weights, got nan or inf in transitions"):
        save_model(tmp_path / "m.npz", model, weights._replace(transitions=weights.transitions + np.inf))
    with pytest.raises(TypeError, match="weights: expected KernelWeights"):
        save_model(tmp_path / "m.npz", model, np.zeros(3))


def test_kernels_have_names_and_most_have_a_file_form(backend, tmp_path, rng):
    X, k = [rng.normal(size=(30, 2)) for _ in range(3)], backend.kernels
    *found, both, spline = named("linear, quadratic,gaussian:2.5,polynomial:3,explicit,linear+gaussian,spline:0.5", X)
    assert found == [k.Linear(True), k.Polynomial(2), k.Gaussian(2.5), k.Polynomial(3), k.Explicit(True)]
    assert list(both.parts) == [k.Linear(True), k.Gaussian(5.0)]
    assert abs(np.mean(spline(np.concatenate(X)) == 0) - 0.5) < 0.02
    assert all(restored(json.loads(json.dumps(described(kernel)))) == kernel for kernel in [*found, spline])
    for name, kernel in (
        ("Function", k.Function(lambda X, Y: X @ Y.T)),
        ("Precomputed", k.Mean([k.Linear(), k.Precomputed(np.eye(2))])),
        ("Mine", type("Mine", (k.Gaussian,), {})(1.0)),  # it has the name of none of ours
    ):
        model = backend.KernelSequenceModel([kernel], 2)
        data = model.pack([[[0.0], [1.0]]], [[0, 1]])
        with pytest.raises(TypeError, match=f"groups: {name} cannot be saved; expected kernels among B1Spline"):
            save_model(tmp_path / "m.npz", model, model.zeros(data))
    assert not list(tmp_path.iterdir())


def test_kernels_from_training_to_labels(data_file, cli):
    """lam is 1/(C n); beta has a share for each kernel and the transitions."""
    mkl = "train toy.npz --learner mkl"
    how = f"{mkl} --kernels linear,gaussian,explicit --C 20 --epochs 5 --rng 3"
    report, out = cli.reported(f"{how} --save m.npz --log run.jsonl"), cli.printed(how)
    assert report["lam"] == 1 / (20 * 6) and len(report["norms"]) == 5
    assert list(report["beta"]) == ["linear", "gaussian", "explicit", "transitions"]
    assert abs(sum(report["beta"].values()) - 1) < 1e-12 and report["train"]["letter"] == 1.0
    assert len(Path("run.jsonl").read_text().splitlines()) == 7
    assert list(cli.reported(f"{how} --transitions each")["beta"]) == ["linear", "gaussian", "explicit"]
    assert "beta" in out and "gaussian 0." in out and "accuracy by letter 100.00 %" in out
    assert "letters has 128 features" in cli.refused("evaluate m.npz letters")
    for more, lam in ("", 1 / 600), ("--lam 0.3", 0.3):
        assert cli.reported(f"{mkl} --epochs 1 {more}")["lam"] == lam


NAMED = {  # with the value, of the weights w and the norms n of their groups
    "l1": (["--tau", 0.01], lambda w, n: 0.01 * np.abs(w).sum()),
    "l2": (["--lam", 0.1], lambda w, n: 0.05 * w @ w),
    "elastic-net": (["--tau", 0.01, "--lam", 0.1], lambda w, n: 0.01 * np.abs(w).sum() + 0.05 * w @ w),
    "l21": (["--tau", 0.01], lambda w, n: 0.01 * n.sum()),
    "squared-l21": (["--lam", 0.1, "--groups", "labels"], lambda w, n: 0.05 * n.sum() ** 2),
    "elastic-net-mkl": (["--tau", 0.01, "--lam", 0.1], lambda w, n: 0.01 * n.sum() + 0.05 * w @ w),
    "non-sparse-mkl": (["--lam", 0.1, "--power", 1.5], lambda w, n: 0.05 * (n**1.5).sum()),
    "sparse-group-lasso": (
        ["--tau", 0.01, "--group-tau", 0.02],
        lambda w, n: 0.01 * np.abs(w).sum() + 0.02 * n.sum(),
    ),
    "l21-ball": (["--radius", 1.0, "--groups", "groups.txt"], lambda w, n: 0.0 if n.sum() <= 1.0 + 1e-9 else np.inf),
}


@pytest.mark.parametrize("name", NAMED)
def test_every_regularizer_by_name(backend, data_file, tmp_path, cli, name, monkeypatch):
    """The report's objective is F + R at the saved model, with R and the groups written out here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "groups.txt").write_text("0\n-1\n1\n")
    (options, value), train = NAMED[name], ["train", data_file, "--optimizer", "online-proximal", "--epochs", 3]
    found = cli.reported(*train, "--regularizer", name, *options, "--save", "model.npz")
    model, w, info = load_model("model.npz", backend.module)
    F, L = model.n_features, model.n_labels
    rows, number = (len(w) - L * L) // L, {"groups.txt": [0, -1, 1]}.get(options[-1], list(range(F)))
    rest = max(number) + 1  # of what is no feature
    groups = np.append(np.repeat([*number, *[rest] * (rows - F)], L), np.full(L * L, rest))
    groups = np.tile(np.arange(L), rows + L) if options[-1] == "labels" else groups
    norms = np.array([np.linalg.norm(w[groups == k]) for k in range(groups.max() + 1)])
    letters = load_sequences(data_file)
    F_w = backend.LogLoss(model, model.pack(letters.X, letters.Y)).value_and_gradient(w)[0]
    close(found["objective"], F_w + value(w, norms))
    assert info["regularizer"] == name and len(found["history"]) == 3 and np.any(w != 0)


TRAIN = "train toy.npz --learner sparse-crf"
SPARSE = {  # the words of a command, and the settings of the learner
    "--path 5 --ratio 0.02 --alpha 0.5 --held-out 0.34": {"count": 5, "ratio": 0.02, "alpha": 0.5},
    "--path 3 --held-out 0.34": {"count": 3},
    **{f"--beta-share 0.25 --rule {rule}": {"beta_share": 0.25} for rule in ("count", "union", "none")},
    **{
        f"--positions --beta-share 0.1 --rule {rule}": {"beta_share": 0.1, "fit_intercept": False} for rule in RULES[:5]
    },
}


@pytest.mark.filterwarnings("ignore:sparse_path")
@pytest.mark.parametrize("words", SPARSE)
def test_sparse_weights_are_those_of_the_learners(backend, data_file, cli, words):
    """Which are at the optimum; reports, logs and files have what the learner has, and labels are its predictions."""
    path, chains, data = "--path" in words, "--positions" not in words, load_sequences(data_file)
    status, out, err = cli.run(f"{TRAIN} {words} --tol 1e-10 --rng 3 --save m.npz --log run.jsonl --json")
    settings = {"tol": 1e-10, "random_state": 3, "panel": backend.__name__, **SPARSE[words]}
    learner = SparseCRFPath(held_out=0.34, **settings) if path else SparseCRF(**settings) if chains else None
    X, Y = (data.X, data.Y) if chains else (np.concatenate(data.X), np.concatenate(data.Y))
    report, made = json.loads(out), (learner or SparseClassifier(**settings)).fit(X, Y)
    _, w, info = load_model("m.npz", backend.module)
    np.testing.assert_allclose(w, made.weights_, atol=1e-4)
    close([report["beta"], report["beta_max"], info["beta"]], [made.beta_, made.beta_max_, made.beta_])
    assert status == 0 and report["success"] and report["weights"] == len(w)
    found = np.concatenate([np.atleast_1d(y) for y in made.predict(X)])
    assert report["support"] == np.count_nonzero(w) and report["train"]["letter"] == np.mean(found == np.hstack(data.Y))
    assert "".join(cli.printed("predict m.npz toy.npz").split()) == "".join(data.labels[k] for k in found)
    first, *lines, last = map(json.loads, Path("run.jsonl").read_text().splitlines())
    assert last["success"] and last["objective"] == report["objective"] and first["command"] == "train"
    if path:
        values = report["values"]
        close([value["beta"] for value in values], made.betas_)
        np.testing.assert_allclose([value["held_out"] for value in values], made.held_out_losses_[:, 0], rtol=1e-3)
        k = int(np.argmin([value["held_out"] for value in values]))
        assert report["chosen"] == k + 1 and report["beta"] == values[k]["beta"]
        assert "chosen by 2 held-out examples" in report["message"]
        assert {line["value"] for line in lines} == {*range(1, len(values) + 1)}
        assert sum("iterations" in line for line in err.splitlines()) >= len(values)  # progress, a line a value
    else:
        assert len(report["history"]) == report["iterations"] == len(lines)
        assert bool(report["reservation"]) == ("none" not in words)
        assert f"{report['iterations']:7}" in cli.printed("curves run.jsonl")


@pytest.mark.beyond("a long training through a command or learner")
def test_what_is_said_of_sparse_weights(data_file, cli):
    """Which value of a path, what has not converged, warnings; where no feature tells labels, beta_max = 0."""
    pytest.importorskip("matplotlib")
    path = f"{TRAIN} --path 5 --ratio 0.02"
    out = cli.printed(f"{path} --quiet --fold 0 --plot p.png")
    assert "5 values of beta" in out and "test  accuracy" in out and "not converged" not in out
    assert "(value 5 of 5; --held-out SHARE would choose one)" in out and Path("p.png").read_bytes().startswith(PNG)
    assert "not converged: 4 of the values" in cli.printed(f"{path} --epochs 0")  # at the first, all weights are 0
    for more, message in (
        ("--path 3 --held-out 0.34 --ratio 0.1 --rng 3", "0.1 of beta_max, is the best"),
        ("--beta-share 0.999", "is predicted everywhere in the training data"),
    ):
        status, out, err = cli.run(f"{TRAIN} {more} --json")
        (line,) = json.loads(out)["warnings"]
        assert status == 0 and message in line and f"warning: {line}\n" in err
    report = cli.reported(f"{TRAIN} --beta-share 0.25 --plot c.png")
    assert Path("c.png").read_bytes().startswith(PNG)
    assert cli.reported(f"{TRAIN} --beta {report['beta']!r}")["objective"] == report["objective"]
    assert "support 0 of" in cli.printed(f"{TRAIN} --beta {10 * report['beta_max']}")
    assert "not converged: the duality gap is" in cli.printed(f"{TRAIN} --beta-share 0.01 --tol 0 --epochs 3")
    np.savez("toy.npz", features=np.ones((3, 1)), labels=np.zeros(3, int), offsets=[0, 2, 3])
    assert "--path: no feature tells the labels from one another" in cli.refused(TRAIN)
    assert "support 0 of" in cli.printed(f"{TRAIN} --beta-share 0.5")


@pytest.mark.parametrize("how", ["", "--bits 8", "--pairs all --transitions bio"])
@pytest.mark.parametrize("share", [0.2, 2.0])
def test_saved_taggers_have_no_weights_that_are_zero(write, cli, how, share):
    """The file's model has as many weights as the support; also where all are 0. It scores as the whole one."""
    write(SENTENCES, "bank.txt")
    sparse = f"--learner sparse-crf --beta-share {share} --tol 1e-9 --templates words"
    report = cli.reported(f"tag train bank.txt {how} {sparse} --save m.npz")
    model, w, _ = load_model("m.npz", cli.panel)
    assert report["weights"] > model.size == report["support"] == np.count_nonzero(w)
    assert (model.size > 0) == (share < 1) and (model.vocabulary is None or len(model.vocabulary) <= model.size)
    assert cli.reported("tag evaluate m.npz bank.txt")["accuracy"] == report["train"]["accuracy"]
    shown = cli.reported("tag show m.npz --top 1000")
    moves = sum(move[2] != 0 for move in shown["transitions"])
    assert sum(map(len, shown["labels"].values())) + moves == report["support"]


@pytest.mark.beyond("a long training through a command or learner")
def test_ctrl_c_keeps_the_values_there_are(data_file, cli, monkeypatch):
    """It comes after nine lines of progress; of what is held out, the values seen so far choose."""
    said = []

    def say(options, line):
        said.append(line)
        if len(said) == 5 + 1 + 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(learners.Values, "say", say)
    words = f"{TRAIN} --path 5 --save m.npz --log run.jsonl --held-out 0.34"
    assert "not converged: Ctrl-C ended it" in cli.run(words)[1]
    said.clear()
    status, out, _ = cli.run(f"{words} --json")
    report = json.loads(out)
    assert status == 130 and report["interrupted"] and not report["success"] and Path("m.npz").exists()
    assert report["message"].endswith("as Ctrl-C ended the comparison") and len(report["values"]) == 5
    losses = [value["held_out"] for value in report["values"] if "held_out" in value]
    assert len(losses) == 3 and report["chosen"] == int(np.argmin(losses)) + 1
    assert load_log("run.jsonl").outcome["interrupted"]
    assert "of a path of sparse CRFs, which train --plot draws" in cli.refused("curves run.jsonl")
