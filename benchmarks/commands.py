"""The experiments of the papers, in their quick form, on made-up sentences: whether they run and write their
results.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from diptych.experiments.registry import perform
from diptych.pictures.plots import require_matplotlib

ENTITIES = tuple(f"figure-{part}" for part in ("2", "5a", "5b", "5c", "5d"))
BOXES = ("figure-4", "figure-6", "figure-7")
NAMES = ("Ana", "Luis", "Mar", "Sol")


def made_up(path: Path, sentences: int = 20) -> Path:
    """A zip with esp.train and esp.testa: random words; most capitalised words are names."""
    rng = np.random.default_rng(0)

    def text() -> str:
        lines = []
        for length in rng.integers(1, 12, size=sentences):
            inside = False
            for _ in range(length):
                name = rng.random() < 0.3
                word = str(rng.choice(NAMES)) if name else f"w{rng.integers(50)}"
                label = "O" if not name or rng.random() < 0.1 else "I-PER" if inside else "B-PER"
                inside = label != "O"
                lines.append(f"{word} {'NP' if name else 'NC'} {label}")
            lines.append("")
        return "\n".join(lines)

    with zipfile.ZipFile(path, "w") as archive:
        for member in ("esp.train", "esp.testa"):
            archive.writestr(f"conll2002/{member}", text())
    return path


def made_up_treebank(path: Path, files: int = 5) -> Path:
    """A zip of small files: random tags; each word is under the next word or the last, which is under the root."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(files):
            lines = []
            for length in rng.integers(1, 7, size=4).tolist():
                tags = rng.choice(["DT", "NN", "VB"], size=length)
                lines += [f"w{rng.integers(20)}\t{tag}\t{(m + 1) % (length + 1)}" for m, tag in enumerate(tags, 1)]
                lines.append("")
            archive.writestr(f"bank/{number}.dp", "\n".join(lines))
    return path


def made_up_chunks(path: Path, sentences: int = 12) -> Path:
    """A zip with train.txt and test.txt: random words and tags; nouns are in chunks."""
    rng = np.random.default_rng(0)

    def text() -> str:
        lines = []
        for length in rng.integers(1, 8, size=sentences):
            inside = False
            for _ in range(length):
                tag = str(rng.choice(["DT", "NN", "VB"]))
                label = "O" if tag == "VB" else "I-NP" if inside else "B-NP"
                inside = label != "O"
                lines.append(f"w{rng.integers(20)} {tag} {label}")
            lines.append("")
        return "\n".join(lines)

    with zipfile.ZipFile(path, "w") as archive:
        for member in ("train.txt", "test.txt"):
            archive.writestr(f"conll2000/{member}", text())
    return path


