"""The command segment: picture files, training on noisy copies, restoring, requests that make no sense."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.application.test_app import PNG, run
from diptych.files import load_model
from diptych.pictures import grids


def discs(rng, n, size=14):
    """Clean pictures: a disc and a bar."""
    y, x = np.mgrid[:size, :size]
    found = []
    for _ in range(n):
        a, b, r = rng.uniform(4, size - 4, 3)
        found.append((((y - a) ** 2 + (x - b) ** 2 < (0.3 * r) ** 2) | (abs(y - r) < 2)).astype(np.int64))
    return found


@pytest.fixture
def files(tmp_path, rng):
    """clean.npz to train on; one.npy, clean, and noisy.pbm, its noisy copy."""
    *training, one = discs(rng, 5)
    np.savez(tmp_path / "clean.npz", *training)
    np.save(tmp_path / "one.npy", one)
    grids.write_picture(tmp_path / "noisy.pbm", grids.noisy_copy(one, 0.1, rng))
    return tmp_path


def test_train_and_restore(backend, files, capsys, cli):
    """The report is what the saved model does: objective, gap, weights, wrong pixels before and after; the picture
    written is its prediction.
    """
    pytest.importorskip("matplotlib")
    model_file, out, plot = files / "m.npz", files / "r.pgm", files / "p.png"
    status, text, _ = run(
        backend, capsys, "segment", "train", files / "clean.npz", "--noise", 0.1, "--lam", 5, "--tol", 0.05,
        "--connectivity", 8, "--save", model_file, "--json",
    )  # fmt: skip
    report = json.loads(text)
    assert status == 0 and report["success"] and report["images"] == 4 and report["pixels"] == 4 * 14 * 14
    assert 0 <= report["certificate"] <= 0.05 * report["objective"] and report["test"] is None
    assert report["relative_gap"] == report["certificate"] / report["objective"]
    assert report["train"]["after"] < 0.6 * report["train"]["before"] and 0.05 < report["train"]["before"] < 0.15
    model, w, info = load_model(model_file, backend.module)
    assert list(report["weights"].values()) == w.tolist() and info["noise"] == 0.1 and np.all(w[3:] >= 0)

    command = ["segment", "predict", model_file, files / "noisy.pbm", "--clean", files / "one.npy"]
    status, text, _ = cli.run(*command, "--out", out, "--plot", plot, "--json")
    report = json.loads(text)
    noisy, clean = grids.read_picture(files / "noisy.pbm"), np.load(files / "one.npy")
    (y,) = model.predict(model.pack([grids.features(noisy, 8)]), None, w)
    restored = grids.read_picture(out)
    assert status == 0 and plot.read_bytes().startswith(PNG) and np.array_equal(restored.ravel(), y)
    assert report["error"] == {"before": np.mean(noisy != clean), "after": np.mean(restored != clean)}
    assert report["error"]["after"] < report["error"]["before"] and report["turned"] == np.sum(restored != noisy)
    assert report["out"] == str(out) and "restored" not in report
    status, text, _ = cli.run(*command, "--json")
    assert json.loads(text)["restored"] == ["".join(map(str, row)) for row in restored.tolist()]
    status, text, _ = cli.run(*command)
    assert status == 0 and "wrong pixels, this picture" in text and "% after" in text


def test_several_pictures_are_restored_each_as_if_alone(files, rng, cli):
    """--limit spreads what it takes evenly over the file."""
    clean = list(np.load(files / "clean.npz").values())
    noisy = [grids.noisy_copy(picture, 0.1, rng) for picture in clean]
    np.savez(files / "noisy.npz", *noisy)
    cli.run("segment", "train", files / "clean.npz", "--epochs", 3, "--save", files / "m.npz")
    predict = ["segment", "predict", files / "m.npz"]

    def restored(picture):
        np.save(files / "alone.npy", picture)
        return json.loads(cli.run(*predict, files / "alone.npy", "--json")[1])

    alone = [restored(picture) for picture in noisy]
    command = [*predict, files / "noisy.npz", "--clean", files / "clean.npz"]
    status, text, _ = cli.run(*command, "--json")
    report = json.loads(text)
    fields = ("height", "width", "turned", "restored")
    assert status == 0 and report["pictures"] == [{name: each[name] for name in fields} for each in alone]
    assert report["error"]["before"] == np.mean(np.array(noisy) != np.array(clean))
    status, text, _ = cli.run(*command, "--limit", 2, "--out", files / "r.npz", "--json")
    written = list(np.load(files / "r.npz").values())
    assert status == 0 and json.loads(text)["out"] == str(files / "r.npz")
    assert [["".join(map(str, row)) for row in x.tolist()] for x in written] == [alone[i]["restored"] for i in (0, 2)]
    status, text, _ = cli.run(*command, "--limit", 2)
    assert status == 0 and "2 pictures of 14 x 14 pixels, " in text and "wrong pixels, all: " in text
    pytest.importorskip("matplotlib")
    assert cli.run(*command, "--limit", 1, "--plot", files / "p.png")[0] == 0
    assert (files / "p.png").read_bytes().startswith(PNG)


def test_letters(tmp_path, cli):
    """A word to train on, another to test on; a page of words restored; too few epochs are said."""
    job = ["--limit", 1, "--scale", 1, "--epochs", 1, "--tol", "1e-6", "--save", tmp_path / "m.npz"]
    status, text, _ = cli.run("segment", "train", "letters", *job)
    assert status == 0 and "new pictures" in text and "not converged: gap" in text
    command = ["segment", "predict", tmp_path / "m.npz", "letters", "--words", 2, "--noise", 0.1, "--json"]
    status, text, _ = cli.run(*command, "--out", tmp_path / "r.npy")
    report = json.loads(text)
    assert status == 0 and 0.05 < report["error"]["before"] < 0.15
    assert np.load(tmp_path / "r.npy").shape == (report["height"], report["width"])


@given(
    picture=st.integers(0, 2**31),
    height=st.integers(1, 9),
    width=st.integers(1, 19),
    kind=st.sampled_from(["npy", "pbm", "pgm", "png"]),
)
def test_pictures_are_read_as_written(tmp_path_factory, picture, height, width, kind):
    if kind == "png":
        pytest.importorskip("matplotlib")
    path = tmp_path_factory.mktemp("p") / f"p.{kind}"
    x = np.random.default_rng(picture).integers(0, 2, (height, width))
    grids.write_picture(path, x)
    found = grids.read_picture(path)
    assert found.dtype == np.int64 and np.array_equal(found, x)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.pbm", b"P1\n# ink is 1\n3 2\n1 0 1\n010\n"),
        ("a.pgm", b"P2 3 2 # no more\n 9\n0 9 4\n5 # dark\n 1 8\n"),
        ("a.pgm", b"P5\n3 2\n1000\n" + np.array([0, 1000, 499, 500, 3, 900], ">u2").tobytes()),
    ],
)
def test_other_tools_pictures(tmp_path, name, content):
    """Comments, free spacing, two bytes a pixel; darker than half is ink."""
    (tmp_path / name).write_bytes(content)
    assert grids.read_picture(tmp_path / name).tolist() == [[1, 0, 1], [0, 1, 0]]


def test_png_colours(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    x = np.array(
        [[[0.1, 0.2, 0.3, 1.0], [0.1, 0.2, 0.3, 0.2], [0.9, 0.8, 0.9, 1.0]]]
    )  # dark, nearly transparent, light
    image.imsave(tmp_path / "a.png", x)
    assert grids.read_picture(tmp_path / "a.png").tolist() == [[1, 0, 0]]


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
