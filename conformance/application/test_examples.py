"""Examples of learners: errors, forms, saved learners; what is said without a kernel and of a run's end."""

from __future__ import annotations

import itertools
import json
import warnings
from functools import partial

import numpy as np
import pytest

import accelerated
import diptych.estimators as learners
import reference
from conformance.application.conftest import Command
from conformance.specimens.pages import entries
from conformance.tolerances import close
from diptych import certificates
from diptych.certificates import certified
from diptych.commands import solvers
from diptych.estimators import MulticlassClassifier, SequenceLabeler, SparseClassifier
from diptych.estimators.protocol import ConvergenceWarning
from diptych.files import load_model, save_model
from diptych.files.models import SETTINGS
from diptych.panels import PANELS
from reference.example_errors import ExampleError
from reference.models.token_templates import attributes_of

pytestmark = pytest.mark.filterwarnings("ignore::diptych.estimators.protocol.ConvergenceWarning")
NAN, ONES = float("nan"), np.ones((2, 2))
NAMED, LABELS = [[{"size": 1.0}, {"size": 2.0}]] * 2, [["A", "B"], ["B", "A"]]
TOKENS = [[{"tag": "D", "word": "the"}, {"tag": "N"}], [{"tag": "N"}, {"tag": "V"}]]
IMAGE = (np.ones((2, 1)), [[0, 1]], np.ones((1, 1)))
PARSER = {"templates": [("h.tag", "m.tag")], "bits": 6}


class Frame(dict):
    """What Diptych asks of a data frame; iterated, it gives its columns."""

    columns = property(dict.keys)

    def __len__(self):
        return len(next(iter(self.values())))

    def to_dict(self, orient):
        records = [dict(zip(self, row, strict=True)) for row in zip(*self.values(), strict=True)]
        return dict(self) if orient == "list" else records


@pytest.mark.parametrize(("entry", "message"), entries("wrong_examples.txt"))
def test_errors_name_the_place(backend, entry, message):
    every = {name: partial(getattr(learners, name), panel="reference") for name in learners.__all__}
    with pytest.raises(ExampleError) as error:
        eval(entry, {**globals(), **every, "b": backend})
    place, _, problem = message.partition(": ")
    assert str(error.value).startswith(f"{place}: ")
    assert all(part in str(error.value) for part in problem.split(".*"))


def test_other_forms_of_examples_are_the_same_examples(backend, estimators):
    """Generators, data frames and a dictionary for each token are packed and learned as lists and columns are."""
    model = backend.SequenceModel(2, ["A", "B"])
    packed = model.pack((Frame(a=[1.0, 0.0], b=[0.0, 2.0]) for _ in range(2)), (iter(y) for y in LABELS))
    expected = model.pack([np.diag([1.0, 2.0])] * 2, LABELS)
    assert packed.rows.data.tolist() == expected.rows.data.tolist()
    assert packed.labels.tolist() == expected.labels.tolist()
    X = [[{"w": "the", "size": 1.0}, {"w": "duck", "size": 2.0}], [{"w": "duck", "size": 0.5}]]
    frames = [Frame({"w": ["the", "duck"], "size": [1.0, 2.0]}), Frame({"w": ["duck"], "size": [0.5]})]
    Y = [["D", "N"], ["N"]]
    for make in (estimators.SequenceLabeler, estimators.SparseCRF):
        plain = make().fit(X, Y)
        for given, labels in ((frames, [np.array(y, dtype=object) for y in Y]), ((x for x in X), (y for y in Y))):
            learner = make().fit(given, labels)
            close(learner.coef_, plain.coef_)
            assert learner.model_.vocabulary == plain.model_.vocabulary == ("w:the", "size", "w:duck")
            assert learner.predict(frames) == learner.predict(x for x in X) == plain.predict(X)
            assert learner.score((x for x in X), (y for y in Y)) == plain.score(frames, Y)
    hashed = estimators.SequenceLabeler(bits=6, lam=1.0, random_state=0)
    assert hashed.partial_fit(frames, Y, ["D", "N"]).partial_fit(frames, Y).predict(frames) == hashed.predict(X)
    columns = [{"tag": [token["tag"] for token in x]} for x in TOKENS]
    parser = estimators.DependencyParser(**PARSER, random_state=0)
    expected = parser.fit(columns, [[2, 0]] * 2).coef_
    for trees in (TOKENS, list(map(Frame, columns)), (x for x in TOKENS)):
        assert np.array_equal(parser.fit(trees, (y for y in [[2, 0]] * 2)).coef_, expected)
    for call in (model.pack, parser.predict, learner.predict):
        with pytest.raises(TypeError, match="got a single data frame; .frame. is a list of one"):
            call(Frame(tag=["D"]))


