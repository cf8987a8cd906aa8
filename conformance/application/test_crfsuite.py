"""Model files and items of crfsuite: what python-crfsuite reads and writes, damaged files, what files cannot say."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.tolerances import close
from diptych.crfsuite import CrfsuiteModel, read_model, write_model
from diptych.crfsuite.strings import hashes_of
from diptych.crfsuite.taggers import crfsuite_of, tagger_of
from diptych.files.items import escaped, item_blocks
from reference.models.token_templates import attributes_of

# a model that python-crfsuite 0.9.12 trained, and the SHA-256 of its file
STATES = [(0, 0), (1, 0), (1, 1), (2, 0), (3, 1), (4, 1), (5, 1), (6, 2)]
WEIGHTS = "0x1.92f67463aa683p-1 0x1.909cbd65cb6e5p-2 0x1.05800aa798014p-1 0x1.92f67463aa683p-1 0x1.5e58e898b4eddp-1"
WEIGHTS += " 0x1.5e58e898b4eddp-1 0x1.10b2bb4065517p+0 0x1.10b2bb4065516p+0 0x1.edd264fef2aefp-1 0x1.76d91f335bfbfp+0"
NUMBERS = np.array([float.fromhex(weight) for weight in WEIGHTS.split()])
TRAINED = CrfsuiteModel(
    ("B", "O", "I"),
    ("a:x:y", "b", "é", "c:p", "c:q", "a:z", "c:k:v"),
    np.array(STATES),
    NUMBERS[:8],
    np.array([(0, 1), (1, 2)]),
    NUMBERS[8:],
)
SHA = "21935c8b0497f603a77eae3b8a23e73e5021c15c11ebd95355d5bb439367321d"
LABELS_AT, LISTS_AT = 260, 4772  # places in this file: the labels, the lists of attributes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for the files of drawn models."""
    return tmp_path_factory.mktemp("models")


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
weights = st.floats(-4, 4).map(lambda x: round(x, 3))


@st.composite
def models(draw):
    """A model in which each attribute has a feature, in the order of files."""
    labels = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    attributes = draw(st.lists(names, max_size=30, unique=True))
    L, A = len(labels), len(attributes)
    pairs = {(a, draw(st.integers(0, L - 1))) for a in range(A)}
    pairs |= draw(st.sets(st.tuples(st.integers(0, max(A - 1, 0)), st.integers(0, L - 1)), max_size=8 * bool(A)))
    moves = draw(st.sets(st.tuples(st.integers(0, L - 1), st.integers(0, L - 1)), max_size=9))
    ends = [np.array(sorted(each), np.int64).reshape(-1, 2) for each in (pairs, moves)]
    w = [np.array([draw(weights) or 1.0 for _ in each]) for each in ends]
    return CrfsuiteModel(tuple(labels), tuple(attributes), ends[0], w[0], ends[1], w[1])


