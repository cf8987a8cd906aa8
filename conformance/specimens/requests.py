"""Requests that the command line refuses, with the words it refuses them by: ``refused/*.txt``, a file a subject.

A request is a line of the words behind ``diptych``, and below it, indented, what the one line on stderr must contain:

    file two.txt 'a b c\\na b\\n'
    $ tag train two.txt
      two.txt, line 2: expected 3 columns, as above, got 2

``file`` says a file's content as a Python string, or as bytes. ``9*400`` in a word is that digit so many times.
Requests run in a folder with the files of ``prepare`` and all such files.
"""

from __future__ import annotations

import ast
import re
import shlex
import zipfile
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

from diptych.files import LocalizationImage, save_localization, save_model
from diptych.pictures.grids import EDGE_FEATURES, NODE_FEATURES, write_picture

__all__ = ["FILES", "NOTICED", "REQUESTS", "Request", "prepare"]

TREE = "1\ta\ta\tN\tN\t_\t2\t_\t_\t_\n2\tb\tb\tV\tV\t_\t0\t_\t_\t_\n"
FILES: dict[str, str | bytes] = {
    "bank.txt": "The DT B-NP\nduck NN I-NP\nswims VBZ B-VP\n. . O\n\nDogs NNS B-NP\nswim VBP B-VP\n",
    "bank.dp": "The\tDT\t2\nduck\tNN\t3\nswims\tVBZ\t0\n.\t.\t3\n\nDogs\tNN\t2\nswim\tVBZ\t0\n",
    "some.tsv": "Januar\tJanuary\nHerbst\t\n\nMontag\tMonday\n\tWeek\n\nPolen\tPoland\nBayern\t\n\nM4 nut\tnut (M4)\n",
    "part0.txt": "the DT B-NP\ndog NN I-NP\nbarks VB O\n\nbirds NN B-NP\nsing VB O\n\n" * 4,
    "a.txt": "dogs NNS\nswim VBP\n\nducks NNS\n",
    "new/a.txt": "dogs NNS\nswim VBP\n\nducks NNS\n",
    "new/b.txt": "swim VBP\n",
    "first.txt": "".join(f"{'XY'[k % 2]} w{k}\n" for k in range(50)),
    "good.txt": "a B-X\nb I-X\n\nc O\n",
    "open.txt": "a B-X\n\n\nb O\nc O\nd I-X\n",
    "other.txt": "a B-X\n\nb O\nc Q\n",
    "good.conllu": f"{TREE}\n",
    "cycle.conllu": f"{TREE}\n# x\ty\n" + TREE.replace("_\t0", "_\t1"),
    "roots.conllu": f"{TREE}\n" + TREE.replace("_\t2", "_\t0"),
    "beyond.conllu": f"{TREE}\n" + TREE.replace("_\t2", "_\t3"),
    "left.txt": "Juli\nFinnland\n\nquux\n",
    "right.txt": "Finland\nJuly\n",
    "empty.dp": "\n",
    "alone.tsv": "a\ta\n\n# note\nz\tz\na\t\n\tc\n",
    "twice.json": '[{"left": ["a", "b"], "right": ["a"], "pairs": [[0, 0], [1, 0]]}]',
    "headless.conllu": f"{TREE}\n\n" + TREE.replace("_\t2", "_\t_").replace("_\t0", "_\t_"),
}


class Request(NamedTuple):
    """Words behind ``diptych``, and what the line that refuses them contains."""

    words: list[str]
    said: list[str]


def prepare(sp: ModuleType, folder: Path) -> None:
    """Write what requests name: data sets of each kind, and models without weights."""
    for name in ("new", "folder"):
        (folder / name).mkdir()
    (folder / "link").symlink_to(folder / "new")
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    _zips(folder)
    _sequences(folder)
    _pictures(folder)
    _boxes(folder)
    columns = {"columns": ["word", "tag", "label"]}
    tags = [{"word": ["The", "duck"], "tag": ["DT", "NN"]}], [["B-NP", "I-NP"]]
    restoring = {"features": [*NODE_FEATURES, *EDGE_FEATURES], "connectivity": 4, "noise": 0.1, "scale": None}
    for name, model, info in (
        ("chain.npz", sp.SequenceModel(3, ["a", "b", "c"]), {}),
        ("chain2.npz", sp.SequenceModel(2, "ab"), {}),
        ("small.npz", sp.SequenceModel(1, 2), {}),
        ("trees.npz", sp.TreeModel(3, 3), {}),
        ("classes.npz", sp.MulticlassModel(1, 2), {}),
        ("spot.npz", sp.CandidateModel((1, 1, 3)), {"class": "left"}),
        ("restore.npz", sp.SegmentationModel(3, 2), restoring),
        ("shared.npz", sp.ParsingModel([("h.tag",)], bits=1), {}),
        ("rooted.npz", sp.ParsingModel(bits=4, single_root=True), {}),
        ("tags.npz", sp.TaggingModel.of(*tags, ["word", "tag"]), columns),
        ("bio.npz", sp.TaggingModel.of(*tags, ["word"], transitions="bio"), columns),
        ("chunks.npz", sp.ChunkingModel.of(*tags, ["word"], longest=2, segment_templates=["%s[tag]"]), columns),
        (
            "words.npz",
            sp.TaggingModel.of([{"word": ["a", "b"]}], [["B-X", "O"]], ["word"]),
            {"columns": ["word", "label"]},
        ),
    ):
        save_model(folder / name, model, np.zeros(model.size), info)