RNG = np.random.default_rng(0)
SENTENCES = [
    [{"word": "the", "bias": 1.0, "nested": {"a": 1, "b": "c"}}, {"word": "dog", "first": True}, {"word": "a=b:c"}],
    [{"word": "a", "in": ["x", "y"]}, {"word": "dog", "in": {"y"}}],
]
CHUNKS, NUMBERS = [["B-N", "I-N", "O"], ["B-N", "I-N"]], [[2, 10, 1], [2, 10]]
ARRAYS = [RNG.normal(size=(len(x), 2)) for x in SENTENCES]
ROWS = RNG.normal(size=(9, 2)) + 3 * np.eye(3, 2)[[0, 1, 2] * 3]
TREES, HEADS = [{"tag": list("DNV")}, {"tag": list("NVDN")}], [[2, 3, 0], [2, 0, 4, 2]]


def fitted():
    """Learners with other settings, and examples in other forms."""
    from scipy.sparse import csr_array

    sparse = [csr_array(x) for x in ARRAYS]
    for name, more in (("SequenceLabeler", {}), ("SequenceLabeler", {"loss": "hinge", "bits": 8}), ("SparseCRF", {})):
        yield from ((name, more, SENTENCES, y) for y in (CHUNKS, NUMBERS))
    for data in (ARRAYS, sparse):
        yield "SequenceLabeler", {}, data, CHUNKS
        yield "KernelSequenceLabeler", {"kernels": "linear,gaussian:1", "epochs": 3}, data, NUMBERS
    for name in ("MulticlassClassifier", "SparseClassifier", "SparseClassifierPath"):
        for intercept in (True, False):
            yield name, {"fit_intercept": intercept}, ROWS, [7, 30, 4] * 3
            yield name, {"fit_intercept": intercept}, csr_array(ROWS), ["up", "down", "left"] * 3
    yield "SparseCRFPath", {"count": 3}, SENTENCES * 2, CHUNKS * 2
    for bits in (8, None):
        yield "DependencyParser", {"templates": [("h.tag", "m.tag", "direction")], "bits": bits}, TREES, HEADS


@pytest.mark.parametrize("panel", ["reference", pytest.param("accelerated", marks=pytest.mark.beyond("twice"))])
def test_a_saved_learner_predicts_the_same(tmp_path, panel):
    for name, more, given, y in fitted():
        learner = getattr(learners, name)(random_state=0, panel=panel, **more).fit(given, y)
        save_model(tmp_path / "m.npz", learner.model_, learner.weights_)
        model, w, _ = load_model(tmp_path / "m.npz", panel)
        kernels = name.startswith("Kernel")
        found = model.predict(w, given) if kernels else model.predict(model.pack(given), None, w)
        expected = learner.predict(given)
        if name == "DependencyParser":
            assert [heads.tolist() for heads in found] == expected
        elif not isinstance(y[0], list):
            assert [model.labels[i] for i in found] == list(map(str, expected))
        else:
            assert [[model.labels[i] for i in z] for z in found] == [[*map(str, z)] for z in expected]


def test_nested_values_are_those_of_python_crfsuite():
    token = {"w": {"a": 1, "b": "c", "d": {"e": 0.5, "f": ["g"]}}, "s": {"y", "x"}, "t": True, "u": False, "n": []}
    found = attributes_of([[token]], None)
    expected = {"w:a": 1.0, "w:b:c": 1.0, "w:d:e": 0.5, "w:d:f:g": 1.0, "s:x": 1.0, "s:y": 1.0, "t": 1.0, "u": 0.0}
    assert dict(zip(found.names, found.values.tolist(), strict=True)) == expected
    crfsuite = pytest.importorskip("pycrfsuite")
    assert crfsuite.ItemSequence([token]).items() == [expected]