def same(a, b):
    """Whether two models are equal, bit for bit."""
    return all(x == y if isinstance(x, tuple) else np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def looked_up(content, start, key):
    """The number of a name in a database as crfsuite finds it, by its hash; None if it is not there."""
    hashed = int(hashes_of([key])[0])
    place, buckets = struct.unpack_from("<II", content, start + 24 + 8 * (hashed % 256))
    for step in range(buckets):
        bucket = start + place + 8 * ((hashed // 256 + step) % buckets)
        its, record = struct.unpack_from("<II", content, bucket)
        if not record:
            return None
        number, length = struct.unpack_from("<II", content, start + record)
        if its == hashed and content[start + record + 8 : start + record + 8 + length] == key:
            return number
    return None


def test_the_hash_is_that_of_its_author():
    """The values that lookup3.c prints, and one of a key in many blocks by its definition for whole blocks."""
    keys = [b"", b"Four score and seven years ago"]
    assert hashes_of(keys).tolist() == [0xDEADBEEF, 0x17770551]
    assert hashes_of([*keys[::-1], keys[1]]).tolist() == [0x17770551, 0xDEADBEEF, 0x17770551]
    assert hashes_of([]).tolist() == []


def test_a_file_is_the_one_that_crfsuite_wrote(tmp_path):
    write_model(tmp_path / "m", TRAINED)
    assert hashlib.sha256((tmp_path / "m").read_bytes()).hexdigest() == SHA
    assert same(read_model(tmp_path / "m"), TRAINED)


@given(model=models())
def test_what_is_written_is_read_and_each_name_is_found(folder, model):
    write_model(folder / "m", model)
    content = (folder / "m").read_bytes()
    assert same(read_model(folder / "m"), model)
    for place, held in zip(struct.unpack_from("<II", content, 32), model[:2], strict=True):
        keys = [name.encode() + b"\0" for name in held]
        assert [looked_up(content, place, key) for key in keys] == [*range(len(keys))]
        assert looked_up(content, place, "".join(held).encode() + b"?\0") is None


def test_weights_of_zero_and_attributes_without_weights_are_left_out(tmp_path):
    states, moves = np.array([[2, 1], [0, 0], [1, 0]]), np.array([[1, 0], [0, 1]])
    model = CrfsuiteModel(("x", "y"), ("a", "b", "c"), states, np.array([3.0, 2.0, 0.0]), moves, np.array([0.0, -1.0]))
    write_model(tmp_path / "m", model)
    left = CrfsuiteModel(
        ("x", "y"), ("a", "c"), np.array([[0, 0], [1, 1]]), np.array([2.0, 3.0]), moves[1:], -np.ones(1)
    )
    assert same(read_model(tmp_path / "m"), left)


@given(model=models())
def test_taggers_have_the_same_scores(backend, model):
    """And back, the same model: of names and weights of pairs and of transitions."""
    tagger, w = tagger_of(backend.module, model)
    assert same(crfsuite_of(tagger, w), model)
    item = {name: 0.5 + i for i, name in enumerate(model.attributes)}
    unary = np.zeros(len(model.labels))
    for (attribute, label), weight in zip(model.states, model.state_weights, strict=True):
        unary[label] += weight * item[model.attributes[attribute]]
    scores = tagger.scores(tagger.pack([[item, {}]]), np.array([0]), w)
    pairwise = np.zeros((len(model.labels),) * 2)
    pairwise[tuple(model.transitions.T)] = model.transition_weights
    close(np.asarray(scores.unary)[0], [unary, 0 * unary])
    close(scores.pairwise, pairwise)


# against python-crfsuite ----------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(model=models(), data=st.data())
def test_python_crfsuite_tags_alike(backend, folder, model, data):
    """What it says of the file; labels, probabilities and marginals of drawn items."""
    crfsuite = pytest.importorskip("pycrfsuite")
    write_model(folder / "m", model)
    theirs = crfsuite.Tagger()
    theirs.open(str(folder / "m"))
    assert tuple(theirs.labels()) == model.labels
    tagger, w = tagger_of(backend.module, model)
    item = st.dictionaries(st.sampled_from([*model.attributes, "no such"]), st.floats(-2, 2), max_size=5)
    x = [dict(each) for each in data.draw(st.lists(item, min_size=1, max_size=4))]
    packed = tagger.pack([x])
    labels = [model.labels[i] for i in tagger.predict(packed, None, w)[0]]
    structure = tagger.structure_type.unchecked(tagger.scores(packed, np.array([0]), w))
    marginals = np.asarray(structure.expectation()[1].unary)[0]
    theirs.set(x)
    found = theirs.tag(x)
    assert theirs.probability(found) == pytest.approx(theirs.probability(labels), rel=1e-9)  # equal but for ties
    close(marginals, [[theirs.marginal(label, t) for label in model.labels] for t in range(len(x))])


HOW = {"lbfgs": {}, "l2sgd": {"max_iterations": 5}, "ap": {}, "pa": {}, "arow": {}}
SPARSE = {"c1": 0.3, "feature.possible_transitions": True, "feature.possible_states": True}


@pytest.mark.parametrize("algorithm", [*HOW, "sparse"])
def test_files_of_python_crfsuite_are_read(tmp_path, rng, algorithm):
    """Of each algorithm, its dictionaries of weights; what it writes is written again byte for byte."""
    crfsuite = pytest.importorskip("pycrfsuite")
    trainer = crfsuite.Trainer(
        "lbfgs" if algorithm == "sparse" else algorithm, HOW.get(algorithm, SPARSE), verbose=False
    )
    for _ in range(20):
        words = [f"w{k}\t:é"[: k % 5 + 1] for k in rng.integers(0, 40, 6)]
        x = [
            {"word": word, "size": float(len(word)), "odd": t % 2 == 1, "in": [word, "x"]}
            for t, word in enumerate(words)
        ]
        trainer.append(x, [f"L:{len(word) % 3}" for word in words])
    trainer.train(str(tmp_path / "m"))
    tagger = crfsuite.Tagger()
    tagger.open(str(tmp_path / "m"))
    model, info = read_model(tmp_path / "m"), tagger.info()
    states = zip(model.states.tolist(), model.state_weights.tolist(), strict=True)
    moves = zip(model.transitions.tolist(), model.transition_weights.tolist(), strict=True)
    for (a, k), weight in states:
        assert info.state_features[model.attributes[a], model.labels[k]] == pytest.approx(weight, abs=1e-6)
    for (a, b), weight in moves:
        assert info.transitions[model.labels[a], model.labels[b]] == pytest.approx(weight, abs=1e-6)
    assert len(info.state_features) == len(model.states) and len(info.transitions) == len(model.transitions)
    write_model(tmp_path / "again", model)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


# what is wrong --------------------------------------------------------------------------------------------------------

WRONG = [  # a place in the file, what is written there, what is said
    (0, b"ICRF", "byte 0: expected lCRF and, at byte 8, FOMC, got b'ICRFFOMC'"),
    (12, 101, "byte 12: expected version 100, got 101"),
    (4, 4873, "byte 4: the file is cut or longer than it was: expected 4873 bytes, got 4872"),
    (20, 2, "byte 276: labels: expected an array of 2 within 2162 bytes, got 3"),
    (24, 2**32 - 1, "attributes: expected an array of 4294967295 within"),
    (28, 2**32 - 1, "byte 4294967299: expected 2 numbers of the features in 8 bytes, and the file has 4872"),
    (32, 48, "byte 48: expected the labels, which begin with b'CQDB', got b'FEAT'"),
    (56, 2**32 - 1, "byte 56: features: expected 4294967295 within 212 bytes"),
    (64, 7, r"byte 60: feature 0: expected an attribute below 7 and a label below 3, .* got \(0, 7, 0,"),
    (68, 3, "byte 60: feature 0: expected"),
    (72, struct.pack("<d", np.nan), "byte 60: feature 0: .* a finite weight, got"),
    (104, 2, "byte 4772: lists of attributes: feature 2 is in the list of 1"),
    (84, 0, "byte 80: feature 1 is the same as feature 0"),
    (LABELS_AT + 12, 0x62445372, "byte 272: labels: expected 0x62445371, the order of bytes, got 0x62445372"),
    (LABELS_AT + 20, 2160, "byte 276: labels: expected an array of 3 within 2162 bytes"),
    (LABELS_AT + 2150, 2**31, "labels: lies outside of its database"),
    (LABELS_AT + 2150, 2082, "labels: expected the names one after another"),
    (LABELS_AT + 2076, 60, "byte 2340: labels: expected a name that ends with NUL, got"),
    (LABELS_AT + 2080, b"\xff", r"labels: not UTF-8: b'\\xff'; --encoding names another encoding"),
    (LABELS_AT + 2080, b"O", "byte 260: labels: expected different names"),
    (LABELS_AT + 2081, b"O", "labels: expected a name that ends with NUL, got b'BO'"),
    (LISTS_AT + 8, 2**32 - 1, "byte 4780: lists of attributes: expected at least 7 within 100 bytes"),
    (LISTS_AT + 12, 4871, "byte 4871: lists of attributes lies outside of the file"),
    (LISTS_AT + 12, 4820, "byte 4772: lists of attributes: expected 8 features, got 9"),
    (LISTS_AT + 40, 2**32 - 1, "byte 4772: lists of attributes: expected 8 features, got 4294967302"),
    (LISTS_AT + 44, 3, "byte 4772: lists of attributes: expected each feature once"),
    (4756, 9, "byte 4720: lists of labels: expected each feature once"),
]


@pytest.mark.parametrize(("place", "value", "message"), WRONG)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path, place, value, message):
    """In bounded memory, whatever the file says of its sizes."""
    path = tmp_path / "bad.crfsuite"
    write_model(path, TRAINED)
    content, new = bytearray(path.read_bytes()), value if isinstance(value, bytes) else struct.pack("<I", value)
    content[place : place + len(new)] = new
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"bad.crfsuite: .*{message}"):
            read_model(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_names_that_share_bytes_take_no_more_memory_than_the_file(tmp_path):
    """Each of a thousand names says that it is as long as all of them."""
    model = TRAINED._replace(attributes=tuple(f"a{k}" for k in range(1000)))
    states = np.stack([np.arange(1000), np.zeros(1000, int)], 1)
    write_model(tmp_path / "m", model._replace(states=states, state_weights=np.ones(1000)))
    content = bytearray((tmp_path / "m").read_bytes())
    (start,) = struct.unpack_from("<I", content, 36)
    record = start + 24 + 8 * 256
    for _ in range(1000):
        (length,) = struct.unpack_from("<I", content, record + 4)
        struct.pack_into("<I", content, record + 4, len(content) - record - 30000)
        record += 8 + length
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ValueError, match="attributes: expected the names one after another"):
        read_model(tmp_path / "m")


def test_models_that_the_format_cannot_say_are_refused_by_name(backend, tmp_path):
    sp, X, Y = backend.module, [[["a"], ["b"]]], [["B-X", "I-X"]]
    for model, message in (
        (sp.TaggingModel.of(X, Y, None, bits=4), "names of attributes, which a model with bits does not have"),
        (sp.TaggingModel.of(X, Y, None, transitions="bio"), "cannot forbid transitions, .* transitions='bio'"),
        (sp.TaggingModel.of(X, Y, None, cost=[[0, 2], [1, 0]]), "holds no costs of labels"),
        (sp.SequenceModel(2, 2), "a SequenceModel has start and stop weights"),
        (sp.SegmentationModel(2, 2), "a SegmentationModel has edge features"),
    ):
        with pytest.raises(ValueError, match=message):
            crfsuite_of(model, np.zeros(model.size))
    model = sp.TaggingModel.of(X, Y, None)
    with pytest.raises(ValueError, match="w: expected 3 finite weights"):
        crfsuite_of(model, np.full(3, np.inf))
    for change, message in (
        ({"labels": ("B", "B", "O")}, "labels: expected different names"),
        ({"labels": ("B", "\0", "O")}, r"labels: a name with a NUL has no place in crfsuite's format, got '\\x00'"),
        ({"labels": ("B", "\ud800", "O")}, "labels: expected Unicode"),
        ({"states": np.zeros((8, 2))}, "states: expected each pair once"),
        ({"transitions": np.array([(0, 1), (1, 3)])}, "transitions: expected numbers of names below 3 and 3"),
        ({"transition_weights": np.array([0.0, np.nan])}, "transitions: expected 2 finite weights"),
    ):
        with pytest.raises(ValueError, match=message):
            write_model(tmp_path / "m", TRAINED._replace(**change))
    with pytest.raises(ValueError, match="labels: expected 1 to 10000, got 0"):
        tagger_of(sp, CrfsuiteModel((), (), np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2)), np.zeros(0)))


