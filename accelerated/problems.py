"""The packed problem of an objective, by the exact type of its model. Loops and full gradients share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from accelerated.arrays import entries, numbers, view
from accelerated.compiled.epochs.touched import touched_rows
from accelerated.compiled.problems import (
    AlignmentProblem,
    ArcProblem,
    CandidateProblem,
    ClassProblem,
    EdgeEntropyProblem,
    EdgeMaxProblem,
    Entries,
    EntropyProblem,
    MaxProblem,
    SegmentationProblem,
    SegmentProblem,
    TopKProblem,
    TreeEntropyProblem,
    TreeMaxProblem,
)
from accelerated.compiled.structures.table import ENTROPY, MAX
from accelerated.compiled.structures.tree import forests_of
from accelerated.compiled.sweeps import padded
from accelerated.kept import Kept
from accelerated.models.alignment import AlignmentModel
from accelerated.models.chunking import ChunkingModel
from accelerated.models.localization import CandidateModel, table_of
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.parsing import ParsingModel
from accelerated.models.segmentation import SegmentationModel
from accelerated.models.segments import SegmentModel
from accelerated.models.sequence import SequenceModel, packed, with_edges
from accelerated.models.tagging import TaggingModel
from accelerated.models.tree import TreeModel
from reference.arrays import Array, Rows
from reference.smoothings import Entropy, SquaredL2, TopK

__all__ = ["all_free", "finds_itself", "finite", "has_edges", "problem_of", "touched_of"]

LARGEST_SEARCH = 2**20  # outputs times positions, 32 bytes each; beyond, the loop, which lists only as many as needed
MOST_SORTED = 2**12  # best classes times classes; beyond, the loop, which sorts

_touched: Kept[tuple[np.ndarray, np.ndarray]] = Kept()  # these have an objective's values
_forests: Kept[tuple[np.ndarray, ...]] = Kept()
_alignment_problems: Kept[AlignmentProblem] = Kept()
_segmentation_problems: Kept[SegmentationProblem] = Kept()


def problem_of(objective: Any, mu: float) -> Any:
    """The packed examples, whose type names their oracle; None where there is no kernel.

    There is none for other models, for smoothings without a compiled oracle, for oracles of other libraries, and for
    labels that are partly known.
    Kernels take finite weights (:func:`finite`) in the layout of ``model.padded``.
    """
    make = MAKERS.get(type(objective.model))
    return None if make is None or objective.unknown else make(objective, mu)


def has_edges(objective: Any) -> bool:
    """Whether pairs of neighbours have features, which some loops have no bodies for."""
    return bool(getattr(objective.model, "n_edge_features", 0))


def finds_itself(objective: Any) -> bool:
    """Whether the model finds best outputs itself, without an ``oracle`` from another library."""
    return getattr(objective.model, "oracle", None) is None


def finite(*weights: Array) -> bool:
    """Whether all these weights are finite."""
    return all(np.all(np.isfinite(view("w", w))) for w in weights)


def touched_of(objective: Any, problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows of W that each example touches, each row once: 4 bytes each, kept as long as the objective.

    problem: of this objective, at any mu.
    """
    return _touched.once(objective, lambda: touched_rows(problem, np.arange(objective.n)))


def _sequences(
    objective: Any, mu: float
) -> MaxProblem | EntropyProblem | TopKProblem | EdgeMaxProblem | EdgeEntropyProblem | None:
    model, data = objective.model, objective.data
    kind: Any = None
    options: tuple[int, ...] = ()
    if mu == 0:
        kind = MaxProblem
    elif type(objective.smoothing) is Entropy:
        kind = EntropyProblem
    elif type(objective.smoothing) in (TopK, SquaredL2):
        k = objective.smoothing.k if type(objective.smoothing) is TopK else objective.smoothing.max_k
        longest = int(data.lengths.max())
        kind, options = TopKProblem, (min(k, model.n_labels ** min(longest, 64)),)  # at most the number of outputs
        if options[0] * (longest + 1) > LARGEST_SEARCH:
            return None
    kind, edges = with_edges(model, data, kind)
    if kind is None:
        return None
    cost = model.cost if objective.loss_augmented else np.zeros_like(model.cost)
    problem: Any = model.problem(kind, data, model.true_labels(data), cost, *options, *edges)
    return problem  # type: ignore[no-any-return]


def _trees(objective: Any, mu: float) -> TreeMaxProblem | TreeEntropyProblem | None:
    model, data = objective.model, objective.data
    kind: Any = TreeMaxProblem if mu == 0 else TreeEntropyProblem
    if model.oracle is not None or data.labels is None or (mu != 0 and type(objective.smoothing) is not Entropy):
        return None
    where = (view(name, getattr(data, name), np.int64) for name in ("offsets", "parents"))
    forests = _forests.once(objective, lambda: forests_of(*where))
    cost = model.cost if objective.loss_augmented else np.zeros_like(model.cost)
    problem: TreeMaxProblem | TreeEntropyProblem = packed(kind, data, data.labels, cost, *forests)
    return problem


def _sentences(objective: Any, mu: float) -> ArcProblem | None:
    model, data = objective.model, objective.data
    if model.oracle is not None or (mu != 0 and type(objective.smoothing) is not Entropy):
        return None
    offsets, heads, trees = model.sentences(data)
    return ArcProblem(model.arc_features(data), offsets, heads, trees, objective.loss_augmented)