@pytest.mark.parametrize("joiner", [":", "="])
@pytest.mark.parametrize("how", [{}, {"bits": 14}])
def test_an_old_file_keeps_the_spelling_that_it_was_trained_with(tmp_path, joiner, how):
    """TaggingModel wrote name:value, SequenceLabeler name=value, and no file said which."""
    plain = [[{"word": f"w{t}", "-1:word[-3:]": f"v{t % 3}", "bias": 1.0} for t in range(9)]]
    names = [[[f"{k}{joiner}{v}" if isinstance(v, str) else k for k, v in x.items()] for x in plain[0]]]
    model = reference.TaggingModel.of(names, [["A", "B", "C"] * 3], None, **how)
    save_model(tmp_path / "m.npz", model, np.zeros(model.size))
    with np.load(tmp_path / "m.npz") as fields:
        fields = dict(fields)
    header = json.loads(str(fields["header"]))
    assert header["settings"].pop("joiner") == ":" and "joiner" in SETTINGS
    np.savez(tmp_path / "m.npz", **fields | {"header": json.dumps(header)})
    old, w, _ = load_model(tmp_path / "m.npz", "reference")
    save_model(tmp_path / "again.npz", old, w)
    for each in (old, load_model(tmp_path / "again.npz", "reference")[0]):
        assert each.pack(plain).rows.indices.tolist() == model.pack(names).rows.indices.tolist()


def test_features_without_weights_are_said():
    """All of them, or all values of one; not those of fit, and not a new word beside known ones."""
    model = reference.TaggingModel.of([[{"word": "dog", "bias": 1.0}]], [["A"]], None)
    for x, message in (
        ({"token": "dog"}, "none of its attributes has weights, such as 'token:dog'"),
        ({"word=dog": 1.0}, "none of its attributes has weights, such as 'word=dog'"),
        ({"bias": 1.0, "token": "cat"}, "no value of 'token' has weights, such as 'token': 'cat'"),
    ):
        with pytest.warns(UserWarning, match=message):
            model.pack([[x, x]])
    model.pack([[{"word": "cat", "bias": 1.0}], []])


@pytest.mark.parametrize(("first", "more"), [(1, []), (1001, []), (1, ["--partitions", 2, "--optimizer", "lbfgs"])])
def test_labels_of_a_file_are_those_of_its_users(tmp_path, monkeypatch, reference_cli, first, more):
    monkeypatch.chdir(tmp_path)
    for name, numbers in (("a.npz", [0, 1, 2, 0, 1, 2]), ("b.npz", [2, 0])):
        np.savez(name, features=np.eye(3)[numbers], labels=first + np.array(numbers), offsets=range(len(numbers) + 1))
    job = ["train", "a.npz", "--lam", 0.001, "--epochs", 30, "--save", "m.npz", *more]
    status, _, err = reference_cli.run(*job)
    assert status == 0 and f"a.npz: labels {first}, {first + 1}, {first + 2}: no other integer occurs" in err
    assert load_model("m.npz", "reference")[0].labels == tuple(map(str, range(first, first + 3)))
    assert reference_cli.reported("predict", "m.npz", "b.npz")["labels"] == [[str(first + 2)], [str(first)]]
    assert reference_cli.reported("evaluate", "m.npz", "b.npz")["accuracy"]["letter"] == 1.0


MANY = [[[f"w{RNG.integers(9)}", f"v{RNG.integers(5)}"] for _ in range(4)] for _ in range(8)]
DENSE, THREE = [RNG.normal(size=(4, 3)) for _ in range(8)], [[str(RNG.integers(3)) for _ in x] for x in MANY]
DATA = {
    "named": (learners.SequenceLabeler, MANY, THREE, {}),
    "hashed": (learners.SequenceLabeler, MANY, THREE, {"bits": 6}),
    "all pairs": (learners.SequenceLabeler, MANY, THREE, {"pairs": "all"}),
    "arrays": (learners.SequenceLabeler, DENSE, THREE, {}),
    "classes": (learners.MulticlassClassifier, np.concatenate(DENSE), np.concatenate(THREE), {}),
    "trees": (learners.DependencyParser, TREES, HEADS, {"templates": [("h.tag", "m.tag")], "bits": 8}),
}
SLOW = {(kind, "multisample") for kind in ("named", "hashed", "classes", "trees")}
OPTIMIZERS = (None, "sgd", "cutting_planes", "multisample", "lbfgs")


