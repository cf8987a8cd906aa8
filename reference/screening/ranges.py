"""The spread of features over outputs, for each type of model: by counts, or over listed outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reference.arrays import Rows, host
from reference.models.base import cell_sums
from reference.models.listed import ListData, ListModel
from reference.models.localization import CandidateData, CandidateModel
from reference.models.multiclass import MulticlassData, MulticlassModel
from reference.models.sequence import ChainData, SequenceModel
from reference.models.tagging import TaggingModel
from reference.models.tree import TreeData, TreeModel
from reference.screening.registry import FeatureTotals, ListedSpread

# classes --------------------------------------------------------------------------------------------------------------


def range_of_classes(model: MulticlassModel, data: MulticlassData) -> np.ndarray:
    """||(x_if)_i|| / 2 for feature f with each class (d,): its values are x_if and 0 (a single class: bound 0)."""
    return np.repeat((0.5 if model.n_labels > 1 else 0.0) * _norms(model, data), model.n_labels)


def totals_of_classes(model: MulticlassModel, data: MulticlassData) -> FeatureTotals:
    """sum_i min(x_if, 0) and sum_i max(x_if, 0) for feature f with each class (d,); with a single class sum_i x_if."""
    return label_totals(data.rows, model.n_labels, np.zeros(0))


def spread_of_classes(model: MulticlassModel, data: MulticlassData) -> ListedSpread:
    """The feature has its value with one class and 0 with the other L - 1.

    centred: sqrt(1 - 1/L) ||(x_if)_i||. from_last: ||(x_if)_i||, times sqrt(L - 1) for the last class.
    """
    norms, L = _norms(model, data), model.n_labels
    factors = np.ones(L)
    factors[-1] = np.sqrt(L - 1)
    return ListedSpread(np.repeat(np.sqrt(1 - 1 / L) * norms, L), (norms[:, None] * factors).reshape(-1))


def _norms(model: MulticlassModel, data: MulticlassData) -> np.ndarray:
    """||(x_if)_i|| for each feature f (F,)."""
    example = np.repeat(np.arange(data.n), np.diff(data.rows.indptr))
    _, feature, x = cell_sums(data.rows, example, host(data.rows.data).astype(np.float64, copy=False))
    return column_norms(feature, x, model.n_features)


# sequences ------------------------------------------------------------------------------------------------------------


def range_of_sequences(model: SequenceModel, data: ChainData) -> np.ndarray:
    """Bounds by counts (d,), for a sequence of n labels: half of sum_t |x_tf| for a feature with a label, (n - 1)/2 for
    a transition a to a, half of floor(n/2) for a to b, half of sum_t |e_tf| for a feature of pairs with two labels.

    A sequence of n labels has at most n - 1 pairs of equal neighbours, and b != a follows a at most floor(n/2) times.
    With a single label there is one output: 0.
    """
    L, n = model.n_labels, data.lengths
    if L == 1:
        return np.zeros((model.width + L) * L + model.n_edge_features)
    pairwise = np.full((L, L), np.linalg.norm(n // 2) / 2)
    np.fill_diagonal(pairwise, np.linalg.norm(np.maximum(n - 1, 0)) / 2)
    bounds = [np.repeat(_absolute_sums(data.rows, data) / 2, L), pairwise.reshape(-1)]
    if data.edges is not None:
        bounds.append(np.repeat(_absolute_sums(data.edges, data) / 2, L * L))
    return np.concatenate(bounds)


def _absolute_sums(rows: Rows, data: ChainData) -> np.ndarray:
    """The norm over sequences of sum_t |x_tf| for each feature f of the rows."""
    sequence = np.repeat(np.arange(data.n), np.diff(rows.indptr[data.offsets]))
    counted = np.abs(host(rows.data).astype(np.float64))
    _, feature, most = cell_sums(rows, sequence, counted)
    return column_norms(feature, most, rows.width)


def totals_of_sequences(model: SequenceModel, data: ChainData) -> FeatureTotals:
    """Bounds by counts (d,): sum_t min(x_tf, 0) and sum_t max(x_tf, 0) for a feature with a label; 0 and n - 1 or
    floor(n/2) for a transition, as in :func:`range_of_sequences`; a feature of pairs with two labels as one of
    positions with one.
    """
    L, n = model.n_labels, data.lengths
    pairwise = np.full((L, L), float(np.sum(n // 2)))
    np.fill_diagonal(pairwise, np.sum(np.maximum(n - 1, 0)))
    totals = label_totals(data.rows, L, pairwise.reshape(-1))
    if data.edges is None:
        return totals
    of_pairs = label_totals(data.edges, L * L, np.zeros(0))
    return FeatureTotals(*map(np.concatenate, zip(totals, of_pairs, strict=True)))


def range_of_taggings(model: TaggingModel, data: ChainData) -> np.ndarray:
    """As for sequences, for the pairs and transitions with a weight (d,); valid with forbidden transitions, too."""
    result: np.ndarray = range_of_sequences(model, data)[model.cells]
    return result


def totals_of_taggings(model: TaggingModel, data: ChainData) -> FeatureTotals:
    """As for sequences, for the pairs and transitions with a weight (d,); valid with forbidden transitions, too."""
    least, most = totals_of_sequences(model, data)
    return FeatureTotals(least[model.cells], most[model.cells])


# trees ----------------------------------------------------------------------------------------------------------------


def range_of_trees(model: TreeModel, data: TreeData) -> np.ndarray:
    """Bounds by counts (d,): half of sum_v |x_vf| for a feature with a label, m_i/2 for a pair of labels in a tree of
    m_i edges.
    """
    L, rows = model.n_labels, data.rows
    tree = np.repeat(np.arange(data.n), np.diff(rows.indptr[data.offsets]))
    _, feature, most = cell_sums(rows, tree, np.abs(host(rows.data).astype(np.float64)))
    edges = np.bincount(np.repeat(np.arange(data.n), data.lengths), data.parents >= 0, data.n)
    features = np.repeat(column_norms(feature, most, rows.width), L)
    result = np.concatenate([features, np.full(L * L, np.linalg.norm(edges))]) / 2
    return result if L > 1 else np.zeros_like(result)


def totals_of_trees(model: TreeModel, data: TreeData) -> FeatureTotals:
    """Bounds by counts (d,): sum_v min(x_vf, 0) and sum_v max(x_vf, 0) for a feature with a label, 0 and the number of
    edges for a pair of labels.
    """
    pairs = np.full(model.n_labels**2, float(np.sum(data.parents >= 0)))
    return label_totals(data.rows, model.n_labels, pairs)


# listed outputs -------------------------------------------------------------------------------------------------------


def range_of_lists(model: ListModel | CandidateModel, data: ListData | CandidateData) -> np.ndarray | None:
    """sqrt(sum_i R_ij^2) (d,), R_ij half the range of feature j over the outputs; None if outputs are not listed."""
    return _norm_over_examples(model, data, lambda x: (x.max(axis=0) - x.min(axis=0)) / 2)


def totals_of_lists(model: ListModel, data: ListData) -> FeatureTotals | None:
    """sum_i min_y phi_ij(y) and sum_i max_y phi_ij(y) (d,); None if outputs are not listed."""
    tables = model.tables(data)
    if tables is None:
        return None
    least, most = np.zeros((2, model.size))
    for x in tables:
        if len(x):
            least, most = least + x.min(axis=0), most + x.max(axis=0)
    return FeatureTotals(least, most)


def spread_of_lists(model: ListModel | CandidateModel, data: ListData | CandidateData) -> ListedSpread | None:
    """The spread of the features over the listed outputs; None if outputs are not listed."""
    centred = _norm_over_examples(model, data, lambda x: np.hypot.reduce(x - x.mean(axis=0), axis=0))
    from_last = _norm_over_examples(model, data, lambda x: np.hypot.reduce(x[:-1] - x[-1], axis=0, initial=0.0))
    return None if centred is None or from_last is None else ListedSpread(centred, from_last)


def _norm_over_examples(
    model: ListModel | CandidateModel, data: ListData | CandidateData, spread: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray | None:
    """The norm over examples of ``spread`` (d,) of each example's features (m, d), at any scale."""
    tables = model.tables(data)  # type: ignore[arg-type]  # the model's own data
    if tables is None:
        return None
    norm = np.zeros(model.size)
    for x in tables:
        norm = np.hypot(norm, spread(x)) if len(x) else norm
    return norm


