"""Every reader of files, with a small valid file, of which damaged copies are made."""

from __future__ import annotations

import json
import zipfile
from importlib import resources

import numpy as np

import reference as r
from diptych.commands.jobs import groups_of
from diptych.commands.others import curves
from diptych.crfsuite import CrfsuiteModel, read_model, write_model
from diptych.files import (
    LocalizationImage,
    load_localization,
    load_log,
    load_model,
    load_sequences,
    save_localization,
    save_model,
)
from diptych.files.columns import Layout, load_columns, load_tokens
from diptych.files.pairs import load_pairs, read_lines
from diptych.files.templates import load_templates as load_theirs
from diptych.files.treebank import load_treebank
from diptych.pictures.grids import read_pictures, write_picture
from reference.arrays import Place
from reference.models.token_templates import load_templates
from reference.training.checkpoints import read_checkpoint

__all__ = ["READERS"]

BOUND = {"most_bytes": 1 << 22}
SENTENCES = [{"word": ("a", "duck", "swims"), "label": ("B-NP", "I-NP", "O")}]
PICTURE = (np.arange(35).reshape(5, 7) % 3 == 0).astype(np.int64)


def sequences(path):
    np.savez(
        path,
        features=np.eye(3)[[0, 1, 2, 1]],
        labels=[0, 1, 2, 1],
        offsets=[0, 2, 4],
        fold=[0, 1],
        names=np.array(["a", "b", "c"]),
    )


def pixels(path):
    np.savez_compressed(path, pixels=np.ones((4, 2), np.uint8), labels=[0, 1, 2, 1], offsets=[0, 2, 4])


def model(name):
    """The writer of a model's file."""

    def write(path):
        X, Y = [x["word"] for x in SENTENCES], [x["label"] for x in SENTENCES]
        fields = [{"word": X[0], "tag": ("D", "N", "V"), "lemma": X[0], "coarse": ("D", "N", "V")}]
        if name == "kernels":
            found = r.KernelSequenceModel(
                [r.kernels.Gaussian(5.0), r.kernels.Mean([r.kernels.Linear(True), r.kernels.Polynomial(2)])], ["a", "b"]
            )
            data = found.pack([np.eye(3)], [[0, 1, 0]])
            return save_model(path, found, r.mkl(found, data, lam=1.0, step_size=r.steps.InverseSqrt(1.0), epochs=1).x)
        if name == "parsing":
            every = r.ParsingModel([["h.word", "m.word"], ["h.tag", "distance"]])
            keys = every.vocabulary(every.pack(fields, [[2, 0, 2]]), 1)
            found = r.ParsingModel([["h.word", "m.word"], ["h.tag", "distance"]], vocabulary=keys)
        else:
            found = {
                "alignment": lambda: r.AlignmentModel(3, null=True),
                "candidates": lambda: r.CandidateModel((2, 2, 3)),
                "classes": lambda: r.MulticlassModel(3, ["a", "b"]),
                "chains": lambda: r.SequenceModel(3, ["a", "b", "c"]),
                "chunking": lambda: r.ChunkingModel.of(
                    SENTENCES, Y, ["word"], longest=2, segment_templates=["%s[word]"]
                ),
                "segmentation": lambda: r.SegmentationModel(3, 2),
                "subwindows": lambda: r.SubwindowModel(3),
                "tagging": lambda: r.TaggingModel.of(SENTENCES, Y, ["bias", "word[-1..1]"], transitions="bio"),
                "trees": lambda: r.TreeModel(3, ["a", "b"]),
                "two layers": lambda: r.TwoLayerModel((2, 2, 3), 2),
            }[name]()
        return save_model(path, found, np.arange(found.size) / 7, {"columns": ["word", "label"]})

    return write


def loaded_model(path):
    found, w, info = load_model(path, r, **BOUND)
    assert isinstance(info, dict) and found.settings() is not None and (not hasattr(w, "shape") or w.dtype.kind == "f")


def objective():
    found = r.SequenceModel(3, 3)
    return r.LogLoss(found, found.pack([np.eye(3)], [[0, 1, 2]]))


def checkpoint(path):
    r.sgd(objective(), lam=0.1, epochs=2, rng=0, checkpoint=path)


def log(path):
    job = {"command": "train", "panel": "reference", "job": {"lam": 0.1}, "data": "x"}
    rows = [r.Row(k, 5 * k, 0.1 * k, 3.0 / k, 1.0, 3.0 / k - 1.0).as_dict() for k in (1, 2, 3)]
    path.write_text("".join(json.dumps(line) + "\n" for line in (job, *rows, {"outcome": "done", "success": True})))