@pytest.mark.parametrize(("kind", "optimizer"), [*itertools.product(DATA, OPTIMIZERS)])
def test_examples_are_visited_by_kernels_or_a_warning_says_so(monkeypatch, kind, optimizer):
    """The loops of the reference ask for one example at a time."""
    visits = []
    for name in ("value_and_gradient", "corners"):
        method = getattr(reference.StructuralHinge, name)

        def spied(self, w, batch=None, *more, method=method):
            visits.extend([1] * (batch is not None and len(batch) == 1))
            return method(self, w, batch, *more)

        monkeypatch.setattr(reference.StructuralHinge, name, spied)
    make, X, Y, settings = DATA[kind]
    options = {"iterations" if optimizer == "lbfgs" else "epochs": 1}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(loss="hinge", optimizer=optimizer, options=options, random_state=0, **settings).fit(X, Y)
    said = [str(each.message) for each in caught if "no kernel" in str(each.message)]
    assert bool(said) == ((kind, optimizer) in SLOW) == (len(visits) >= len(X))
    assert all(each.startswith(f"no kernel for {optimizer} on ") for each in said)


def test_a_command_says_it_on_stderr(write, capsys):
    line = "no kernel for multisample on TaggingModel restricted: "
    lines = ("\n".join(f"{x[0]} {y}" for x, y in zip(*one, strict=True)) for one in zip(MANY, THREE, strict=True))
    words = "tag", "train", write("\n\n".join(lines)), "--loss", "hinge", "--epochs", 1, "--quiet", "--optimizer"
    solvers._say_once.cache_clear()
    for more, slow in (["multisample"], True), (["bcfw"], False), (["multisample", "--pairs", "all"], False):
        status, _, err = Command(accelerated, capsys).run(*words, *more)
        assert status == 0 and (line in err) == slow


LONG = pytest.mark.beyond("long runs")


def people(n=60):
    """Ages and salaries, and a class that depends on both."""
    rng = np.random.default_rng(0)
    age, salary = rng.uniform(18, 80, n), rng.uniform(2e4, 2e5, n)
    return np.stack([age, salary], 1), np.where(age / 80 + salary / 2e5 + rng.normal(0, 0.1, n) > 1.2, "a", "b")