# sums -----------------------------------------------------------------------------------------------------------------


def column_norms(columns: np.ndarray, values: np.ndarray, width: int) -> np.ndarray:
    """The root of the sum of squares of the values (m,) in each column (width,), at any scale."""
    sizes = np.abs(values)
    if sizes.size and np.min(sizes) > 1e-140 and np.max(sizes) < 1e140:  # no square overflows or underflows
        sizes *= sizes
        return np.sqrt(np.bincount(columns, sizes, width))
    top = np.zeros(width)
    np.maximum.at(top, columns, np.abs(values))
    scale = np.where(top > 0, top, 1.0)
    return top * np.sqrt(np.bincount(columns, (values / scale[columns]) ** 2, width))


def label_totals(rows: Rows, n_labels: int, pairs: np.ndarray) -> FeatureTotals:
    """Totals of features with labels (width, L) in C order, then of pairs of labels.

    Each row's features occur with the row's label, whichever it is. A pair of labels occurs at most ``pairs`` times.
    With a single label there is one output.
    """
    row = np.repeat(np.arange(rows.n), np.diff(rows.indptr))
    _, column, x = cell_sums(rows, row, host(rows.data).astype(np.float64))
    below, above = (np.bincount(column, part, rows.width) for part in (np.minimum(x, 0), np.maximum(x, 0)))
    if n_labels == 1:
        only = np.concatenate([below + above, pairs])
        return FeatureTotals(only, only)
    return FeatureTotals(
        np.concatenate([np.repeat(below, n_labels), np.zeros(len(pairs))]),
        np.concatenate([np.repeat(above, n_labels), pairs]),
    )
