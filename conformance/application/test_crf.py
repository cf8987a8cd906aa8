"""The interfaces of sklearn-crfsuite and python-crfsuite: the objective by enumeration, its optimum by its conditions
and beside crfsuite, scikit-learn's tools, files, scores of held-out sequences, what is refused.
"""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from importlib import import_module

import numpy as np
import pytest

import diptych.crfsuite as crfsuite
from conformance.tolerances import close
from diptych.crfsuite import CRF, ItemSequence, Tagger, Trainer, UnknownFeatures, metrics, scorers
from diptych.estimators.protocol import ConvergenceWarning, NotFittedError
from diptych.panels import PANELS

X = [
    [{"w": "the", "z": 0.5, "cap": False}, {"w": "duck", "cap": True}, {"w": b"swims"}],
    [{"w": "a", "z": -2.0}, {"w": {"duck"}, "n": {"len": 4}}],
    [],
    [["w:it", "w:it"], ("w:swims", "end")],
]
Y = [["B", "I", "O"], ["B", "I"], [], ["B", "O"]]
SETTINGS = [
    {},
    {"algorithm": "l2sgd", "c2": 0.1, "min_freq": 1},
    {"c2": 1e-3, "all_possible_states": True},
    {"c1": 0.2, "c2": 0.1, "all_possible_transitions": True},
    {"c1": 0.05, "c2": 0.0, "min_freq": 1.5, "all_possible_states": True, "all_possible_transitions": True},
]


def joined(lists):
    return list(itertools.chain.from_iterable(lists))


def items(X):
    """Features by their meaning: (name, value) of each token."""
    return [[_pairs(token) for token in x] for x in X]


def _pairs(token):
    """What the names and values of a token of X are, written down without the code under test."""
    if not isinstance(token, dict):
        return [(name, 1.0) for name in token]
    pairs = []
    for key, value in token.items():
        if isinstance(value, bytes | str):
            pairs.append((f"{key}:{value if isinstance(value, str) else value.decode()}", 1.0))
        elif isinstance(value, float | bool):
            pairs.append((key, float(value)))
        else:
            named = value.items() if isinstance(value, dict) else [(name, 1.0) for name in value]
            pairs += [(f"{key}:{name}", float(number)) for name, number in named]
    return pairs


def counts(x, y):
    """How often each feature occurs in a labelled sequence, with values."""
    found = {}
    for pairs, label in zip(x, y, strict=True):
        for name, value in pairs:
            found[name, label] = found.get((name, label), 0.0) + value
    for pair in itertools.pairwise(y):
        found["", *pair] = found.get(("", *pair), 0.0) + 1.0
    return found


def weights_of(crf):
    moves = {("", *pair): weight for pair, weight in crf.transition_features_.items()}
    return {**crf.state_features_, **moves}


def distribution(w, x, labels):
    """Each labelling with its counts and its probability."""
    each = [(y, counts(x, y)) for y in itertools.product(labels, repeat=len(x))]
    scores = np.array([sum(w.get(name, 0.0) * value for name, value in found.items()) for _, found in each])
    p = np.exp(scores - scores.max())
    return [(y, found, share) for (y, found), share in zip(each, p / p.sum(), strict=True)]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_fit_is_the_optimum_of_crfsuites_objective(settings):
    epsilon = 1e-11 if settings.get("c2", 1.0) > 0 else 1e-7  # without c2 the dual's variables have half the digits
    crf = CRF(epsilon=epsilon, **settings).fit(X, Y)
    w, features, labels = weights_of(crf), items(X), ["B", "I", "O"]
    assert crf.classes_ == labels
    c1, c2, least = settings.get("c1", 0.0), settings.get("c2", 1.0), settings.get("min_freq", 0)
    observed, expected, loss = {}, {}, 0.0
    for x, y in zip(features, Y, strict=True):
        for name, value in counts(x, y).items():
            observed[name] = observed.get(name, 0.0) + value
        for labelling, found, share in distribution(w, x, labels):
            loss -= math.log(share) if list(labelling) == y else 0.0
            for name, value in found.items():
                expected[name] = expected.get(name, 0.0) + share * value
    values = np.array(list(w.values()))
    last = crf.training_log_.last_iteration
    close(last["loss"], loss + c1 * np.abs(values).sum() + c2 * values @ values)
    assert 0 <= last["gap"] <= epsilon * last["loss"] + 1e-12
    names = {name for x in features for token in x for name, _ in token}
    every = {(name, label) for name in names for label in labels} if settings.get("all_possible_states") else set()
    if settings.get("all_possible_transitions"):
        every |= {("", *pair) for pair in itertools.product(labels, repeat=2)}
    kept = {name for name in {*observed, *every} if observed.get(name, 0.0) >= least}
    assert crf.training_log_.featgen_num_features == len(kept) and set(w) <= kept
    for name in kept:
        slope = expected.get(name, 0.0) - observed.get(name, 0.0) + 2 * c2 * w.get(name, 0.0)
        if name in w:
            assert abs(slope + c1 * np.sign(w[name])) < 1e-4, name
        else:
            assert abs(slope) <= c1 + 1e-4, name