# items ----------------------------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_characters="\0\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=6)
items = st.dictionaries(words, st.floats(-1e9, 1e9), max_size=3)


@given(rows=st.lists(st.tuples(words.filter(lambda x: x.strip() and x[0] != "@"), items), min_size=1, max_size=4))
def test_items_that_are_written_are_read(rows):
    lines = ["\t".join([escaped(y), *(f"{escaped(name)}:{value!r}" for name, value in x.items())]) for y, x in rows]
    assert list(item_blocks("a", enumerate(lines, 1))) == [([*range(1, len(rows) + 1)], rows)]


def test_items_by_hand():
    text = "B\ta\tb:2\tc\\:d\\\\:0.5\t\ta:\tx\\y\n\nO\\:\n"
    (numbers, first), (_, second) = item_blocks("a", enumerate(text.split("\n"), 1))
    assert (
        numbers == [1] and first == [("B", {"a": 2.0, "b": 2.0, "c:d\\": 0.5, "x\\y": 1.0})] and second == [("O:", {})]
    )
    found = attributes_of([{"items": [each for _, each in first], "label": ["B"]}], None)
    assert found.names == [*first[0][1]] and found.values.tolist() == [*first[0][1].values()]


THEIRS = "B\ta\\:x\\:y\tb:1.5\té\nO\tb:2\tc\\:p\tc\\:q\n\nO\ta\\:z\nI\tc\\:k\\:v\n"


