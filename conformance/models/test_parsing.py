"""The dependency parser: features by hand, hashing and vocabularies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.specimens.models import TEMPLATE_LISTS
from reference.models.templates import DISTANCES, TEMPLATES

ROOT, OUTSIDE = ("root",), ("outside",)


def by_hand(templates, sentence, h, m):
    """The features of an arc, each a set of (atom, value), by what the atoms are said to mean."""
    rows = {
        field: dict(enumerate([ROOT, *(sentence["word"] if field in ("prefix", "suffix") else sentence[field])]))
        for field in {"prefix", "suffix", *sentence}
    }
    between = {rows["tag"][b] for b in range(min(h, m) + 1, max(h, m))}
    side = "right" if h > m else "left"
    found = []

    def value(atom, tag):
        if atom == "direction":
            return side
        if atom == "distance":
            return side, max(d for d in DISTANCES if d <= abs(h - m))
        if atom == "b.tag":
            return tag
        who, field = atom.split(".")
        place = {"h": h, "m": m}[who[0]] + int(who[1:] or 0)
        seen = rows[field].get(place, OUTSIDE)
        if seen in (ROOT, OUTSIDE):
            return seen
        return {"prefix": seen[:5], "suffix": seen[-3:]}.get(field, seen)

    for template in templates:
        for tag in sorted(between) if "b.tag" in template else [None]:
            found.append(frozenset((atom, value(atom, tag)) for atom in template))
    return found


@st.composite
def sentences(draw):
    """0 to 6 tokens of few different words and tags."""
    n = draw(st.integers(0, 6))
    words = draw(st.lists(st.sampled_from(["a", "bird", "birdsong", "sang", "<root>", "\0"]), min_size=n, max_size=n))
    tags = draw(st.lists(st.sampled_from("DNV"), min_size=n, max_size=n))
    return {"word": words, "tag": tags, "other": None}


@given(examples=st.lists(sentences(), min_size=1, max_size=3))
@pytest.mark.parametrize("templates", TEMPLATE_LISTS)
def test_keys_are_equal_where_features_are(templates, examples):
    """Over all arcs of some sentences: a key for each feature, and different ones for different features."""
    model = reference.ParsingModel(templates)
    data = model.pack(examples)
    key_of, feature_of = {}, {}
    for i, x in enumerate(examples):
        n = len(x["tag"])
        arcs, keys = model.arc_keys(data, i)
        x = {"word": x["word"], "tag": x["tag"]}
        for m, h in itertools.product(range(1, n + 1), range(n + 1)):
            mine = keys[arcs == (m - 1) * (n + 1) + h].tolist()
            if h == m:
                assert mine == []
                continue
            features = by_hand(model.templates, x, h, m)
            assert len(mine) == len(features)
            assert len(set(mine)) == len(set(features))
            for feature in features:
                key_of.setdefault(feature, set(mine)).intersection_update(mine)
            for key in mine:
                feature_of.setdefault(key, set(features)).intersection_update(features)
    assert all(key_of.values()) and all(feature_of.values())


def test_a_vocabulary_knows_the_features_of_true_arcs(backend):
    """By hand: tags of head and modifier of three true arcs, of which one occurs twice; others have no weight."""
    plain = backend.ParsingModel([("h.tag", "m.tag")])
    X = [{"tag": ["D", "N", "V"]}, {"tag": ["D", "N"]}]
    data = plain.pack(X, [[2, 3, 0], [2, 0]])
    every, twice = plain.vocabulary(data), plain.vocabulary(data, least=2)
    assert len(every) == 4 and len(twice) == 1  # D<-N, N<-V, V<-root, N<-root
    model = backend.ParsingModel([("h.tag", "m.tag")], vocabulary=twice.tolist())
    assert model.size == 1
    scores = model.scores(model.pack(X), np.array([0]), np.array([5.0])).values
    assert np.array_equal(np.argwhere(scores), [[0, 2]]) and scores[0, 2] == 5.0
    empty = backend.ParsingModel([("h.tag", "m.tag")], vocabulary=[])
    assert empty.size == 0 and not empty.scores(empty.pack(X), np.array([0]), np.zeros(0)).values.any()
    same = backend.ParsingModel(**model.settings())
    assert same.settings() == model.settings() and same.size == 1


def test_named_templates(backend):
    for name, templates in TEMPLATES.items():
        model = backend.ParsingModel(name)
        assert len(model.templates) == len(templates) == int(name) and model.size == 2**20
        assert all("b.tag" in t for t in model.templates[model.simple :])