def boxes(path):
    image = LocalizationImage(
        [[0, 0, 2, 2], [1, 1, 3, 4]], np.ones((2, 2, 2, 1)), (4, 5), [0, 0, 2, 3], 1, np.ones((4, 5), np.uint8)
    )
    save_localization(path, [image, image], ["a", "b"], {"made": 1})


def loaded_boxes(path):
    data = load_localization(path)
    for i in range(data.n):
        data.features_of(i), data.picture(i)
    return data.best_candidates() if data.truth is not None else None


def zipped(texts):
    def write(path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in texts.items():
                archive.writestr(name, text)

    return write


def text(content):
    return lambda path: path.write_text(content)


TREES = resources.files("diptych.files").joinpath("samples", "sentences.conllu").read_text("utf-8")[:1500]
TREES = TREES[: TREES.rindex("\n\n")] + "\n"
TOKENS = "the DT B-NP\nduck NN I-NP\n\nswims VB B-VP\n"
PAIRS = json.dumps([{"left": ["a", "b"], "right": ["c"], "pairs": [[1, 0]]}, {"left": [], "right": [], "pairs": []}])
LINES = "# unigrams\nU00:%x[-1,0]\nU01:%x[0,0]/%x[1,1]\n\nB\n"
ITEMS = "B\\:x\ta:0.5\tc\\:d\\\\\te\n\nO\ta\n"
CRFSUITE = CrfsuiteModel(
    ("B", "O"), ("a:b", "\u00e9"), np.eye(2, dtype=int), np.ones(2), np.eye(2, dtype=int), np.ones(2)
)
PATTERNS = 'U:%X[ 0,0]  # a word\nu:%m[-1,0,"^.?\\u*$"]%t[@1,1,"a"]\n*\n'

MODELS = ("alignment", "candidates", "classes", "chains", "kernels", "parsing", "segmentation", "subwindows", "tagging")
MODELS += ("trees", "two layers", "chunking")
READERS = {
    "sequences.npz": (sequences, lambda path: load_sequences(path, **BOUND)),
    "unlabelled.npz": (pixels, lambda path: load_sequences(path, labelled=False, **BOUND)),
    **{f"{name} model.npz": (model(name), loaded_model) for name in MODELS},
    "checkpoint.npz": (checkpoint, lambda path: read_checkpoint(path, Place.of(None))),
    "resumed.npz": (checkpoint, lambda path: r.sgd(objective(), lam=0.1, epochs=3, rng=0, resume=path)),
    "log.jsonl": (log, lambda path: curves({str(path): load_log(path)})),
    "images.boxes": (boxes, loaded_boxes),
    "pictures.npz": (lambda path: np.savez(path, PICTURE, PICTURE.T > 0), lambda path: read_pictures(path, **BOUND)),
    "words.zip": (zipped({"a/x.txt": TOKENS}), lambda path: load_columns(f"{path}:x.txt", **BOUND)),
    "words.txt": (text(TOKENS), lambda path: load_columns(str(path))),
    "trees.zip": (zipped({"x.dp": TREES, "y.dp": TREES}), lambda path: load_treebank(str(path), **BOUND)),
    "trees.conllu": (text(TREES), lambda path: load_treebank(str(path))),
    "pairs.json": (text(PAIRS), lambda path: load_pairs(str(path))),
    "pairs.tsv": (text("# x\na\tb\n\nc\t\n"), lambda path: load_pairs(str(path))),
    "lines.txt": (text("a\nb\n"), lambda path: read_lines(str(path))),
    "templates.toml": (text('templates = ["bias", "word[-2..2]", "tag|word.suffix3[1]"]\n'), load_templates),
    "model.crfsuite": (lambda path: write_model(path, CRFSUITE), read_model),
    "items.crfsuite": (text(ITEMS), lambda path: load_tokens(str(path), Layout(form="items"))),
    "crfpp.template": (text(LINES), lambda path: load_theirs(str(path), ("word", "tag", "label"))),
    "wapiti.template": (text(PATTERNS), lambda path: load_theirs(f"wapiti:{path}", ("word", "tag", "label"))),
    "groups.txt": (text("0\n-1 # none\n1\n"), lambda path: groups_of(r.SequenceModel(3, 2), str(path))),
    **{
        f"{kind}": (lambda path: write_picture(path, PICTURE), lambda path: read_pictures(path, **BOUND))
        for kind in ("a.npy", "a.pbm", "a.pgm", "a.png")
    },
    "plain.pbm": (text("P1\n# x\n3 2\n010\n101\n"), lambda path: read_pictures(path)),
    "plain.pgm": (text("P2\n3 2\n9\n0 9 0\n9 0 9\n"), lambda path: read_pictures(path)),
}