def test_a_model_is_moved_here_and_back(tmp_path, write, cli):
    """An imported model tags, scores and is trained further on files of items; it is exported as it was."""
    write_model(tmp_path / "theirs", TRAINED)
    write(THEIRS.replace("I\t", "_\t"), "new.txt")
    write(THEIRS, "items.txt")
    assert "theirs: 3 labels, 7 attributes, 10 weights" in cli.printed("tag import theirs --save m.npz")
    assert cli.printed("tag predict m.npz new.txt") == THEIRS
    assert cli.reported("tag evaluate m.npz items.txt")["accuracy"] == {"token": 1.0, "sentence": 1.0}
    assert "1.4643  O -> I" in cli.printed("tag show m.npz")
    cli.printed("tag export m.npz again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "theirs").read_bytes()
    report = cli.reported("tag train items.txt --templates items --lam 0.1 --save own.npz --quiet")
    again = cli.reported("tag train items.txt --start m.npz --lam 0.1 --quiet")
    parts = cli.reported("tag train items.txt --templates items --lam 0.1 --partitions 2 --quiet")
    assert [again["objective"], parts["objective"]] == pytest.approx([report["objective"]] * 2, rel=1e-6)
    assert report["weights"] == 10 and report["train"]["accuracy"]["token"] == 1.0
    assert "--save: name the file" in cli.refused("tag import theirs")
    assert "theirs: not a readable model file" not in cli.refused("tag predict m.npz new.txt --tokens")