def test_values_that_sum_to_less_than_nothing_are_no_features():
    """As crfsuite: the frequency of a feature is the sum of its values, at least min_freq, which is 0."""
    crf = CRF().fit([[{"a": -1.0, "b": 1.0}, {"a": 2.0}]], [["X", "Y"]])
    assert set(crf.state_features_) == {("b", "X"), ("a", "Y")}


def test_a_tagger_answers_as_enumeration_does(tmp_path):
    trainer = Trainer("l2sgd", {"c2": "0.05"}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(ItemSequence(x), y)
    trainer.train(tmp_path / "m.crfsuite")
    content = (tmp_path / "m.crfsuite").read_bytes()
    with Tagger().open_inmemory(content) as tagger:
        info, labels = tagger.info(), tagger.labels()
        w = {**info.state_features, **{("", *pair): weight for pair, weight in info.transitions.items()}}
        for x, features in zip(X, items(X), strict=True):
            every = distribution(w, features, labels)
            best = max(every, key=lambda each: each[2])
            assert tagger.tag(x) == list(best[0])
            for y, _, share in every:
                close(tagger.probability(list(y)), share)
            for t, label in itertools.product(range(len(x)), labels):
                close(tagger.marginal(label, t), sum(share for y, _, share in every if y[t] == label))
        tagger.dump(tmp_path / "dump.txt")
        assert f"w:swims --> O: {w['w:swims', 'O']:.6f}" in (tmp_path / "dump.txt").read_text()
        assert info.header["size"] == str(len(content)) and info.header["num_labels"] == "3"
        same = pickle.loads(pickle.dumps(tagger))
    assert same.tag(X[0]) == Y[0]
    for question in (tagger.labels, tagger.info, lambda: tagger.tag(X[0])):
        with pytest.raises((ValueError, RuntimeError), match="open one first"):
            question()


def test_a_model_file_is_written_and_read(tmp_path):
    path = tmp_path / "model.crfsuite"
    assert CRF(model_filename=str(path)).tagger_ is None
    crf = CRF(model_filename=str(path), c1=0.1).fit(X, Y)
    read = pickle.loads(pickle.dumps(CRF(model_filename=str(path))))
    path.unlink()
    assert read.predict(X) == crf.predict(X) and read.state_features_ == crf.state_features_
    assert read.predict_marginals(X) == crf.predict_marginals(X)
    assert crf.size_ > 1000 and crf.num_attributes_ == len(crf.attributes_) == len(read.attributes_)
    assert all(crf.state_features_.values()) and {name for name, _ in crf.state_features_} == set(crf.attributes_)


def test_before_fit_there_is_nothing():
    crf = CRF()
    names = ("tagger_", "classes_", "attributes_", "state_features_", "transition_features_", "size_", "training_log_")
    assert [getattr(crf, name) for name in names] == [None] * len(names)
    with pytest.raises(NotFittedError):
        crf.predict(X)


def drawn(rng, n=12):
    """Sequences whose labels depend on their words, with mistakes."""
    words = [rng.integers(6, size=rng.integers(1, 6)).tolist() for _ in range(n)]
    X = [[{"w": str(word), "odd": bool(word % 2)} for word in x] for x in words]
    return X, [["ABC"[(word + int(rng.random() < 0.3)) % 3] for word in x] for x in words]


def test_held_out_scores_and_early_stopping(rng):
    X, y = drawn(rng, 15)
    X_dev, y_dev = drawn(rng, 30)
    crf = CRF(c2=1e-4, epsilon=1e-9).fit(X, y, X_dev, y_dev)
    last = crf.training_log_.last_iteration
    close(last["item_accuracy_float"], crf.score(X_dev, y_dev))
    close(last["instance_accuracy_float"], metrics.sequence_accuracy_score(y_dev, crf.predict(X_dev)))
    truth, guess = joined(y_dev), joined(crf.predict(X_dev))
    for label, score in last["scores"].items():
        right = sum(a == b == label for a, b in zip(truth, guess, strict=True))
        assert score[:3] == (right, guess.count(label), truth.count(label))
        close(score.f1, 2 * right / (guess.count(label) + truth.count(label)))
    close(last["avg_f1"], np.mean([score.f1 for score in last["scores"].values()]))
    stopped = CRF(c2=1e-4, epsilon=1e-9, early_stopping=True, period=3).fit(X, y, X_dev, y_dev)
    shares = [each["item_accuracy"] for each in stopped.training_log_.iterations]
    best = shares.index(max(shares))
    assert len(shares) == best + 4 < len(crf.training_log_.iterations)
    assert shares == [each["item_accuracy"] for each in crf.training_log_.iterations][: len(shares)]
    close(stopped.score(X_dev, y_dev), float(shares[best]))


def test_labels_of_held_out_sequences_take_part():
    """As in crfsuite: a label that only they have is a label of the model, with no weight."""
    crf = CRF().fit([[["a"]]], [["X"]], [[["a"]]], [["Z"]])
    assert crf.classes_ == ["X", "Z"] and set(crf.state_features_) == {("a", "X")}
    assert 0 < crf.predict_marginals_single([["a"]])[0]["Z"] < 0.5


def test_scikit_learns_tools(rng):
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    X, y = drawn(rng)
    crf = sklearn.base.clone(CRF(c1=0.1, c2=0.1, all_possible_transitions=True))
    assert crf.get_params()["c1"] == 0.1 and crf.tagger_ is None
    grid = GridSearchCV(crf, {"c1": [1e-2, 10.0]}, cv=3, scoring=scorers.flat_accuracy).fit(X, y)
    assert grid.best_params_ == {"c1": 1e-2}
    close(grid.score(X, y), metrics.flat_accuracy_score(y, grid.predict(X)))
    search = RandomizedSearchCV(
        crf, {"c2": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0, scoring=scorers.sequence_accuracy
    )
    assert search.fit(X, y).best_estimator_.predict(X) == pickle.loads(pickle.dumps(search)).predict(X)
    line = Pipeline([("same", FunctionTransformer()), ("crf", CRF())]).fit(X, y)
    close(line.score(X, y), CRF().fit(X, y).score(X, y))
    assert len(cross_val_score(CRF(), X, y, cv=3)) == 3


def test_flat_scores():
    flat = pytest.importorskip("sklearn").metrics
    y, z = [["x", "z", "y"], ["x", "x"]], [["y", "z", "y"], ["x", "y"]]
    Y, Z = joined(y), joined(z)
    assert metrics.flat_accuracy_score(y, z) == 3 / 5
    for name in ("f1_score", "precision_score", "recall_score"):
        ours, theirs = getattr(metrics, f"flat_{name}"), getattr(flat, name)
        assert ours(y, z, average="macro") == theirs(Y, Z, average="macro")
    assert metrics.flat_fbeta_score(y, z, 2, average="macro") == flat.fbeta_score(Y, Z, beta=2, average="macro")
    report = metrics.flat_classification_report(y, z, labels=["x"], digits=3)
    assert report == flat.classification_report(Y, Z, labels=["x"], digits=3)
    assert metrics.sequence_accuracy_score(y, [y[0], z[1]]) == 0.5 and metrics.sequence_accuracy_score([], []) == 0


def test_messages_reach_subclasses(capsys):
    class Counting(Trainer):
        seen = 0

        def on_iteration(self, log, info):
            self.seen += 1
            assert f"Loss: {info['loss']:f}\n" in log

    trainer = Counting(verbose=True)
    trainer.append(X[0], Y[0])
    trainer.train("")
    log, out = trainer.logparser, capsys.readouterr().out
    assert trainer.seen == len(log.iterations) > 0 and "type: CRF1d\n" in log.log and "Iteration" not in out
    CRF(verbose=True).fit(X, Y, X, Y)
    assert "Iter 1 " in capsys.readouterr().out


def test_unknown_features_are_counted_and_said_once():
    tagger = CRF().fit(X, Y).tagger_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.tag([{"w": "new"}, {"w": "duck", "x": 1}])
    assert (tagger.given, tagger.unknown) == (3, 2)
    told = "none of its 1 features has a weight in this model, such as 'w:newer'; .* so far 3 of 4 have none"
    with pytest.warns(UnknownFeatures, match=told):
        tagger.tag([["w:newer"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.tag([["w:newest"], []])
    assert (tagger.given, tagger.unknown) == (5, 4)


@pytest.mark.parametrize(
    ("error", "message", "X", "y"),
    [
        (ValueError, r"y: expected 4 label sequences, one for each of X, got 1", X, Y[:1]),
        (ValueError, r"y\[1\]: expected 2 labels, one for each token, got 1", X[:2], [Y[0], ["B"]]),
        (TypeError, r"y\[0\]\[1\]: expected a label as a string, got 3", X[:1], [["B", 3, "O"]]),
        (TypeError, r"X\[1\]\[0\]: w: expected a number or a string, got None", [[], [{"w": None}]], [[], ["B"]]),
        (ValueError, r"X\[0\]\[1\]: w: expected a finite number, got nan", [[{}, {"w": np.nan}]], [["B", "B"]]),
        (ValueError, r"X\[0\]\[0\]: a: b: expected a finite number, got inf", [[{"a": {"b": np.inf}}]], [["B"]]),
        (TypeError, r"X\[0\]\[0\]: expected a dictionary or a list of names, got 'w'", [["w"]], [["B"]]),
        (TypeError, r"X\[0\]\[0\]: expected the name of a feature as a string, got 3", [[{3: 1.0}]], [["B"]]),
        (ValueError, r"X\[0\]\[0\]: expected UTF-8, got b'\\xff'", [[[b"\xff"]]], [["B"]]),
        (TypeError, r"X\[0\]: expected a list of tokens, got 'words'", ["words"], [["B"]]),
        (ValueError, r"X: expected at least one sequence with a token", [[]], [[]]),
    ],
)
def test_what_is_wrong_with_an_example_is_said_with_its_place(error, message, X, y):
    with pytest.raises(error, match=message):
        CRF().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"algorithm": "ap"}, r"algorithm: 'ap' is not here; use 'lbfgs', or .*SequenceLabeler\(loss='hinge', opt"),
        ({"algorithm": "pa", "c": 2.0}, r"c: of the algorithms 'pa' and 'arow', which are not here"),
        ({"algorithm": "arow"}, r"'arow' is not here; use 'lbfgs' with c2"),
        ({"algorithm": "newton"}, r"algorithm: expected 'lbfgs' or 'l2sgd', got 'newton'"),
        ({"algorithm": "l2sgd", "c1": 1.0}, r"params: l2sgd has no 'c1'; it has feature.minfreq"),
        ({"c1": -1.0}, r"c1: expected a finite number >= 0, got -1.0"),
        ({"c2": "much"}, r"c2: expected float, got 'much'"),
        ({"epsilon": 0.0}, r"epsilon: expected a finite number > 0"),
        ({"max_iterations": -1}, r"max_iterations: .*got -1"),
        ({"early_stopping": True}, r"early_stopping: expected X_dev and y_dev"),
    ],
)
def test_parameters_that_have_no_place_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CRF(**parameters).fit(X, Y)


def test_what_has_no_effect_is_said_once_and_a_short_run_warns():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CRF(num_memories=3, linesearch="Backtracking", delta=1e-3).fit(X, Y)
    (only,) = [str(each.message) for each in caught]
    assert only.startswith("num_memories, delta, linesearch: without effect here")
    for c1 in (0.0, 0.1):
        with pytest.warns(ConvergenceWarning, match="lbfgs: "):
            CRF(c1=c1, max_iterations=1).fit(X, Y)
    trainer = Trainer(params={"feature.possible_states": "1", "max_iterations": "7"})
    assert trainer.get("feature.possible_states") is True and trainer.get_params()["max_iterations"] == 7
    with pytest.raises(ValueError, match="yseq: expected 3 labels"):
        trainer.append(X[0], ["B"])


@pytest.mark.parametrize("panel", PANELS)
def test_what_is_bound_and_models_pickle_without_what_they_compute(panel):
    vocabulary = [f"word[0]=w{i}" for i in range(3000)]
    model = import_module(panel).TaggingModel(["a", "b"], ["word[0]"], vocabulary=vocabulary)
    tagger = model.bound(np.arange(model.size) % 7.0)
    before, sentence = len(pickle.dumps(model)), [{"word": ["w1", "w2", "no"]}]
    answer = tagger(sentence)[0].tolist()
    content = pickle.dumps(tagger)
    assert len(pickle.dumps(model)) == before and len(content) < before + 8 * model.size + 1000
    assert pickle.loads(content)(sentence)[0].tolist() == answer


@pytest.mark.parametrize("settings", [each for each in SETTINGS if each.get("c2")])
def test_python_crfsuite_has_the_same_optimum(tmp_path, settings):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    ours = CRF(epsilon=1e-10, model_filename=str(tmp_path / "ours"), **settings).fit(X, Y)
    names = {"min_freq": "feature.minfreq", "all_possible_states": "feature.possible_states"}
    names |= {"all_possible_transitions": "feature.possible_transitions"}
    given = {names.get(name, name): value for name, value in settings.items() if name != "algorithm"}
    trainer = pycrfsuite.Trainer("lbfgs", {**given, "epsilon": 1e-10, "delta": 1e-12}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "theirs"))
    last = ours.training_log_.last_iteration
    theirs, loss = trainer.logparser.last_iteration, last["loss"]
    assert trainer.logparser.featgen_num_features == ours.training_log_.featgen_num_features
    assert loss - last["gap"] - 1e-5 <= theirs["loss"] and loss <= theirs["loss"] + last["gap"] + 1e-6
    if not settings.get("c1"):
        assert abs(loss - theirs["loss"]) <= 1e-6 * loss + 1e-6  # their log has six digits
    reads, read = pycrfsuite.Tagger(), Tagger()
    for file in ("ours", "theirs"):
        reads.open(str(tmp_path / file))
        read.open(tmp_path / file)
        for x, y in zip(X, Y, strict=True):
            assert read.labels() == reads.labels() and read.tag(x) == reads.tag(x) == ours.predict_single(x)
            if x:  # of no tokens the probability is 1, there 0
                close(read.probability(y), reads.probability(y))
            for t, label in itertools.product(range(len(x)), read.labels()):
                close(read.marginal(label, t), reads.marginal(label, t))


def test_names_are_imported_when_they_are_used():
    assert all(getattr(crfsuite, name) is not None for name in crfsuite.__all__)
    with pytest.raises(AttributeError, match="no attribute 'CRFs'"):
        crfsuite.CRFs  # noqa: B018
