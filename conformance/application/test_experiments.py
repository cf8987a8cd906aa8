"""The papers' experiments in their quick form on made-up data: they run, write their results, and draw them again."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from diptych.experiments.registry import perform

pytest.importorskip("matplotlib", reason="draws pictures: pip install 'diptych[app]'")
pytestmark = pytest.mark.beyond("runs every experiment of the papers")


def archived(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def drawn_lines(rng: np.random.Generator, sentences: int) -> str:
    """Random words and tags, a token a line; nouns are in chunks."""
    lines = []
    for length in rng.integers(1, 9, size=sentences):
        label = "O"
        for tag in rng.choice(["DT", "NN", "VB"], size=length).tolist():
            label = "O" if tag == "VB" else "B-NP" if label == "O" else "I-NP"
            lines.append(f"w{rng.integers(20)} {tag} {label}")
        lines.append("")
    return "\n".join(lines)


SENTENCES = 20  # of each made-up file


def made_up(path: Path) -> Path:
    """A zip of labelled sentences, as both shared tasks name their files."""
    rng = np.random.default_rng(0)
    names = ("conll2002/esp.train", "conll2002/esp.testa", "conll2000/train.txt", "conll2000/test.txt")
    return archived(path, {name: drawn_lines(rng, SENTENCES) for name in names})


def made_up_treebank(path: Path) -> Path:
    """A zip of small files: random tags; each word is under the next word or the last, which is under the root."""
    rng = np.random.default_rng(0)

    def trees() -> str:
        lines = []
        for length in rng.integers(1, 7, size=4).tolist():
            tags = rng.choice(["DT", "NN", "VB"], size=length)
            lines += [f"w{rng.integers(20)}\t{tag}\t{(m + 1) % (length + 1)}" for m, tag in enumerate(tags, 1)] + [""]
        return "\n".join(lines)

    return archived(path, {f"bank/{number}.dp": trees() for number in range(5)})


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The report of an experiment that the others do not draw."""
    folder = tmp_path_factory.mktemp("elsewhere")
    ends(0, "ssvm-optimizers", "--quick", "--out", folder)
    drawn_again(folder / "ssvm.json", "ssvm-optimizers", folder / "ssvm.png")
    return folder / "ssvm.json"


@pytest.fixture
def runs(tmp_path, elsewhere):
    """Run an experiment and draw its report again. A report of another experiment is rejected, as is a text."""

    def run(name, *words, title):
        report = tmp_path / f"{title}.json"
        ends(0, name, *words, "--quick", "--out", tmp_path)
        drawn_again(report, name, report.with_suffix(".png"))
        ends(2, name, "--draw", elsewhere)
        return json.loads(report.read_text(encoding="utf-8"))

    return run


def ends(status, name, *words):
    """Run an experiment, which must end with this status."""
    try:
        found = perform(name, [str(word) for word in words])
    except SystemExit as stop:  # the parser's, where an option is wrong
        found = stop.code
    assert found == status, (name, words)


def drawn_again(report, name, picture):
    """The picture is there, and is made again from the report alone."""
    picture.unlink()
    ends(0, name, "--draw", report)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("figure", ["2", "5a", "5b", "5c", "5d"])
def test_entities(runs, tmp_path, figure):
    data = made_up(tmp_path / "made-up.zip")
    assert runs(f"casimir-figure-{figure}", data, title=f"figure-{figure}")["curves"]
    ends(2, f"casimir-figure-{figure}", "--draw", data)


@pytest.mark.parametrize("figure", ["3", "4", "6", "7"])
def test_localization(runs, figure):
    report = runs(f"casimir-figure-{figure}", "--classes", "a", title=f"localization-figure-{figure}")
    assert report["curves"]


def test_optimizers_of_the_structural_svm(elsewhere, tmp_path):
    assert json.loads(elsewhere.read_text(encoding="utf-8"))["runs"]
    ends(2, "ssvm-optimizers", "--draw", made_up(tmp_path / "made-up.zip"))


def test_handwriting(runs, tmp_path):
    runs("mkl-table-1", title="handwriting")
    ends(2, "mkl-table-1", "--quick", "--folds", 11, "--out", tmp_path)


def test_templates(runs, tmp_path):
    runs("mkl-figure-1", made_up_treebank(tmp_path / "bank.zip"), title="parsing-templates")


def test_table_of_screening(runs, tmp_path):
    runs("screening-table-1", "syn1", "letters", "--values", 3, title="sparse-table")
    ends(2, "screening-table-1", "syn4", "--quick", "--out", tmp_path)


def test_out_of_core(tmp_path, capfd):
    data, words = made_up(tmp_path / "chunks.zip"), ["--quick", "--json", "--quiet", "--memory", "1MB"]
    ends(0, "out-of-core", data, *words)
    report = json.loads(capfd.readouterr().out)
    assert [run["method"] for run in report["runs"]] == ["lbfgs", "cocoa"] and report["copies"] == 2
    for run in report["runs"]:
        assert run["sentences"] == 2 * SENTENCES and len(run["rows"]) == 2 and run["bytes"] > 2**20
        assert all(gap >= 0 for _, gap in run["rows"])
    ends(2, "out-of-core", tmp_path / "none.zip", "--quick")


@pytest.mark.parametrize("source", ["letters", "chunks"])
def test_screening_of_chains(runs, tmp_path, source):
    data = source if source == "letters" else made_up(tmp_path / "chunks.zip")
    runs("screening-chains", data, "--examples", 12, "--values", 3, title=f"sparse-{source}")
    ends(2, "screening-chains", data, "--quick", "--ratio", 2, "--out", tmp_path)
    ends(2, "screening-chains", tmp_path / "none.zip", "--quick", "--out", tmp_path)