def _images(objective: Any, mu: float) -> CandidateProblem | None:
    data, smoothing = objective.data, objective.smoothing
    outputs = _listed(smoothing, mu, int(np.max(data.lengths, initial=1)))
    if data.losses is None or outputs is None:
        return None
    offsets, losses = view("offsets", data.offsets, np.int64), view("losses", data.losses)
    best = view("best", data.best, np.int64)
    return CandidateProblem(table_of(data), offsets, best, losses, objective.loss_augmented, outputs)


def _classes(objective: Any, mu: float) -> ClassProblem | None:
    model, data = objective.model, objective.data
    outputs = _listed(objective.smoothing, mu, model.n_labels)
    if data.labels is None or outputs is None or outputs * model.n_labels > MOST_SORTED:
        return None
    cost = model.cost if objective.loss_augmented else np.zeros_like(model.cost)
    return ClassProblem(*entries(data.rows), numbers("labels", data.labels, model.n_labels), cost, outputs)


def _alignments(objective: Any, mu: float) -> AlignmentProblem | None:
    model, data = objective.model, objective.data
    if model.oracle is not None or data.columns is None or mu != 0:
        return None

    def pack() -> AlignmentProblem:
        tables = [view(f"features[{i}]", x) for i, x in enumerate(data.features)]
        heights, widths = np.array([x.shape[:2] for x in tables]).T.copy()
        offsets, rows = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (heights * widths, heights))
        features = np.concatenate([np.moveaxis(x, 2, 0).reshape(-1) for x in tables])
        examples = (offsets, rows, widths, np.concatenate(data.columns))
        return AlignmentProblem(features, model.n_features, *examples, model.null, objective.loss_augmented)

    return _alignment_problems.once(objective, pack)


def _graphs(objective: Any, mu: float) -> SegmentationProblem | None:
    model, data = objective.model, objective.data
    if model.oracle is not None or data.labels is None or mu != 0:
        return None

    def pack() -> SegmentationProblem:
        offsets, starts = (np.cumsum([0, *map(len, each)]) for each in (data.labels, data.edges))
        nodes, edges = _joined(data.features), _joined(data.edge_features)
        edges.indices[:] += model.n_features
        labels, ends = np.concatenate(data.labels), np.concatenate(data.edges)
        return SegmentationProblem(offsets, nodes, labels, starts, edges, ends, objective.loss_augmented)

    return _segmentation_problems.once(objective, pack)


def _segments(objective: Any, mu: float) -> SegmentProblem | None:
    model, data = objective.model, objective.data
    if data.widths is None or (mu != 0 and type(objective.smoothing) is not Entropy):
        return None
    cost = model.cost if objective.loss_augmented else np.zeros_like(model.cost)
    truth = numbers("labels", data.labels, model.n_labels), view("widths", data.widths, np.int64)
    tokens, segments = (Entries(*entries(rows)) for rows in (data.rows, data.segments))
    pairs, sizes = getattr(model, "pairs", None), (model.n_features, model.width)
    free = np.zeros((0 if pairs is None else model.width, padded(model.n_labels)), np.uint8)
    if pairs is not None:
        free[np.divmod(pairs, model.n_labels)] = 1
    offsets = view("offsets", data.offsets, np.int64)
    return SegmentProblem(offsets, tokens, segments, *truth, model._forbidden, cost, free, *sizes)


def _joined(tables: Sequence[Rows]) -> Entries:
    """The rows of all tables, one after another, with a value for each entry."""
    indptr, indices, data = zip(*map(entries, tables), strict=True)
    lengths = np.concatenate([np.diff(each) for each in indptr])
    values = [np.broadcast_to(x, each.shape) for x, each in zip(data, indices, strict=True)]
    return Entries(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(indices), np.concatenate(values))


def _listed(smoothing: Any, mu: float, most: int) -> int | None:
    """The field ``outputs`` of a problem with lists of up to ``most`` outputs; None where there is no kernel."""
    if mu == 0:
        return MAX
    if type(smoothing) is Entropy:
        return ENTROPY
    return min(smoothing.k, most) if type(smoothing) is TopK else None


MAKERS: dict[type, Callable[[Any, float], Any]] = {
    SequenceModel: _sequences,
    TaggingModel: _sequences,
    TreeModel: _trees,
    ParsingModel: _sentences,
    CandidateModel: _images,
    MulticlassModel: _classes,
    AlignmentModel: _alignments,
    SegmentationModel: _graphs,
    SegmentModel: _segments,
    ChunkingModel: _segments,
}


@singledispatch
def all_free(problem: Any) -> Any:
    """The problem with all weights free to change. Gradients may be wrong where there is no weight; ``flat`` drops
    those.
    """
    return problem


@all_free.register(MaxProblem)
@all_free.register(EntropyProblem)
@all_free.register(TopKProblem)
@all_free.register(EdgeMaxProblem)
@all_free.register(EdgeEntropyProblem)
def _(problem: Any) -> Any:
    return problem._replace(pairs=problem.pairs._replace(free=problem.pairs.free[:0]))
