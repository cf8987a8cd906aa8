"""Templates of CRF++ and wapiti: the attributes that both programs write, outside of sentences too, and what they
refuse.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.tolerances import close
from diptych.files.templates import load_templates
from reference.models.macros import FLAVOURS, has_transitions
from reference.models.token_templates import attributes_of, check_templates, columns_of

COLUMNS = ("word", "tag", "label")
X = [{"word": ["The", "cat", "sat"], "tag": ["DT", "NN", "VBD"]}, {"word": ["Dogs", "bark"], "tag": ["NNS", "VBP"]}]
Y = [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]]
MANUAL = {"word": ["He", "reckons", "the", "current", "account"], "tag": ["PRP", "VBZ", "DT", "JJ", "NN"]}

# the third token of CRF++'s manual
EXPANDED = {
    "U%x[0,0]": "Uthe",
    "U%x[0,1]": "UDT",
    "U%x[-1,0]": "Ureckons",
    "U%x[-2,1]": "UPRP",
    "U%x[0,0]/%x[0,1]": "Uthe/DT",
    "UABC%x[0,1]123": "UABCDT123",
    "U07:%x[-4,0]/%x[3,1]": "U07:_B-2/_B+1",
}

# what crf_learn -t (0.59) and wapiti train (1.5.0) write for X
WRITTEN = {
    "crfpp": (
        "# a comment\nU00:%x[-2,0]\nU01:%x[0,0]/%x[1,1]\nU:%x[-1,0]\nU:%x[0,0]\nU05 const #x\n\nB\n",
        "U00:The U00:_B-1 U00:_B-2 U01:Dogs/VBP U01:The/NN U01:bark/_B+1 U01:cat/VBD U01:sat/_B+1 U05_const_#x U:Dogs "
        "U:The U:_B-1 U:bark U:cat U:sat",
    ),
    "wapiti": (
        "*\nU:w=%x[ 0,0]  # comment\nu:pp=%x[-2,0]/%x[+3,1]/%x[-6,0]/%x[9,0]\nU:suf=%m[0,0,\".?.?$\"]\n"
        'U:sh=%t[0,0,"^\\u"]/%T[0,0,"^\\u"]/%M[0,0,"^\\u\\l*"]/%m[0,0,"\\l*"]/%m[0,0,"a?t"]\n'
        'U:q=%m[-1,0,"^_"]%t[-1,0,"X"]%x[@1,0]%x[@-1,0]%x[@0,0]%x[@9,0]\n',
        "* u:pp=The/_x+3/_x-4/_x+# u:pp=_x-1/_x+2/_x-#/_x+# u:pp=_x-1/_x+3/_x-#/_x+# u:pp=_x-2/_x+1/_x-#/_x+# "
        "u:pp=_x-2/_x+2/_x-#/_x+# u:q=_falseDogsbark_x-1_x+# u:q=_falseThesat_x-1_x+# u:q=falseDogsbark_x-1_x+# "
        "u:q=falseThesat_x-1_x+# u:sh=false/false/// u:sh=false/false///at u:sh=true/true/d// u:sh=true/true/t// "
        "u:suf=at u:suf=gs u:suf=he u:suf=rk u:w=Dogs u:w=The u:w=bark u:w=cat u:w=sat",
    ),
}  # fmt: skip


def written(tmp_path, text, prefix=""):
    """The templates of a file."""
    (tmp_path / "t").write_text(text)
    return load_templates(f"{prefix}{tmp_path / 't'}", COLUMNS)


def sets(x, templates):
    """The names of the attributes of each token of a sentence, as often as it has them."""
    found = attributes_of([x], check_templates(templates))
    return [[found.names[i] for i in found.numbers[a:b]] for a, b in zip(found.indptr, found.indptr[1:], strict=False)]


@pytest.mark.parametrize("line", EXPANDED)
def test_macros_of_the_manual(tmp_path, line):
    assert sets(MANUAL, written(tmp_path, line))[2] == [EXPANDED[line]]


@pytest.mark.parametrize("flavour", WRITTEN)
def test_attributes_are_those_of_the_programs(tmp_path, flavour):
    text, names = WRITTEN[flavour]
    templates = written(tmp_path, text)
    assert all(each.startswith(flavour) for each in templates) and columns_of(templates) == ["word", "tag"]
    found = attributes_of(X, templates).names
    assert sorted(found) == sorted(name.replace("_const_", " const ") for name in names.split(" "))
    assert written(tmp_path, text, f"{flavour}:") == templates
    assert sets({"word": [], "tag": []}, templates) == []


def naive(line, x, n):
    """The attribute of each token by looking up each macro where it stands."""

    def value(t, row, column):
        k = t + row
        return x[column][k] if 0 <= k < n else f"_B{k}" if k < 0 else f"_B+{k - n + 1}"

    lookup = re.compile(r"%x\[(-?\d+),(\d)\]")
    return [lookup.sub(lambda m, t=t: value(t, int(m[1]), COLUMNS[int(m[2])]), line) for t in range(n)]


texts = st.text("ab:/|\\[]é ", max_size=3)
macros = st.builds("%x[{},{}]".format, st.integers(-12, 12), st.integers(0, 1))
lines = st.lists(st.one_of(texts, macros), max_size=5).map(lambda parts: "U" + "".join(parts))
cells = st.text("ab/|\\%_-é", min_size=1, max_size=3)


@given(lines=st.lists(lines, min_size=1, max_size=4, unique=True), x=st.lists(st.tuples(cells, cells), max_size=5))
def test_attributes_are_the_lines_with_values_in_them(tmp_path_factory, lines, x):
    """One a token and line, and the same from two lines is the same attribute, twice."""
    columns = {"word": [word for word, _ in x], "tag": [tag for _, tag in x]}
    templates = written(tmp_path_factory.mktemp("t"), "\n".join(lines), "crfpp:")
    expected = [[*token] for token in zip(*(naive(line, columns, len(x)) for line in lines), strict=True)]
    assert sets(columns, templates) == expected
    assert len({*attributes_of([columns], templates).names}) == len(attributes_of([columns], templates).names)


REGEXES = {  # what matches of "Cat-42x"; %t is whether anything does
    "^.?.?.?": "Cat",
    ".?.?$": "2x",
    "\\d\\d*": "4",
    "\\d\\d*\\l": "42x",
    "\\p": "-",
    "\\P\\p": "t-",
    "^\\u\\u*$": None,
    "\\a*-": "Cat-",
    "\\W": "-",
    "\\-": "-",
    "x$": "x",
    "$x": None,
    "t^": None,
    "a?t": "at",
    "q?": "",
    "(": None,
    "": "",
}


@pytest.mark.parametrize("regex", REGEXES)
def test_expressions_of_wapiti(tmp_path, regex):
    templates = written(tmp_path, f'u%m[0,0,"{regex}"]|%M[0,0,"{regex}"]|%t[0,0,"{regex}"]', "wapiti:")
    match = REGEXES[regex]
    part, found = match or "", "false" if match is None else "true"
    assert sets({"word": ["Cat-42x"]}, templates) == [[f"u{part}|{part.lower()}|{found}"]]


def test_a_model_without_a_line_for_transitions_has_none(backend, tmp_path):
    for text, transitions in (("U%x[0,0]", []), ("U%x[0,0]\nB", [1, 2, 7]), ("u%x[0,0]\n*", [1, 2, 7])):
        templates = written(tmp_path, text)
        assert has_transitions(templates) == bool(transitions)
        assert backend.TaggingModel.of(X, Y, templates).label_pairs.tolist() == transitions
        every = backend.TaggingModel.of(X, Y, templates, pairs="all")
        assert every.label_pairs.tolist() == [*range(9 if transitions else 0)]
    assert has_transitions(check_templates("words"))


@given(data=st.data())
def test_bound_models_and_losses_with_shared_attributes(backend, data):
    """A sentence at a time as by pack and predict; an attribute that a token has twice weighs twice."""
    flavour = data.draw(st.sampled_from(sorted(FLAVOURS)))
    kind = "U" if flavour == "crfpp" else "u"
    templates = [f"{flavour}:{kind}:%x[{row},word]" for row in (-1, 0, 2)]
    templates += data.draw(st.sampled_from([[], [f"{flavour}:{kind.replace('U', 'B').replace('u', 'b')}"]]))
    words = st.lists(st.sampled_from(["a", "b", "_B-1"]), max_size=4)
    sentences = [{"word": x} for x in data.draw(st.lists(words, min_size=1, max_size=4))]
    rng = np.random.default_rng(len(sentences))
    labels = [[("N", "V")[k] for k in rng.integers(0, 2, len(x["word"]))] for x in sentences]
    labels[0] = labels[0] or ["N"]
    sentences[0] = sentences[0] if sentences[0]["word"] else {"word": ["a"]}
    model = backend.TaggingModel.of(sentences, labels, templates)
    w, packed = rng.standard_normal(model.size), model.pack(sentences, labels)
    bound = model.bound(w)(sentences)
    assert all(np.array_equal(a, b) for a, b in zip(bound, model.predict(packed, None, w), strict=True))
    unary = np.asarray(model.split(w)[0])
    for i, x in enumerate(sentences):
        scores = model.scores(packed, np.array([i]), w)
        for t, names in enumerate(sets(x, templates)):
            close(scores.unary[0, t], unary[[model.vocabulary.index(name) for name in names]].sum(axis=0))
    loss = backend.module.LogLoss(model, packed)
    gradient = loss.value_and_gradient(w)[1]
    step = 1e-5 * rng.standard_normal(model.size)
    ahead, behind = (loss.value_and_gradient(w + sign * step)[0] for sign in (1, -1))
    assert ahead - behind == pytest.approx(2 * gradient @ step, rel=1e-4, abs=1e-10)
