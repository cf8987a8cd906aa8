"""Taggers and chunkers: weights of pairs, hashing, legal predictions, bound models; templates of their features."""

from __future__ import annotations

import hashlib
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.models import LABELS, MODELS, TAGGERS, legal, sentences
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from diptych.chunks import chunks
from diptych.files import load_model, save_model
from reference.models.rules import as_settings, rules_of
from reference.models.segment_templates import check_segment_templates, segment_names
from reference.models.token_templates import TOKEN_TEMPLATES, attributes_of, check_templates, columns_of, load_templates


def test_observed_pairs_by_hand(backend):
    X = [{"word": ["a", "b", "a"]}, {"word": ["b"]}]
    Y = [["N", "V", "N"], ["N"]]
    model = backend.TaggingModel.of(X, Y, ["word"])
    assert model.labels == ("N", "V") and model.vocabulary == ("word[0]=a", "word[0]=b")
    assert model.pairs.tolist() == [0, 2, 3] and model.label_pairs.tolist() == [1, 2]  # a-N, b-N, b-V; NV, VN
    assert model.size == 5
    every = backend.TaggingModel.of(X, Y, ["word"], pairs="all")
    assert every.size == 2 * 2 + 4 and every.pairs is None and not every.restricted
    assert backend.TaggingModel.of(X, Y, ["word"], least=3).size == 0 + 2
    unknown = model.pack([{"word": ["c", "a"]}])
    assert unknown.rows.indices.tolist() == [0] and unknown.rows.indptr.tolist() == [0, 0, 1]


def test_hashing_is_the_same_for_ever(backend):
    """Rows are hashes of names, BLAKE2b modulo their number: a change would make saved models useless."""
    model = backend.TaggingModel(["a", "b", "c"], ["bias", "word"], bits=10)
    assert model.width == 2**10 // 3 and model.size == 341 * 3 + 9
    data = model.pack([{"word": ["cat", "dog"]}])
    names = ("bias", "word[0]=cat", "bias", "word[0]=dog")
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    assert data.rows.indices.tolist() == [int.from_bytes(digest, "little") % 341 for digest in digests]
    assert backend.TaggingModel(["a", "b", "c"], ["bias", "word"], bits=2).width == 1


