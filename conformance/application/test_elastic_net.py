"""L1 and the elastic net of taggers: the optimum by its certificate and by another method, crfsuite's scale, paths,
what is saved.
"""

from __future__ import annotations

import json
import pickle
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from conformance.tolerances import close
from diptych.elastic_net import elastic_net, elastic_net_path, without_zeros
from diptych.files import load_log, load_model, save_model
from diptych.panels import PANELS
from reference import beta_max

TEXT = "the D B-X\nduck N I-X\nswims V O\n\na D B-X\nduck N I-X\n\nthe D B-X\ndog N I-X\nsees V O\na D B-X\n"
TEXT += "duck N I-X\n\nit P B-X\nswims V O\n"
X = [[{"w": "the", "z": 0.5}, {"w": "duck"}, {"w": "swims"}], [{"w": "a", "z": -1.0}, {"w": "duck"}], [], [{"w": "it"}]]
Y = [["B", "I", "O"], ["B", "I"], [], ["B"]]


@pytest.fixture(params=PANELS)
def objective(request):
    """The log loss of named features, all pairs and transitions among the weights."""
    panel = import_module(request.param)
    model = panel.TaggingModel.of(X, Y, None, pairs="all")
    return panel.LogLoss(model, model.pack(X, Y))


def by_bounds(objective, l1, lam):
    """The least value over the positive and the negative part of the weights, both >= 0, where it is smooth."""
    d = objective.model.size

    def smooth(parts):
        w = parts[:d] - parts[d:]
        value, gradient = objective.value_and_gradient(w)
        gradient = gradient + lam * w
        return value + l1 * parts.sum() + 0.5 * lam * w @ w, np.concatenate([gradient, -gradient]) + l1

    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-10}
    return minimize(smooth, np.zeros(2 * d), jac=True, bounds=[(0, None)] * (2 * d), method="L-BFGS-B", options=options)


@pytest.mark.parametrize(("l1", "lam"), [(0.02, 0.01), (1e-4, 1e-3), (0.05, 0.0), (1e-3, 10.0), (0.2, 1e-9)])
def test_the_solution_is_the_optimum(objective, l1, lam):
    """By the optimality conditions, and by another method; the certificate bounds the distance from either."""
    tol = 1e-11 if lam > 0 else 1e-8  # a dual that rounding hides from 1e-16 on is maximised to 1e-8 in its variables
    result = elastic_net(objective, l1=l1, lam=lam, tol=tol, iterations=100000)
    w, gap = result.x, result.certificate
    assert result.success and 0 <= gap <= tol * result.fun + 1e-12
    close(result.fun, objective.value_and_gradient(w)[0] + l1 * np.sum(np.abs(w)) + 0.5 * lam * w @ w)
    rough = elastic_net(objective, l1=l1, lam=lam, tol=1e-2)
    assert rough.fun - result.fun <= rough.certificate <= 1e-2 * rough.fun
    other = by_bounds(objective, l1, lam).fun
    assert result.fun - gap - 1e-12 <= other and result.fun <= other + gap + 1e-12

    G = objective.value_and_gradient(w)[1]
    off = np.abs(G + lam * w + l1 * np.sign(w))[w != 0]
    # a step of 1/L on one weight, which may not cross 0, gains at least its residual times the shorter move / 2
    L = objective.smoothness(1.0) + lam
    gain = 0.5 * off * np.minimum(off / L, np.abs(w[w != 0]))
    assert np.all(gain <= gap + 1e-12) and np.max(off, initial=0.0) < 1e-4
    beyond = np.maximum(np.abs(G[w == 0]) - l1, 0.0)
    assert np.all(beyond**2 / (2 * L) <= gap + 1e-12)
    assert np.array_equal(result.support, np.flatnonzero(w)) and len(result.support) > 0
    assert len(result.support) < len(w) or l1 < 0.02


def test_above_the_largest_l1_all_weights_are_0(objective):
    """And from a start they come back to 0 exactly."""
    most = beta_max(objective)
    close(most, np.max(np.abs(objective.value_and_gradient(objective.zeros())[1])))
    for l1 in (1.01 * most, 3 * most, 1e6):
        w = elastic_net(objective, np.full(objective.model.size, 0.3), l1=l1, lam=0.1, tol=1e-12).x
        assert not np.any(w)
    assert np.any(elastic_net(objective, l1=0.9 * most, lam=0.1).x)


