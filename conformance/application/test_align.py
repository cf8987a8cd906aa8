"""The commands ``align`` and ``segment`` with their files, and figures: labels that do not overlap, whole numbers."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.application.test_app import PNG
from conformance.tolerances import close
from diptych.files import load_model
from diptych.files.pairs import FEATURES, _plain, load_pairs, pair_features, read_lines
from diptych.pictures import grids, plots
from reference.training.result import Row

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
def some_names(write):
    """Four short examples, with distractors; lists to align."""
    nuts = "M4 nut\tnut (M4)\nM5 nut\tNut (M5)\nbolt M4\tBolt M4\n"
    days = "Montag\tMonday\nFreitag\tFriday\n\tWeek\n\nPolen\tPoland\nNorwegen\tNorway\nItalien\tItaly\nBayern\t\n\n"
    write(f"Januar\tJanuary\nMai\tMay\nJuni\tJune\nHerbst\t\n\n{days}{nuts}", "some.tsv")
    for text, name in (
        (nuts, "nuts.tsv"), ("Juli\nFinnland\n\nquux\n", "left.txt"), ("Finland\nJuly\n", "right.txt"),
        ("zzz\nbolt M4\nyyy\n", "old.txt"), ("Bolt M4\nother\n", "new.txt"), ("", "none.txt"),
    ):  # fmt: skip
        write(text, name)


def test_train_and_apply(backend, some_names, cli):
    pytest.importorskip("matplotlib")
    report = cli.reported("align train some.tsv --hold-out 4 --lam 0.02 --tol 0.02 --save m.npz")
    assert report["examples"] == 3 and report["success"]
    assert 0 <= report["certificate"] <= 0.02 * report["objective"]
    assert report["train"]["string"] >= 0.9 and set(report["weights"]) == {*FEATURES, "no partner"}
    model, w, info = load_model("m.npz", backend.module)
    assert type(model) is backend.AlignmentModel and model.null and info["features"] == list(FEATURES)
    assert w.tolist() == list(report["weights"].values())
    predict = "align predict m.npz left.txt right.txt"
    report = cli.reported(f"{predict} --plot p.png")
    assert Path("p.png").read_bytes().startswith(PNG)
    assert report["pairs"] == [[0, 1], [1, 0]] and report["alone"] == {"left": [2], "right": []}
    features = pair_features(report["left"], report["right"])
    close(report["scores"], [features[i, j] @ w[:-1] for i, j in report["pairs"]])
    assert cli.printed(predict) == "Juli\tJuly\nFinnland\tFinland\nquux\t\n"
    assert cli.reported(f"{predict} --limit 2")["left"] == ["Juli", "Finnland"]
    assert cli.printed(f"{predict} --limit 1") == "Juli\tJuly\n\tFinland\n"


def test_every_string_of_the_shorter_list_without_null(cli, some_names):
    out = cli.printed("align train nuts.tsv --no-null --save m.npz")
    assert "no partner" not in out and "train accuracy by string 100.00 %" in out
    pairs = dict(cli.reported("align predict m.npz old.txt new.txt")["pairs"])
    assert pairs[1] == 0 and sorted(pairs.values()) == [0, 1]
    assert cli.printed("align predict m.npz old.txt none.txt") == "zzz\t\nbolt M4\t\nyyy\t\n"


@pytest.fixture
def files(tmp_path, rng):
    """Pictures of a disc and a bar: clean.npz to train on; one.npy, clean, and noisy.pbm, its noisy copy."""
    y, x = np.mgrid[:14, :14]
    discs = [
        ((y - a) ** 2 + (x - b) ** 2 < (0.3 * r) ** 2) | (abs(y - r) < 2) for a, b, r in rng.uniform(4, 10, (5, 3))
    ]
    *training, one = (picture.astype(np.int64) for picture in discs)
    np.savez(tmp_path / "clean.npz", *training)
    np.save(tmp_path / "one.npy", one)
    grids.write_picture(tmp_path / "noisy.pbm", grids.noisy_copy(one, 0.1, rng))
    return tmp_path


def rows(picture):
    """A picture as reports have it."""
    return ["".join(map(str, row)) for row in picture.tolist()]


def test_train_and_restore(backend, files, cli):
    """The report is what the saved model does, and the picture written is its prediction."""
    pytest.importorskip("matplotlib")
    report = cli.reported("segment train clean.npz --noise 0.1 --lam 5 --tol 0.05 --connectivity 8 --save m.npz")
    assert report["success"] and report["images"] == 4 and report["pixels"] == 4 * 14 * 14
    assert 0 <= report["certificate"] <= 0.05 * report["objective"] and report["test"] is None
    assert report["relative_gap"] == report["certificate"] / report["objective"]
    assert report["train"]["after"] < 0.6 * report["train"]["before"] and 0.05 < report["train"]["before"] < 0.15
    model, w, info = load_model("m.npz", backend.module)
    assert list(report["weights"].values()) == w.tolist() and info["noise"] == 0.1 and np.all(w[3:] >= 0)
    predict = "segment predict m.npz noisy.pbm --clean one.npy"
    report, text = cli.reported(f"{predict} --out r.pgm --plot p.png"), cli.printed(predict)
    noisy, clean = grids.read_pictures(files / "noisy.pbm")[0], np.load("one.npy")
    (y,) = model.predict(model.pack([grids.features(noisy, 8)]), None, w)
    restored = grids.read_pictures(files / "r.pgm")[0]
    assert Path("p.png").read_bytes().startswith(PNG) and np.array_equal(restored.ravel(), y)
    assert report["error"] == {"before": np.mean(noisy != clean), "after": np.mean(restored != clean)}
    assert report["error"]["after"] < report["error"]["before"] and report["turned"] == np.sum(restored != noisy)
    assert report["out"] == "r.pgm" and "restored" not in report
    assert cli.reported(predict)["restored"] == rows(restored)
    assert "wrong pixels, this picture" in text and "% after" in text


def test_several_pictures_are_restored_each_as_if_alone(files, rng, cli):
    """--limit spreads what it takes evenly over the file."""
    clean, alone = [*np.load("clean.npz").values()], []
    noisy = [grids.noisy_copy(picture, 0.1, rng) for picture in clean]
    np.savez("noisy.npz", *noisy)
    cli.printed("segment train clean.npz --epochs 3 --save m.npz")
    for picture in noisy:
        np.save("alone.npy", picture)
        alone.append(cli.reported("segment predict m.npz alone.npy"))
    predict = "segment predict m.npz noisy.npz --clean clean.npz"
    report, fields = cli.reported(predict), ("height", "width", "turned", "restored")
    assert report["pictures"] == [{name: each[name] for name in fields} for each in alone]
    assert report["error"]["before"] == np.mean(np.array(noisy) != np.array(clean))
    assert cli.reported(f"{predict} --limit 2 --out r.npz")["out"] == "r.npz"
    assert [rows(picture) for picture in np.load("r.npz").values()] == [alone[i]["restored"] for i in (0, 2)]
    text = cli.printed(f"{predict} --limit 2")
    assert "2 pictures of 14 x 14 pixels, " in text and "wrong pixels, all: " in text
    pytest.importorskip("matplotlib")
    assert cli.printed(f"{predict} --limit 1 --plot p.png") and Path("p.png").read_bytes().startswith(PNG)


def test_letters(cli):
    """A word to train on, another to test on; a page of words restored; too few epochs are said."""
    text = cli.printed("segment train letters --limit 1 --scale 1 --epochs 1 --tol 1e-6 --save m.npz")
    assert "new pictures" in text and "not converged: gap" in text
    report = cli.reported("segment predict m.npz letters --words 2 --noise 0.1 --out r.npy")
    assert 0.05 < report["error"]["before"] < 0.15
    assert np.load("r.npy").shape == (report["height"], report["width"])


@given(picture=st.integers(0, 2**31), height=st.integers(1, 9), width=st.integers(1, 19))
@pytest.mark.parametrize("kind", ["npy", "pbm", "pgm", "png"])
def test_pictures_are_read_as_written(tmp_path_factory, picture, height, width, kind):
    if kind == "png":
        pytest.importorskip("matplotlib")
    path = tmp_path_factory.mktemp("p") / f"p.{kind}"
    x = np.random.default_rng(picture).integers(0, 2, (height, width))
    grids.write_picture(path, x)
    found = grids.read_pictures(path)[0]
    assert found.dtype == np.int64 and np.array_equal(found, x)


def test_other_tools_pictures(tmp_path):
    """Comments, free spacing, two bytes a pixel; darker than half is ink. Colours: dark, nearly transparent, light."""
    for name, content in (
        ("a.pbm", b"P1\n# ink is 1\n3 2\n1 0 1\n010\n"),
        ("a.pgm", b"P2 3 2 # no more\n 9\n0 9 4\n5 # dark\n 1 8\n"),
        ("b.pgm", b"P5\n3 2\n1000\n" + np.array([0, 1000, 499, 500, 3, 900], ">u2").tobytes()),
    ):
        (tmp_path / name).write_bytes(content)
        assert grids.read_pictures(tmp_path / name)[0].tolist() == [[1, 0, 1], [0, 1, 0]]
    image = pytest.importorskip("matplotlib.image")
    image.imsave(tmp_path / "a.png", np.array([[[0.1, 0.2, 0.3, 1.0], [0.1, 0.2, 0.3, 0.2], [0.9, 0.8, 0.9, 1.0]]]))
    assert grids.read_pictures(tmp_path / "a.png")[0].tolist() == [[1, 0, 0]]


def test_features_are_what_is_seen(rng):
    """The same wherever the picture stands; the sum of the 3 x 3 pixels by definition."""
    x = rng.integers(0, 2, (4, 5))
    nodes, edges, of_edges = grids.features(x, 4)
    seen = 2 * x - 1
    for v, (i, j) in enumerate(np.ndindex(4, 5)):
        around = seen[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2].sum()
        assert nodes[v].tolist() == [1, seen[i, j], around]
    flat = x.ravel()
    assert [g.tolist() for g in of_edges] == [[1, float(flat[a] == flat[b])] for a, b in edges]
    assert grids.noisy_copy(x, 0.0, rng).tolist() == x.tolist()


@pytest.fixture
def figure(monkeypatch):
    """Draws, and gives the figure instead of writing it."""
    pytest.importorskip("matplotlib")
    kept = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: kept.append(figure))

    def draw(function, *arguments):
        function("figure.png", *arguments)
        kept[-1].draw_without_rendering()
        return kept[-1]

    return draw


def labels(axis):
    """The shown labels of an axis; they must not overlap."""
    shown = [tick for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if tick.label1.get_text()]
    low, high = sorted(axis.get_view_interval())
    shown = sorted((tick.label1.get_window_extent().x0, tick) for tick in shown if low <= tick.get_loc() <= high)
    for (_, one), (_, other) in pairwise(shown):
        assert one.label1.get_window_extent().x1 < other.label1.get_window_extent().x0
    return [tick.label1.get_text() for _, tick in shown]


@pytest.mark.beyond("draws many pictures")
@pytest.mark.parametrize("last", [0.0101, 0.011, 0.021, 0.035, 0.4, 7.0, 3e5, 1e13])
@pytest.mark.parametrize("count", [1, 2, 12])
def test_labels_of_runs_do_not_overlap(figure, last, count):
    """What is counted has whole numbers."""
    history = [
        Row(k + 1, 97 * (k + 1), s, 2.0 - k / 99, 1.0, 1.0) for k, s in enumerate(np.geomspace(0.01, last, count))
    ]
    columns = {"calls": "oracle_calls", "epochs": "epoch", "seconds": "seconds", "objective": "objective"}
    run = {name: [getattr(row, field) for row in history] for name, field in columns.items()}
    run |= {"name": "one", "distance": None}
    epochs, seconds, gaps = figure(plots.convergence, {"one": history}, "title").axes
    calls, later, others = figure(plots.runs, [run], ["calls", "seconds", "epochs"]).axes
    assert labels(seconds.xaxis) and labels(later.xaxis)
    for axes in (epochs, gaps, calls, others):
        assert all(float(text).is_integer() for text in labels(axes.xaxis))


LOGARITHMIC = ["0.001 0.01", "0.1 0.2", "1e-9 1e-5 3 1e6", "1 10"]


@pytest.mark.beyond("draws many pictures")
@pytest.mark.parametrize("values", [*LOGARITHMIC, "0 1 2", "1 2 3", "0.5", "1 a"])
def test_a_grid_has_a_logarithmic_axis_from_two_positive_numbers_on(figure, values):
    (axes,) = figure(plots.grid, {"": [(value, 0.5, None) for value in values.split()]}, "lam", "score").axes
    assert axes.get_xscale() == ("log" if values in LOGARITHMIC else "linear") and not axes.containers
    assert labels(axes.xaxis) and (values != "0 1 2" or labels(axes.xaxis) == ["0", "1", "2"])


def test_error_bars_are_of_several_runs_and_a_path_counts_weights_in_whole_numbers(figure, rng):
    points = [("1e-3", 0.5, 0.1), ("1e-2", 0.6, None), ("1e-1", None, None)]
    (axes,) = figure(plots.grid, {"a": points, "b": [("1e-3", 0.4, None)]}, "lam", "score").axes
    (bars,) = axes.containers
    assert np.allclose(bars.lines[2][0].get_segments(), [[[1e-3, 0.4], [1e-3, 0.6]]])
    model = reference.MulticlassModel(2, 2)
    loss = reference.LogLoss(model, model.pack(rng.normal(size=(6, 2)), [0, 1, 0, 1, 0, 1]))
    for count in (1, 2):
        weights, sizes = figure(plots.plot_path, reference.sparse_path(loss, count=count)).axes
        assert labels(weights.xaxis) and all(tick.is_integer() for tick in sizes.get_yticks())