@given(data=st.data())
def test_predicted_labels_are_legal(backend, data):
    scheme = data.draw(st.sampled_from(sorted(LABELS)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    scale = data.draw(st.sampled_from([0.0, 1.0, 1e300, 1e-300]))
    X, _ = sentences(rng, scheme=scheme)
    model = backend.TaggingModel(LABELS[scheme], ["bias", "word[-1..1]"], bits=8, transitions=scheme)
    w = scale * rng.choice([-1.0, 0.0, 1.0], model.size)
    for x, y in zip(X, model.predict(model.pack(X), None, w), strict=True):
        assert len(y) == len(x["word"]) and legal([model.labels[i] for i in y], scheme)


def test_functions_have_no_file_form(backend, tmp_path):
    X, Y = [["a", "b"]], [["N", "V"]]
    model = backend.TaggingModel.of(X, Y, lambda sentence, t: [sentence[t]])
    with pytest.raises(TypeError, match="templates: a function cannot be saved; make a model with templates=None"):
        save_model(tmp_path / "m.npz", model, np.zeros(model.size))
    same = backend.TaggingModel.of([[["a"], ["b"]]], Y, None)
    assert same.vocabulary == model.vocabulary == ("a", "b") and same.settings()["templates"] is None
    weighed = same.pack([[{"a": 2.0, "b": 0.5}]])
    close(same.scores(weighed, np.array([0]), np.array([1.0, 10.0, 0.0])).unary, [[[2.0, 5.0]]])


@given(names=st.lists(st.text(max_size=4), max_size=6, unique=True), data=st.data())
def test_any_names_and_pairs_are_kept_in_files(backend, tmp_path_factory, names, data):
    """Names may have any characters, be empty, or be prefixes of each other."""
    cells = data.draw(st.none() | st.sets(st.integers(0, 2 * len(names) - 1)).map(sorted)) if names else None
    moves = data.draw(st.sets(st.integers(0, 3)).map(sorted))
    model = backend.TaggingModel(["N", "V"], None, vocabulary=names, pairs=cells, label_pairs=moves)
    path, w = tmp_path_factory.mktemp("m") / "m.npz", np.arange(float(model.size))
    save_model(path, model, w)
    again, v, _ = load_model(path, backend.module)
    assert again.settings() == model.settings() and np.array_equal(w, v)


# model.bound(w): the answers of predict on packed inputs, bit for bit ------------------------------------------------

MANY = ["bias", "BOS", "EOS", "word[-2..2]", "word[-1]|word[0]", "word[1]|tag.shape[-1]|word.brief[0]"]
MANY += ["word.lower", "word.suffix2[1]", "word.prefix1", "tag.hyphen", "tag.title[-1]"]
STRANGE = [*itertools.permutations(["a|b", "a", "b|", "\\", "a\\|b", "", "=", "word[0]=a"], 3)]


def bound_cases(backend):
    """Models and their inputs: unknown words, one token, none; every template and character; what is no columns."""
    known, _ = sentences(np.random.default_rng(3), 30)
    known[4]["word"] = [f"unknown{i}" for i in range(len(known[4]["word"]))]
    cases = [(MODELS[f"tags {options}"].training().make(backend), known) for options in TAGGERS]
    strange = [{"word": list(x), "tag": list(x[::-1])} for x in STRANGE]
    cases.append((backend.TaggingModel.of(strange, [["A", "B", "C"]] * len(strange), MANY), strange))
    sets, letters = [[["a", "b"], ["b"], []], [["c"]]], ["a", "b", "c"]
    cases.append((backend.TaggingModel(["x", "y"], None, vocabulary=letters), sets))
    cases.append((backend.TaggingModel(["x", "y"], lambda x, t: x[t], vocabulary=letters), sets))
    cases.append((backend.TaggingModel(["x", "y"], "words", bits=5), [{"word": ["a", "B-2"]}]))
    return [*cases, (backend.SequenceModel(2, 3), [np.eye(4, 2)])]


@pytest.mark.parametrize("case", range(len(TAGGERS) + 5))
def test_a_bound_model_predicts_as_its_model(backend, rng, case):
    """Inputs one by one and together; ties between labels of equal scores too; float32; with weights of its own."""
    model, X = bound_cases(backend)[case]
    for w in (rng.normal(size=model.size), rng.normal(size=model.size).round(), np.zeros(model.size, np.float32)):
        tagger = model.bound(w)
        expected = [y.tolist() for y in model.predict(model.pack(X, like=w), None, w)]
        w[:] = -w[::-1]
        assert [tagger([x])[0].tolist() for x in X] == expected == [y.tolist() for y in tagger(X)]
    assert tagger([]) == [] and repr(tagger).endswith(f"({model!r})")


def test_a_bound_tagger_without_a_possible_labelling(backend):
    """In iobes, one token can be no chunk's begin: with no label for single tokens and no O it has no labelling."""
    model = backend.TaggingModel(["B-X", "E-X"], "words", bits=5, transitions="iobes")
    tagger = model.bound(np.zeros(model.size))
    assert [y.tolist() for y in tagger([{"word": ["a", "b"]}])] == [[0, 1]]
    with pytest.raises(backend.InfeasibleError):
        tagger([{"word": ["a", "b"]}, {"word": ["a"]}])


# templates: what each token has, by hand and written out naively; functions; TOML -------------------------------------


def sets(X, templates):
    """For each token of each sentence, its attributes as a dictionary; each once."""
    found = attributes_of(X, templates)
    assert found.offsets.tolist()[-1] == len(found.indptr) - 1
    tokens = []
    for t in range(len(found.indptr) - 1):
        mine = range(found.indptr[t], found.indptr[t + 1])
        tokens.append({found.names[found.numbers[e]]: float(found.values[e]) for e in mine})
        assert len(tokens[-1]) == len(mine)
    return [tokens[a:b] for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


def test_attributes_by_hand():
    X = [{"word": ("The", "CAT", "2-b"), "tag": ("D", "N", "X")}, {"word": (), "tag": ()}]
    X.append({"word": ["a"], "tag": ["D"]})
    first, second, third = sets(X, check_templates(["bias", "BOS", "EOS", "word[-1..0]", "tag[0]|word[1]"]))
    assert set(first[0]) == {"bias", "BOS", "word[0]=The", "tag[0]|word[1]=D|CAT"}
    assert set(first[1]) == {"bias", "word[-1]=The", "word[0]=CAT", "tag[0]|word[1]=N|2-b"}
    assert set(first[2]) == {"bias", "EOS", "word[-1]=CAT", "word[0]=2-b"}
    assert second == [] and set(third[0]) == {"bias", "BOS", "EOS", "word[0]=a"}
    treatments = ["lower", "shape", "brief", "title", "upper", "digit", "hyphen", "prefix2", "suffix2"]
    ((the, cat, dash), *_) = sets(X, check_templates([f"word.{each}" for each in treatments]))
    values = [[name.partition("=")[2] for name in token] for token in (the, cat, dash)]
    assert values[0] == ["the", "Xxx", "Xx", "1", "0", "0", "0", "Th", "he"]
    assert values[1] == ["cat", "XXX", "X", "0", "1", "0", "0", "CA", "AT"]
    assert values[2] == ["2-b", "0-x", "0-x", "0", "0", "0", "1", "2-", "-b"]


TREATED = {
    "": lambda v: v,
    ".lower": str.lower,
    ".prefix1": lambda v: v[:1],
    ".suffix2": lambda v: v[-2:],
    ".upper": lambda v: str(int(v.isupper())),
}
atoms = st.tuples(st.sampled_from(["word", "tag"]), st.sampled_from(list(TREATED)), st.integers(-2, 2))
values = st.sampled_from(["a", "B", "ab", "a|b", "|", "\\", "\\|", "ß"])


@given(
    templates=st.lists(st.lists(atoms, min_size=1, max_size=3), min_size=1, max_size=4),
    X=st.lists(st.lists(st.tuples(values, values), max_size=5), max_size=3),
)
def test_attributes_are_equal_where_what_is_seen_is(templates, X):
    """One attribute for each template whose positions there are; names are equal where template and values are."""
    names = ["|".join(f"{column}{how}[{t}]" for column, how, t in template) for template in templates]
    templates = [template for i, template in enumerate(templates) if names[i] not in names[:i]]
    names = list(dict.fromkeys(names))
    columns = [{"word": [w for w, _ in x], "tag": [t for _, t in x]} for x in X]
    found, name_of = sets(columns, check_templates(names)), {}
    for x, tokens in zip(columns, found, strict=True):
        n = len(x["word"])
        for p in range(n):
            seen = []
            for name, template in zip(names, templates, strict=True):
                if all(0 <= p + t < n for _, _, t in template):
                    seen.append((name, *(TREATED[how](x[column][p + t]) for column, how, t in template)))
            assert len(tokens[p]) == len(seen) and all(value == 1.0 for value in tokens[p].values())
            for what, name in zip(seen, tokens[p], strict=True):
                assert name_of.setdefault(what, name) == name
    assert len(set(name_of.values())) == len(name_of)


def test_functions_and_attribute_sets():
    X = [{"word": ["a", "b"]}, {"word": ["c"]}]

    def lists(sentence, t):
        return [f"w={sentence['word'][t]}", "bias"]

    assert sets(X, lists) == [[{"w=a": 1.0, "bias": 1.0}, {"w=b": 1.0, "bias": 1.0}], [{"w=c": 1.0, "bias": 1.0}]]
    assert sets(["ab"], lambda sentence, t: {"is": sentence[t], "half": 0.5, "yes": True, "no": False}) == [
        [{"is:a": 1.0, "half": 0.5, "yes": 1.0, "no": 0.0}, {"is:b": 1.0, "half": 0.5, "yes": 1.0, "no": 0.0}]
    ]
    assert sets([[["x", "y"], {"z": 2}], []], None) == [[{"x": 1.0, "y": 1.0}, {"z": 2.0}], []]
    assert attributes_of([], None).offsets.tolist() == attributes_of([], ("bias",)).offsets.tolist() == [0]


def test_templates_of_a_file(tmp_path):
    path = tmp_path / "t.toml"
    path.write_text('templates = ["bias", "word[-1..1]", "word.suffix3|tag[+1]"]\n')
    assert load_templates(path) == ("bias", "word[-1]", "word[0]", "word[1]", "word.suffix3[0]|tag[1]")
    for content, message in (
        ("templates = [", "t.toml: not a TOML file"),
        ("other = 1", "t.toml: expected templates = .*, got other"),
        ("templates = [1]", "t.toml: expected templates"),
        ('templates = ["word["]', "t.toml: templates: expected bias, BOS, EOS or atoms .* got 'word\\['"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            load_templates(path)
    with pytest.raises(ValueError, match="none.toml: no such file"):
        load_templates(tmp_path / "none.toml")


def test_the_sets_of_the_package():
    found = {name: columns_of(check_templates(name)) for name in TOKEN_TEMPLATES}
    assert found == {"chunks": ["word", "tag"], "entities": ["word", "tag"], "words": ["word"]}
    assert len(check_templates("chunks")) == 22


def test_what_is_no_template_or_sentence_is_named():
    check_refusals("wrong_templates.txt", globals())


# rules of one's own --------------------------------------------------------------------------------------------------

FORMS = {  # one set of rules, written in several ways
    "pairs": {"forbidden": [["O", "I-X"], ["O", "I-Y"], ("B-X", "I-Y")], "start": ["O", "B-X", "B-Y"], "end": ["O"]},
    "patterns": {"forbidden": [["O", "I-*"], ["B-X", "*-Y"]], "start": ["O", "B-*"], "end": ["?"]},
}


def test_rules_in_all_forms():
    """Names, patterns, allowed pairs beside a scheme, a matrix with two vectors, settings: written out by hand."""
    names = ("B-X", "B-Y", "I-X", "I-Y", "O")
    follows, begins, ends = rules_of(names, FORMS["pairs"])
    expected = np.ones((5, 5), bool)
    expected[4, 2] = expected[4, 3] = expected[0, 3] = False
    assert np.array_equal(follows, expected)
    assert begins.tolist() == [True, True, False, False, True] and ends.tolist() == [False] * 4 + [True]
    wider = rules_of(names, FORMS["patterns"])
    expected[0, 1] = False  # *-Y is B-Y too
    assert np.array_equal(wider.follows, expected) and np.array_equal(wider.begins, begins)
    assert np.array_equal(wider.ends, ends)
    within = rules_of(names, {"scheme": "bio", "forbidden": [["O", "O"]], "start": ["O", "I-X"], "end": ["*"]})
    assert not within.follows[4, 2] and not within.follows[4, 4] and within.follows[4, 0]  # bio's rule, and this one
    assert within.begins.tolist() == [False] * 4 + [True] and np.all(within.ends)
    for form in ((follows, begins, ends), [follows, begins, ends], FORMS["pairs"]):
        settings = as_settings(names, form, rules_of(names, form))
        again = rules_of(names, json.loads(json.dumps(settings)))
        assert all(map(np.array_equal, again, (follows, begins, ends)))
    assert np.array_equal(rules_of(names, follows).follows, follows) and np.all(rules_of(names, follows).ends)
    assert as_settings(names, np.ones((5, 5), bool), rules_of(names, np.ones((5, 5), bool))) is None
    named = rules_of(names, {"allowed": [["*", "O"], ["*", "B-X"], ["B-*", "I-?"]], "scheme": "bio"}).follows
    assert [names[b] for b in np.flatnonzero(named[0])] == ["B-X", "I-X", "O"]  # bio forbids I-Y after B-X
    assert [names[b] for b in np.flatnonzero(named[2])] == ["B-X", "O"]


@pytest.mark.parametrize("scheme", LABELS)
def test_labels_are_written_as_they_were_read(backend, rng, scheme):
    """Chunks as segments and back, in the scheme that the labels have; O is a segment of one token."""
    X, Y = sentences(rng, 6, scheme)
    model = backend.ChunkingModel.of(X, Y, ["word"], longest=7)
    data = model.pack(X, Y)
    every = [rows[rows[:, 0] >= 0] for rows in np.asarray(model._true_rows(data, np.arange(data.n)))]
    upper = [[label[0].upper() + label[1:] for label in y] for y in Y]
    assert [model.named(rows) for rows in every] == upper and {x for y in upper for x in y} <= set(model.token_labels)
    assert [chunks(y) for y in upper] == [chunks(y) for y in Y]
    assert model.longest.tolist() == [1 if label == "O" else 7 for label in model.labels]


def test_templates_of_segments():
    """By hand: joined values, tokens beside the edges and outside, treatments, lengths; what is none is named."""
    x = {"word": ["The", "old", "Duck"], "tag": ["D", "A", "N"]}
    for template, expected in (
        ("%s[word.lower]|%l", ["the|1", "the old duck|3", "duck|1"]),
        ("%b[-1,tag]/%e[+1,word]", ["_B-1/old", "_B-1/_B+1", "A/_B+1"]),
        ("S1:%b[-2,word]%e[ 0,tag.lower]", ["S1:_B-2d", "S1:_B-2n", "S1:Then"]),
    ):
        names = segment_names(template, x, 3, [(0, 1), (0, 3), (2, 3)])
        assert names == [f"{template}={each}" for each in expected]
    check_refusals("wrong_segments.txt", {"check": check_segment_templates})
