"""Templates of token features: what each token has, by hand and written out naively; functions; TOML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.pages import check_refusals
from reference.models.token_templates import TOKEN_TEMPLATES, attributes_of, check_templates, columns_of, load_templates


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
    X = [
        {"word": ("The", "CAT", "2-b"), "tag": ("D", "N", "X")},
        {"word": (), "tag": ()},
        {"word": ["a"], "tag": ["D"]},
    ]
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
    assert {name: columns_of(check_templates(name)) for name in TOKEN_TEMPLATES} == {
        "chunks": ["word", "tag"],
        "entities": ["word", "tag"],
        "words": ["word"],
    }
    assert len(check_templates("chunks")) == 22


def test_what_is_no_template_or_sentence_is_named():
    check_refusals("wrong_templates.txt", globals())