def test_a_checkpoint_of_other_scores_is_refused(objective, tmp_path):
    """The panels have different solvers; over other data the objective is another."""
    elastic_net(objective, l1=0.02, lam=0.01, iterations=2, checkpoint=tmp_path / "run.npz")
    panel = import_module(next(name for name in PANELS if name != type(objective).__module__.partition(".")[0]))
    model = panel.TaggingModel.of(X, Y, None, pairs="all")
    with pytest.raises(ValueError, match="is of a run with objective = (ElasticNetCRF|LogLoss), this one has"):
        elastic_net(panel.LogLoss(model, model.pack(X, Y)), l1=0.02, lam=0.01, resume=tmp_path / "run.npz")
    other = type(objective)(objective.model, objective.model.pack(X, [y[::-1] for y in Y]))
    with pytest.raises(ValueError, match="is of other data: the objective at its weights is"):
        elastic_net(other, l1=0.02, lam=0.01, resume=tmp_path / "run.npz")


def test_what_is_left_without_zeros_scores_alike(objective, tmp_path):
    """To the bit, features that it has not seen among them; a file with the zeros is read, too."""
    model, panel = objective.model, type(objective).__module__.partition(".")[0]
    for l1 in (0.02, 1e3):
        w = elastic_net(objective, l1=l1, lam=0.01).x
        small, v = without_zeros(model, w)
        assert np.all(v) and len(v) == small.size == np.count_nonzero(w)
        save_model(tmp_path / "small.npz", small, v), save_model(tmp_path / "large.npz", model, w)
        for each in ((small, v), *(load_model(tmp_path / f"{name}.npz", panel)[:2] for name in ("small", "large"))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # none of the attributes has weights
                data = [one.pack([*X[:2], [{"w": "new"}]]) for one in (model, each[0])]
            ours, theirs = model.scores(data[0], np.arange(3), w), each[0].scores(data[1], np.arange(3), each[1])
            assert np.array_equal(ours.unary, theirs.unary) and np.array_equal(ours.pairwise, theirs.pairwise)


VALUES = [0.1, 0.03, 0.01]


def go(objective, **options):
    return elastic_net_path(objective, VALUES, lam=0.01, tol=1e-9, **options)


def points(path):
    return [(p.beta, p.fun, p.gap, p.iterations, p.support.tolist(), p.values.tolist()) for p in path.points]


def test_a_path_is_a_solution_at_each_value(objective):
    """Within the certificates of the path and of the values by themselves, from the same starts."""
    path, w0 = go(objective), None
    for k, l1 in enumerate(VALUES):
        result, point = elastic_net(objective, w0, l1=l1, lam=0.01, tol=1e-9), path.points[k]
        assert point.success and point.gap <= 1e-9 * point.fun
        assert point.fun - point.gap <= result.fun and result.fun - result.certificate <= point.fun
        w0 = result.x


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_path_goes_on_from_its_checkpoint(objective, tmp_path, after):
    """Ctrl-C after a value, and as it is told: the points are those of an uncut path, to the bit."""
    whole, file, seen = go(objective), tmp_path / "path.npz", []

    def stop(point):
        seen.append(point.beta)
        if len(seen) == after:
            raise KeyboardInterrupt

    cut = go(objective, callback=stop, checkpoint=file)
    assert cut.interrupted and points(cut) == points(whole)[:after] and not whole.interrupted
    told = []
    again = go(objective, callback=lambda point: told.append(point.beta), resume=file, checkpoint=file)
    assert points(again) == points(whole) and told == VALUES
    assert points(go(objective, resume=file)) == points(whole)  # nothing is left to do
    with pytest.raises(ValueError, match=r"path.npz is of a run with lam = 0.01, this one has 0.02"):
        elastic_net_path(objective, VALUES, lam=0.02, tol=1e-9, resume=file)
    model = objective.model
    other = type(objective)(model, model.pack(X, [y[::-1] for y in Y]))
    with pytest.raises(ValueError, match=r"path.npz is of other data: the objective at its last weights is"):
        go(other, resume=file)
    elastic_net(objective, l1=0.1, lam=0.01, checkpoint=file)
    with pytest.raises(ValueError, match=r"resume: .*path.npz is of a single run, not of a path"):
        go(objective, resume=file)
    with pytest.raises(ValueError, match=r"l1s\[1\]: expected a finite number > 0, got 0"):
        elastic_net_path(objective, [0.1, 0.0], lam=0.01)
    with pytest.raises(ValueError, match=r"lam: expected .*, got -1"):
        elastic_net_path(objective, [0.1], lam=-1)


def test_both_scales_are_one(cli, write):
    """Four sentences, so that all quotients are exact: the weights have the same bits, and those of the definition."""
    write(TEXT, "a.txt")
    train = "tag train a.txt --tol 1e-9 --quiet"
    ours = cli.reported(f"{train} --l1 0.0625 --lam 0.03125 --save ours.npz")
    theirs = cli.reported(f"{train} --c1 0.25 --c2 0.0625 --save theirs.npz")
    assert ours["job"] == theirs["job"] and ours["objective"] == theirs["objective"] and ours["job"]["l1"] == 0.0625
    (_, w, info), (_, v, _) = (load_model(f"{name}.npz", cli.panel) for name in ("ours", "theirs"))
    assert np.array_equal(w, v) and np.all(w) and len(w) == ours["nonzeros"] < ours["weights"]
    assert info["l1"] == 0.0625 and info["lam"] == 0.03125
    assert cli.reported("tag evaluate ours.npz a.txt")["accuracy"] == ours["train"]["accuracy"]
    by_default = cli.reported(f"{train} --c1 0.25")
    assert by_default["job"]["lam"] == 0.5  # c2 = 1, as in crfsuite
    plain, c2 = (cli.reported(f"{train} {how}") for how in ("--lam 0.03125", "--c2 0.0625 --c1 0"))
    assert plain["objective"] == c2["objective"] and c2["job"]["optimizer"] == "lbfgs"


def test_a_development_file_chooses(cli, write):
    """The value with the best score, the first of several; the table, the log and the model say so."""
    write(TEXT, "a.txt"), write(TEXT.partition("\n\n")[0] + "\n", "dev.txt")
    words = "tag train a.txt --path 5 --c1 0.02 --c2 0.1 --quiet --tol 1e-8"
    report = cli.reported(f"{words} --dev dev.txt --save m.npz --log l.jsonl --checkpoint c.npz")
    values = report["values"]
    scores, sizes = ([row[name] for row in values] for name in ("dev", "nonzeros"))
    assert report["chosen"] == 1 + int(np.argmax(scores)) and report["nonzeros"] == sizes[report["chosen"] - 1]
    assert sizes[0] == 0 < sizes[-1] and values[-1]["l1"] == 0.02 / 4 and values[-1]["c1"] == 0.02
    close(np.diff(np.log([row["l1"] for row in values])), np.full(4, np.log(values[1]["l1"] / values[0]["l1"])))
    assert all(row["solved"] and row["gap"] <= 1e-8 * row["objective"] + 1e-12 for row in values)
    _, w, info = load_model("m.npz", cli.panel)
    assert len(w) == report["nonzeros"] and np.all(w) and info["l1"] == report["l1"]
    assert cli.reported("tag evaluate m.npz dev.txt")["chunks"]["f1"] == max(scores)
    lines = cli.printed(f"{words} --dev dev.txt --resume c.npz").splitlines()
    assert lines[1].split()[:4] == ["value", "l1", "c1", "nonzeros"] and lines[1].endswith("F1")
    assert [int(line.split()[3]) for line in lines[2:7]] == sizes
    rows = [json.loads(line) for line in Path("l.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["dev"] for row in rows[1:-1]] == scores and load_log("l.jsonl").outcome["success"]
    last = cli.reported(words)
    assert last["chosen"] == 5 and last["dev"] is None and "--dev FILE would choose one" in last["message"]
    parts = cli.reported(f"{words} --dev dev.txt --partitions 2")
    assert np.allclose(*([row["objective"] for row in each["values"]] for each in (parts, report)), rtol=1e-7)
    assert [row["nonzeros"] for row in parts["values"]] == sizes


@pytest.mark.parametrize("panel", PANELS)
def test_a_labeler_keeps_what_is_not_0(panel):
    """By name; pickled, cloned and searched over; it starts again from its weights."""
    base = pytest.importorskip("sklearn.base")
    from diptych.estimators import SequenceLabeler

    labeler = SequenceLabeler(l1=0.03, lam=0.01, pairs="all", panel=panel, options={"tol": 1e-10}).fit(X, Y)
    model = import_module(panel).TaggingModel.of(X, Y, None, pairs="all")
    loss = import_module(panel).LogLoss(model, model.pack(X, Y))
    result = elastic_net(loss, l1=0.03, lam=0.01, tol=1e-10)
    assert np.array_equal(labeler.weights_, result.x[result.x != 0]) and labeler.result_.fun == result.fun
    assert labeler.model_.size == len(labeler.weights_) < model.size and labeler.result_.x is labeler.weights_
    best = [[model.labels[i] for i in y] for y in model.predict(loss.data, None, result.x)]
    again = pickle.loads(pickle.dumps(labeler))
    assert labeler.predict(X) == again.predict(X) == best
    assert base.clone(labeler).get_params() == labeler.get_params()
    assert labeler.set_params(warm_start=True).fit(X, Y).n_iter_ <= 1 and labeler.result_.fun <= result.fun + 1e-9