def _zips(folder: Path) -> None:
    """Zips of columns and of trees, and a file with many members."""
    columns = {name: f"{name} X\n" for name in ("README", "task/train.txt", "task/test.txt", "other/test.txt")}
    trees = {"README": "no sentences", **{f"bank/{name}.dp": f"{name}\tX\t0\n" for name in "bca"}}
    for name, members in (("shared", columns), ("bank", trees), ("head", {"x.dp": "a\tX\t2\n"})):
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
    np.savez(folder / "many.npz", **{f"{number}": np.zeros(1) for number in range(100, 299)})


def _sequences(folder: Path) -> None:
    """Files of labelled sequences: as they should be, and with defects."""
    lengths, labels = [3, 2, 4, 1, 3, 2], np.arange(15) % 3
    toy = {
        "features": np.eye(3)[labels],
        "labels": labels,
        "offsets": np.cumsum([0, *lengths]),
        "fold": np.arange(6) % 2,
    }
    np.savez(folder / "toy.npz", **toy, names=["a", "b", "c"])
    renamed = {"labels": (labels + 1) % 3, "names": ["c", "a", "b"]}
    np.savez(folder / "renamed.npz", **toy | renamed)  # the same labels, in other numbers
    np.savez(folder / "new3.npz", **toy, names=["a", "b", "new"])
    np.savez(folder / "wide.npz", **{**toy, "features": np.eye(4)[labels]}, names=["a", "b", "c"])
    good = {"features": np.ones((6, 2)), "labels": [0, 1, 0, 1, 0, 1], "offsets": [0, 2, 6], "names": ["a", "b"]}
    np.savez(folder / "nan.npz", **{**good, "features": np.where(np.arange(12).reshape(6, 2) == 9, np.nan, 1.0)})
    np.savez(folder / "new.npz", **{**good, "labels": [0, 1, 0, 1, 2, 1], "names": ["a", "b", "c"]})
    nothing = {"features": np.zeros((0, 3)), "labels": np.zeros(0, int), "names": ["a", "b", "c"]}
    np.savez(folder / "nothing.npz", **nothing, offsets=[0])
    np.savez(folder / "blank.npz", **nothing, offsets=[0, 0, 0])
    np.savez(folder / "fold.npz", features=np.eye(3), labels=[0, 1, 2], offsets=[0, 3, 3], fold=[0, 1])


def _boxes(folder: Path) -> None:
    """Files of images: as they should be, without answers, with fewer features, with a true box that none touches."""
    image = LocalizationImage([[0, 0, 4, 4], [1, 1, 3, 4]], np.ones((2, 1, 1, 3)), (16, 16), [0, 0, 4, 4])
    spots = [image._replace(label=i % 2) for i in range(4)]
    for name, images in (
        ("spots", spots),
        ("plain", [image._replace(truth=None)] * 2),
        ("narrow", [each._replace(features=np.ones((2, 1, 1, 2))) for each in spots]),
        ("far", [*spots[:3], spots[3]._replace(truth=[9, 9, 12, 12])]),
        ("right", [spots[1]]),
    ):
        save_localization(folder / f"{name}.boxes", images, ["left", "right"])


def _pictures(folder: Path) -> None:
    """Pictures of zeros and ones, and files that are none."""
    y, x = np.mgrid[:14, :14]
    discs = [((y - a) ** 2 + (x - b) ** 2 < 16).astype(np.int64) for a, b in ((5, 6), (8, 7), (7, 9), (6, 6))]
    np.savez(folder / "clean.npz", *discs)
    np.savez(folder / "grey.npz", one=np.eye(3), two=np.eye(3) * 0.5)
    write_picture(folder / "noisy.pbm", discs[0])
    for name, array in (
        ("one.npy", discs[0]),
        ("half.npy", np.full((2, 2), 0.5)),
        ("flat.npy", np.zeros(3)),
        ("small.npy", np.zeros((2, 2))),
        ("object.npy", np.array([None])),
    ):
        np.save(folder / name, array, allow_pickle=True)


def _read(text: str) -> list[Request]:
    """The requests of a file; the files that it says are added to ``FILES``."""
    found: list[Request] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            words = shlex.split(line[2:])
            found.append(Request([re.sub(r"(\d)\*(\d+)", lambda m: m[1] * int(m[2]), word) for word in words], []))
        elif line.startswith("  "):
            found[-1].said.append(line.strip())
        elif line.startswith("file "):
            _, name, content = line.split(" ", 2)
            assert name not in FILES, name
            FILES[name] = ast.literal_eval(content)
        else:
            assert not line or line.startswith("#"), line
    return found


_PAGES = sorted(
    (page for page in resources.files("conformance.specimens").joinpath("refused").iterdir()),
    key=lambda page: page.name,
)
NOTICED = _read(resources.files("conformance.specimens").joinpath("noticed.txt").read_text("utf-8"))
REQUESTS = [request for page in _PAGES for request in _read(page.read_text("utf-8"))]