class Commands:
    """All commands in one process, one after another."""

    timeout = 900
    unit = "curves"

    def setup(self):
        try:
            require_matplotlib()
        except ImportError as missing:
            raise NotImplementedError(str(missing)) from None  # tells asv to skip; pictures need an optional dependency

    def track_curves(self):
        """The number of curves in the figures and in the table. Fails unless every announced file is there and pictures
        can be drawn again.
        """
        curves = 0
        quiet = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(quiet), redirect_stderr(quiet):
            data = made_up(Path(folder) / "made-up.zip")
            for figure in ENTITIES:
                _ends(perform(f"casimir-{figure}", [str(data), "--quick", "--out", folder]), 0)
                report = Path(folder) / f"{figure}.json"
                curves += len(json.loads(report.read_text(encoding="utf-8"))["curves"])
                _picture(report.with_suffix(".png")).unlink()
            _ends(perform("casimir-figure-2", ["--draw", str(report)]), 0)
            _picture(report.with_suffix(".png"))
            _ends(perform("casimir-figure-2", ["--draw", str(data)]), 2)
            _ends(perform("ssvm-optimizers", ["--quick", "--out", folder]), 0)
            _picture(Path(folder) / "ssvm.png").unlink()
            _ends(perform("ssvm-optimizers", ["--draw", f"{folder}/ssvm.json"]), 0)
            _picture(Path(folder) / "ssvm.png")
            _ends(perform("ssvm-optimizers", ["--draw", str(report)]), 2)
            _ends(perform("mkl-table-1", ["--quick", "--out", folder]), 0)
            _picture(Path(folder) / "handwriting.png").unlink()
            _ends(perform("mkl-table-1", ["--draw", f"{folder}/handwriting.json"]), 0)
            _picture(Path(folder) / "handwriting.png")
            _ends(perform("mkl-table-1", ["--draw", str(report)]), 2)
            _ends(perform("mkl-table-1", ["--quick", "--folds", "11", "--out", folder]), 2)
            bank = made_up_treebank(Path(folder) / "bank.zip")
            (Path(folder) / "runs.jsonl").unlink()
            _ends(perform("mkl-figure-1", [str(bank), "--quick", "--out", folder]), 0)
            _picture(Path(folder) / "parsing-templates.png").unlink()
            _ends(perform("mkl-figure-1", ["--draw", f"{folder}/parsing-templates.json"]), 0)
            _picture(Path(folder) / "parsing-templates.png")
            _ends(perform("mkl-figure-1", ["--draw", str(report)]), 2)
            _sparse(Path(folder), report)
            _ends(perform("casimir-figure-3", ["--quick", "--classes", "a", "--out", folder]), 0)
            _picture(Path(folder) / "localization-figure-3.png").unlink()
            _ends(perform("casimir-figure-3", ["--draw", f"{folder}/localization-figure-3.json"]), 0)
            _picture(Path(folder) / "localization-figure-3.png")
            _ends(perform("casimir-figure-3", ["--draw", f"{folder}/ssvm.json"]), 2)
            for figure in BOXES:
                _ends(perform(f"casimir-{figure}", ["--quick", "--classes", "a", "--out", folder]), 0)
                report = Path(folder) / f"localization-{figure}.json"
                curves += len(json.loads(report.read_text(encoding="utf-8"))["curves"])
                _picture(report.with_suffix(".png")).unlink()
            _ends(perform("casimir-figure-4", ["--draw", str(report)]), 0)
            _picture(report.with_suffix(".png"))
            return curves + len(json.loads((Path(folder) / "ssvm.json").read_text(encoding="utf-8"))["runs"])


def _sparse(folder: Path, other: Path) -> None:
    """The commands of the sparse CRFs; ``other``: a report of another command."""
    there = ["--out", str(folder)]
    table = folder / "sparse-table.json"
    _ends(perform("screening-table-1", ["syn1", "letters", "--quick", "--values", "3", *there]), 0)
    _picture(table.with_suffix(".png")).unlink()
    _ends(perform("screening-table-1", ["--draw", str(table)]), 0)
    _picture(table.with_suffix(".png"))
    _ends(perform("screening-table-1", ["syn4", "--quick", *there]), 2)
    _ends(perform("screening-table-1", ["--draw", str(other)]), 2)
    chunks = str(made_up_chunks(folder / "chunks.zip"))
    for source, name in (("letters", "letters"), (chunks, "chunks")):
        report = folder / f"sparse-{name}.json"
        _ends(perform("screening-chains", [source, "--quick", "--examples", "12", "--values", "3", *there]), 0)
        _picture(report.with_suffix(".png")).unlink()
        _ends(perform("screening-chains", ["--draw", str(report)]), 0)
        _picture(report.with_suffix(".png"))
    _ends(perform("screening-chains", ["letters", "--quick", "--ratio", "2", *there]), 2)
    _ends(perform("screening-chains", [str(folder / "none.zip"), "--quick", *there]), 2)
    _ends(perform("screening-chains", ["--draw", str(other)]), 2)


def _ends(status: int, expected: int) -> None:
    if status != expected:
        raise ValueError(f"exit status: expected {expected}, got {status}")


def _picture(path: Path) -> Path:
    if not path.read_bytes().startswith(b"\x89PNG"):
        raise ValueError(f"{path.name}: expected a PNG picture")
    return path