def warned(learner, X, y):
    """The texts of the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.fit(X, y)
    assert all(each.category is ConvergenceWarning for each in caught)
    return [str(each.message) for each in caught]


@LONG
@pytest.mark.parametrize("loss", ["log loss", "hinge", "smoothed", "weighted"])
@pytest.mark.parametrize("kind", ["ridge", "l1", "elastic net", "squared groups", "ball"])
def test_the_gap_bounds_the_distance_to_every_point(backend, rng, loss, kind):
    """After one epoch and after many: no point is lower than the objective minus the gap, and the gap shrinks."""
    sp, model, groups = backend.module, backend.MulticlassModel(3, 3), np.arange(9) // 3
    data, smoothing = model.pack(rng.normal(size=(12, 3)), rng.integers(0, 3, 12)), sp.smoothings.SquaredL2()
    objective = sp.StructuralHinge(model, data, smoothing=smoothing if loss == "smoothed" else None)
    objective = sp.LogLoss(model, data) if loss == "log loss" else objective
    objective = sp.Weighted(objective, rng.uniform(0, 2, 12)) if loss == "weighted" else objective
    penalties = {"l1": sp.L1(0.05), "elastic net": sp.ElasticNet(sp.L1(0.02), 0.1), "ball": sp.L21Ball(1.0, groups)}
    penalties["squared groups"] = sp.SquaredL21(0.1, groups)
    optimiser, options = sp.sgd, {"lam": 0.2}
    if kind in penalties:
        optimiser = sp.online_proximal
        options = {"regularizer": penalties[kind], "step_size": sp.steps.InverseSqrt(0.3)}
    options |= {"mu": 0.5} if loss == "smoothed" else {}
    gaps, funs = [], []
    for epochs in (100, 1):
        plain = optimiser(objective, epochs=epochs, rng=0, **options)
        result = certified(sp, plain, objective, options)
        if (loss, kind) == ("smoothed", "l1"):  # F may be < 0, and s = 1 lies outside R*
            assert result is plain
            return
        assert "not certified" in plain.message and result.success == (result.certificate <= 0.01 * result.fun)
        assert result.fun == plain.fun and ("more than 1 %" in result.message) == (not result.success)
        gaps, funs = [*gaps, result.certificate], [*funs, result.fun]
        assert result.fun - result.certificate <= min(funs) + 1e-9
    assert 0 <= gaps[0] < gaps[1] and gaps[0] < 0.6 * min(funs)


def test_what_has_no_dual_stays_without_a_number(backend, rng):
    """lam = 0, a set to project on, options of another objective, a run that the callback stopped."""
    sp, model = backend.module, backend.MulticlassModel(3, 3)
    objective = sp.LogLoss(model, model.pack(rng.normal(size=(6, 3)), rng.integers(0, 3, 6)))
    free = sp.sgd(objective, lam=0.0, step_size=0.1, epochs=2)
    ridge = {"regularizer": sp.HalfSquaredL2(0.1), "step_size": 0.1, "project": sp.L2Ball(1.0)}
    inside = sp.online_proximal(objective, epochs=2, **ridge)
    stopped = sp.sgd(objective, lam=0.1, callback=lambda row, w: True)
    for result, options in ((free, {"lam": 0.0}), (inside, ridge), (free, {"lam": 0.1}), (stopped, {"lam": 0.1})):
        assert certified(sp, result, objective, options) is result and result.success


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("name", [*(pytest.param(name, marks=LONG) for name in ("svrg", "casimir", "sgd")), "lbfgs"])
def test_unscaled_features_are_named(panel, name, monkeypatch):
    """Where a run has not converged, and where it took many iterations."""
    (X, y), how = people(), {"optimizer": name, "random_state": 0, "panel": panel}
    learner = MulticlassClassifier(options={} if name == "lbfgs" else {"epochs": 20}, **how)
    if name == "lbfgs":
        assert warned(learner, X, y) == [] and learner.result_.success
        monkeypatch.setattr(certificates, "MANY", learner.result_.nit - 1)
    (text,) = warned(learner, X, y)
    result = learner.result_
    assert result.success == (name == "lbfgs") == (f"the certificate {result.certificate:.3g} is more than" not in text)
    assert text.endswith(f"range from 1 to {X.max():.3g}: scale the features")
    assert warned(learner, (X - X.mean(0)) / X.std(0), y) == []
    parts = [X[i : i + 3] for i in range(0, 60, 3)], [y[i : i + 3] for i in range(0, 60, 3)]
    few = {"iterations" if name == "lbfgs" else "epochs": 2}
    assert warned(SequenceLabeler(lam=0.01, options=few, **how), *parts)[0].endswith("scale the features")
    assert "scale the features" in warned(SparseClassifier(beta_share=0.01, iterations=1), X, y)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MulticlassClassifier(panel=panel).partial_fit(X, y, ["a", "b"])


def test_commands_print_what_is_known(data_file, tmp_path, cli):
    with np.load(data_file) as archive:
        np.savez(tmp_path / "far.npz", **{**archive, "features": archive["features"] * [1.0, 50.0, 5e4]})
    for words, said in (
        (["train", tmp_path / "far.npz", "--epochs", 2], "not converged: 2 epochs done: the certificate "),
        (["train", data_file, "--lam", 0, "--epochs", 2, "--step-size", 0.1], "2 epochs done; not certified: "),
        (["train", data_file, "--learner", "mkl", "--epochs", 2], "2 epochs done; not certified: "),
        (["compare", data_file, "--epochs", 1, "--lam", 1e-3], "reference: not converged: 1 epochs done: the cert"),
    ):
        (line,) = [line for line in cli.printed(*words).splitlines() if line.startswith(said)]
        assert ("scale the features" in line) == ("far" in str(words[1]))
        report = cli.reported(*words)
        report = report.get("reference", report)
        assert report["success"] == ("not certified" in said) == isinstance(report["certificate"], str)
        assert report["message"] in line
    kept = ["grid", "--kept", tmp_path / "kept.jsonl", "--vary", "lam=1e-3,1e3", "train", data_file, "--epochs", 2]
    said = "1 of 2 runs have not converged; lam=1e-3: 2 epochs done: the certificate "
    assert cli.panel != PANELS[0] or said in cli.printed(*kept)
