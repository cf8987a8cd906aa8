"""The smallest instances: models and data with no features, labels, positions, nodes, edges, rows or columns to
speak of. A case is a function from a panel to a model, with inputs and true outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conformance.specimens.learners import LEARNERS, Way, loss_of, run, seeded, unit

WORDS, TAGS = [[["a"], ["b", "a"]], [["b"]]], [[0, 1], [1]]
TEMPLATES = [("h.tag", "m.tag", "direction"), ("m.tag",)]
SENTENCES, HEADS = [{"tag": ["D", "N"]}, {"tag": []}, {"tag": ["N"]}], [[2, 0], [], [0]]
BETWEEN = [("h.tag", "m.tag", "b.tag"), ("h.tag",)]
BOX, BOXES = [[0, 0, 2, 2]], [[0, 0, 2, 2], [1, 1, 3, 3]]
NO_EDGES = np.zeros((0, 2), np.int64)


def none(*shape: int) -> np.ndarray:
    """An array of zeros, perhaps without any."""
    return np.zeros(shape)


def some(*shape: int) -> np.ndarray:
    """Features, the same in each call."""
    return np.random.default_rng(sum(shape) + 7).normal(size=shape)


def chains(F: int, L: int, start_stop: bool = False) -> Callable[[Any], Any]:
    return lambda p: p.SequenceModel(F, L, start_stop=start_stop)


def tagger(labels: Any = 2, **options: Any) -> Callable[[Any], Any]:
    return lambda p: p.TaggingModel(labels, None, **options)


def parser(templates: Any = TEMPLATES, **options: Any) -> Callable[[Any], Any]:
    return lambda p: p.ParsingModel(templates, **options)


def listed(rows: int, size: int) -> Callable[[Any], Any]:
    return lambda p: p.ListModel(
        lambda x: np.ones((rows, size)), p.Table, lambda x, y: 1.0 * (np.arange(rows) != y), size=size
    )


def form(name: str, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda p: getattr(p, name)(*arguments, **options)


SPANS = ["B-X", "I-X", "O"]
PAIRS = [none(0, 2, 1), none(2, 0, 1), some(1, 1, 1), some(2, 2, 1)]
NO_NEIGHBOURS = [(some(n, 1), NO_EDGES, none(0, 1)) for n in (1, 0)]
CANDIDATES = [(BOX, some(1, 1)), (BOXES, some(2, 1))]

# one output for each example: there is nothing to learn
SINGLE: dict[str, Any] = {
    "chains of one label": (chains(2, 1, True), [some(3, 2), some(1, 2)], [[0, 0, 0], [0]]),
    "chains of one label, no features": (chains(0, 1), [none(2, 0)], [[0, 0]]),
    "chains without positions": (chains(2, 2), [none(0, 2), none(0, 2)], [[], []]),
    "chains without positions, with ends": (chains(2, 2, True), [none(0, 2)], [[]]),
    "chains of nothing": (chains(0, 2), [none(0, 0)], [[]]),
    "tags of one label": (tagger(1, vocabulary=[]), WORDS, [[0, 0], [0]]),
    "tags without words": (tagger(vocabulary=[]), [[], []], [[], []]),
    "tags of pairs without words": (tagger(vocabulary=["a"], pairs=[0]), [[]], [[]]),
    "one class": (form("MulticlassModel", 2, 1), some(3, 2), [0, 0, 0]),
    "one class, no features": (form("MulticlassModel", 0, 1), none(2, 0), [0, 0]),
    "trees of one label": (form("TreeModel", 2, 1), [(some(3, 2), [-1, 0, 0])], [[0, 0, 0]]),
    "trees without nodes": (form("TreeModel", 2, 2), [(none(0, 2), [])], [[]]),
    "trees of nothing": (form("TreeModel", 0, 2), [(none(0, 0), [])], [[]]),
    "alignments without rows": (form("AlignmentModel", 2), [none(0, 2, 2)], [[]]),
    "alignments without columns": (form("AlignmentModel", 2, null=True), [none(2, 0, 2)], [[-1, -1]]),
    "alignments of nothing": (form("AlignmentModel", 0), [none(0, 0, 0)], [[]]),
    "images without nodes": (form("SegmentationModel", 2, 1), [(none(0, 2), NO_EDGES, none(0, 1))], [[]]),
    "images of nothing": (form("SegmentationModel", 0, 0), [(none(0, 0), NO_EDGES, none(0, 0))], [[]]),
    "sentences without tokens": (parser(bits=2), [{"tag": []}, {"tag": []}], [[], []]),
    "sentences without tokens, single root": (parser(vocabulary=[], single_root=True), [{"tag": []}], [[]]),
    "sentences without tokens, blocks": (parser(BETWEEN, bits=2, blocks=True), [{"tag": []}], [[]]),
    "one candidate": (form("CandidateModel", 2), [(BOX, some(1, 2))], [BOX[0]]),
    "one box": (form("SubwindowModel", 1), [some(1, 1, 1)], [[0, 0, 1, 1]]),
    "one listed output": (listed(1, 2), [0], [0]),
}
CASES: dict[str, Any] = SINGLE | {
    "chains without features": (chains(0, 2), [none(2, 0)], [[0, 1]]),
    "lengths without features": (chains(0, 3), [none(n, 0) for n in (2, 0, 3)], [[0, 1], [], [2, 2, 0]]),
    "chains with ends alone": (chains(0, 2, True), [none(2, 0), none(1, 0)], [[0, 1], [1]]),
    "chains of blank positions": (chains(2, 2), [[[], []], [[]]], [[0, 1], [1]]),
    "chains of no, one and three positions": (chains(2, 3), [none(0, 2), some(1, 2), some(3, 2)], [[], [2], [0, 1, 0]]),
    "tags without vocabulary": (tagger(vocabulary=[]), WORDS, TAGS),
    "tags without pairs": (tagger(vocabulary=["a", "b"], pairs=[]), WORDS, TAGS),
    "tags without weights": (tagger(vocabulary=["a", "b"], pairs=[], label_pairs=[]), WORDS, TAGS),
    "tags without transitions": (tagger(vocabulary=["a"], label_pairs=[]), [[["a"]], [["b"]]], [[0], [1]]),
    "tags of pairs and an empty sentence": (tagger(vocabulary=["a"], pairs=[0]), [[], [["a"]]], [[], [0]]),
    "spans without vocabulary": (tagger(SPANS, vocabulary=[], transitions="bio"), WORDS, [SPANS[:2], SPANS[2:]]),
    "classes without features": (form("MulticlassModel", 0, 3), none(2, 0), [0, 2]),
    "blank classes": (form("MulticlassModel", 2, 2), [[], []], [0, 1]),
    "trees without features": (form("TreeModel", 0, 2), [(none(2, 0), [-1, 0])], [[0, 1]]),
    "trees of roots": (form("TreeModel", 1, 2), [(some(n, 1), [-1] * n) for n in (0, 1, 3)], [[], [1], [0, 1, 0]]),
    "alignments without features": (form("AlignmentModel", 0, null=True), [none(2, 2, 0)], [[0, 1]]),
    "alignments of all shapes": (form("AlignmentModel", 1), PAIRS, [[], [-1, -1], [0], [1, 0]]),
    "images without features": (form("SegmentationModel", 0, 0), [(none(2, 0), [[0, 1]], none(1, 0))], [[0, 1]]),
    "images without edges": (form("SegmentationModel", 1, 1), NO_NEIGHBOURS, [[1], []]),
    "arcs without vocabulary": (parser(vocabulary=[]), SENTENCES, HEADS),
    "arcs without vocabulary, blocks": (parser(vocabulary=[[], [5]], blocks=True), SENTENCES, HEADS),
    "arcs of short sentences": (parser(BETWEEN, bits=2, single_root=True), SENTENCES, HEADS),
    "one candidate, and two": (form("CandidateModel", 1), CANDIDATES, [BOX[0], BOXES[1]]),
    "one candidate, and two, in two layers": (form("TwoLayerModel", 1, 1), CANDIDATES, [BOX[0], BOXES[1]]),
    "pixels without words": (form("SubwindowModel", 2), [np.full((2, 2), -1)], [[0, 0, 1, 1]]),
    "listed outputs without weights": (listed(3, 0), [0, 1], [0, 2]),
}


def packed(panel: Any, name: str, outputs: bool = True) -> tuple[Any, Any]:
    """The model and the data of a case, with true outputs or without."""
    make, X, Y = CASES[name]
    model = make(panel)
    return model, model.pack(X, Y if outputs else None)


def regularizers(p: Any, d: int) -> dict[str, Any]:
    """Of d weights: groups that are sets, all weights at once, none."""
    halves = [range(d // 2), range(d // 2, d)]
    return {
        "L1": p.L1(0.1),
        "HalfSquaredL2": p.HalfSquaredL2(0.1),
        "L21": p.L21(0.1, halves),
        "L21 of no group": p.L21(0.1, []),
        "SquaredL21": p.SquaredL21(0.1, halves),
        "two groupings": p.Sequential([p.L21(0.1, np.zeros(d, np.int64)), p.SquaredL21(0.1, halves)]),
    }


def learners(p: Any, model: Any, data: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every learner in each of its ways, with further regularizers and rules, by name."""

    def of(name: str, loss: str, **options: Any) -> Callable[[], Any]:
        return lambda: run(p, name, loss_of(p, loss, model, data), **{unit(name): 2, **seeded(name, 4), **options})

    for name, learner in LEARNERS.items():
        if name not in ("mkl", "solve_sparse"):
            for i, way in enumerate((Way(learner.options, learner.loss), *learner.ways)):
                yield f"{name} {i}", of(name, way.loss, **way.options)
    for title, regularizer in regularizers(p, model.size).items():
        options = {"regularizer": regularizer, "step_size": 0.1}
        for loss, mu in (("hinge", None), ("entropy", 0.5), ("top-k", 0.5), ("log loss", None)):
            yield f"online_proximal {loss} {title}", of("online_proximal", loss, mu=mu, **options)
    rules = {"L1": p.L1GapRule, "L2": p.L2GapRule, "count": p.CountRule, "half space": lambda: p.HalfSpaceRule(rng=0)}
    for title, rule in rules.items():
        yield (
            f"solve_sparse {title}",
            lambda r=rule: p.solve_sparse(p.LogLoss(model, data), beta=0.05, alpha=0.9, rule=r(), iterations=20),
        )
