"""The command ``align``: features of strings, files of examples, train and apply."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.application.test_app import PNG
from conformance.tolerances import close
from diptych.files import load_model
from diptych.files.pairs import FEATURES, _plain, load_pairs, pair_features, read_lines

WORDS = st.text(st.sampled_from("abcé É1.-"), max_size=6)


def one(a, b):
    """The features of a pair by name."""
    return dict(zip(FEATURES, pair_features([a], [b])[0, 0].tolist(), strict=True))


def test_features_by_hand():
    got = one("Chapter 12: Forêt", "chapter 12 foret")
    plain = ("equal when plain", "edit similarity", "common prefix", "common suffix", "bigrams", "words", "digits")
    assert got["equal"] == 0 and all(got[name] == 1 for name in plain)
    got = one("kitten", "sitting")
    close([got["edit similarity"], got["length difference"]], [1 - 3 / 7, 1 / 7])
    assert got["common prefix"] == got["common suffix"] == got["first letter"] == got["digits"] == 0
    close(got["bigrams"], 2 * 2 / 15)  # it, tt of 7 + 8 letter pairs with ends
    assert one("M4", "M6")["digits"] == one("M4", "M")["digits"] == -1 and one("a", "a")["equal"] == 1
    close(one("abcd", "abxxcd")["common prefix"], 0.5)
    places = pair_features(["a"] * 4, ["a"] * 2)[:, :, FEATURES.index("place")]
    close(places, [[0.875, 0.375], [0.875, 0.625], [0.625, 0.875], [0.375, 0.875]])


@given(a=WORDS, b=WORDS)
def test_features_are_bounded_and_do_not_know_sides(a, b):
    """The edit similarity is Levenshtein's, by the recursion of the definition."""
    forward, same = one(a, b), one(a, a)
    assert forward == one(b, a)
    assert all(0 <= value <= 1 for name, value in forward.items() if name != "digits")
    assert same["equal"] == same["edit similarity"] == same["bigrams"] == 1 and same["length difference"] == 0
    a, b = _plain(a), _plain(b)

    @lru_cache
    def distance(i, j):
        if min(i, j) == 0:
            return max(i, j)
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    close(forward["edit similarity"], 1 - distance(len(a), len(b)) / max(len(a), len(b), 1))


def test_the_examples_of_the_package():
    examples = load_pairs("names")
    assert len(examples) == 21
    for example in examples:
        taken = example.columns[example.columns >= 0]
        assert len(set(taken)) == len(taken) >= 6 and taken.max() < len(example.right)
        assert example.left == sorted(example.left) and example.right == sorted(example.right)
    partner = dict(zip(examples[0].left, examples[0].columns, strict=True))
    assert examples[0].right[partner["March"]] == "März" and partner["Monday"] == -1 and len(examples[0].right) == 13


def test_text_and_json_say_the_same(tmp_path):
    """Files may begin with a byte order mark."""
    lines = "# words\nzwei\ttwo\neins\tone\n\n\n# more\nalone\t\n\tnobody\nb\tb\n"
    (tmp_path / "a.tsv").write_text(lines, "utf-8-sig")
    content = [
        {"left": ["eins", "zwei"], "right": ["one", "two"], "pairs": [[1, 1], [0, 0]]},
        {"left": ["alone", "b"], "right": ["b", "nobody"], "pairs": [[1, 0]]},
    ]
    (tmp_path / "a.json").write_text(json.dumps(content), "utf-8")
    text, same = load_pairs(str(tmp_path / "a.tsv")), load_pairs(str(tmp_path / "a.json"))
    for a, b in zip(text, same, strict=True):
        assert a.left == b.left and a.right == b.right and a.columns.tolist() == b.columns.tolist()
    (tmp_path / "list.txt").write_bytes("\ufeffone \r\r two\u2028too\n".encode("utf-8"))
    assert read_lines(str(tmp_path / "list.txt")) == ["one", "two\u2028too"]
    (tmp_path / "list.txt").write_bytes(b"caf\xe9")
    assert read_lines(str(tmp_path / "list.txt"), encoding="latin-1") == ["café"]


@pytest.fixture
def some_names(tmp_path):
    """Four short examples, with distractors."""
    path = tmp_path / "some.tsv"
    path.write_text(
        "Januar\tJanuary\nMai\tMay\nJuni\tJune\nHerbst\t\n\nMontag\tMonday\nFreitag\tFriday\n\tWeek\n\n"
        "Polen\tPoland\nNorwegen\tNorway\nItalien\tItaly\nBayern\t\n\nM4 nut\tnut (M4)\nM5 nut\tNut (M5)\nbolt "
        "M4\tBolt M4\n",
        "utf-8",
    )
    return path


def test_train_and_apply(backend, some_names, tmp_path, cli):
    pytest.importorskip("matplotlib")
    saved, picture = tmp_path / "model.npz", tmp_path / "matrix.png"
    command = ["align", "train", some_names, "--hold-out", 4, "--lam", 0.02, "--tol", 0.02, "--save", saved]
    report = cli.reported(*command)
    assert report["examples"] == 3 and report["success"]
    assert 0 <= report["certificate"] <= 0.02 * report["objective"]
    assert report["train"]["string"] >= 0.9 and set(report["weights"]) == {*FEATURES, "no partner"}
    model, w, info = load_model(saved, backend.module)
    assert type(model) is backend.AlignmentModel and model.null and info["features"] == list(FEATURES)
    assert w.tolist() == list(report["weights"].values())
    (tmp_path / "left.txt").write_text("Juli\nFinnland\n\nquux\n", "utf-8")
    (tmp_path / "right.txt").write_text("Finland\nJuly\n", "utf-8")
    command = ["align", "predict", saved, tmp_path / "left.txt", tmp_path / "right.txt"]
    report = cli.reported(*command, "--plot", picture)
    assert picture.read_bytes().startswith(PNG)
    assert report["pairs"] == [[0, 1], [1, 0]] and report["alone"] == {"left": [2], "right": []}
    features = pair_features(report["left"], report["right"])
    close(report["scores"], [features[i, j] @ w[:-1] for i, j in report["pairs"]])
    assert cli.printed(*command) == "Juli\tJuly\nFinnland\tFinland\nquux\t\n"
    assert cli.reported(*command, "--limit", 2)["left"] == ["Juli", "Finnland"]
    assert cli.printed(*command, "--limit", 1) == "Juli\tJuly\n\tFinland\n"


def test_every_string_of_the_shorter_list_without_null(cli, some_names, tmp_path):
    saved = tmp_path / "m.npz"
    for name, content in (
        ("pairs.tsv", some_names.read_text("utf-8").split("\n\n")[3]),
        ("left.txt", "zzz\nbolt M4\nyyy\n"),
        ("right.txt", "Bolt M4\nother\n"),
        ("none.txt", ""),
    ):
        (tmp_path / name).write_text(content, "utf-8")
    out = cli.printed("align", "train", tmp_path / "pairs.tsv", "--no-null", "--save", saved)
    assert "no partner" not in out and "train accuracy by string 100.00 %" in out
    command = ["align", "predict", saved, tmp_path / "left.txt"]
    pairs = dict(cli.reported(*command, tmp_path / "right.txt")["pairs"])
    assert pairs[1] == 0 and sorted(pairs.values()) == [0, 1]
    assert cli.printed(*command, tmp_path / "none.txt") == "zzz\t\nbolt M4\t\nyyy\t\n"
