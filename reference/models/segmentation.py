"""Segmentation: the nodes of a graph are background (0) or foreground (1), and adjacent nodes tend to agree.

    score(y; w) = sum_v y_v <w_node, x_v> - sum_e [y_a != y_b] <w_edge, g_e>,   e = (a, b),   g_e >= 0, w_edge >= 0

An image is a triple: features x of its p nodes (p, F), edges (e, 2), features g of its edges (e, G). The signs of g and
w_edge make every score supermodular, so that a minimum cut finds the best labelling (Pillutla et al., section 4.2.1 and
Theorem 47). This also holds in training, because the task loss, the number of wrong nodes, is a sum over nodes. Weights
are one vector w (F + G,), w_node first; w_edge must be >= 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace

import reference.arrays
from reference.arrays import Array, Place, Rows, host, integer, integers
from reference.example_errors import Example, each_example, example_error, listed
from reference.models.base import LinearModel, RowsOfEach, checked, given, one_for_each, only, sound, zero_at_truth
from reference.packed import check_indices, check_range
from reference.structures.answered import Oracle
from reference.structures.cut import Cut, CutScores

__all__ = ["SegmentationData", "SegmentationModel", "grid_edges"]


@dataclass(frozen=True, eq=False, repr=False)
class SegmentationData(RowsOfEach):
    """Packed images: node features (p, F), edges (e, 2), edge features (e, G) and labels (p,) of each image. Integers
    are on the host.
    """

    features: tuple[Rows, ...]
    edges: tuple[np.ndarray, ...]
    edge_features: tuple[Rows, ...]
    labels: tuple[np.ndarray, ...] | None

    def validate(self) -> None:
        """Raise unless edges join existing nodes, edge features are >= 0, and labels, if given, are 0 or 1."""
        for name in ("edges", "edge_features", "labels"):
            each = getattr(self, name)
            if each is not None and len(each) != len(self.features):
                raise ValueError(f"{name}: expected {len(self.features)}, one for each image, got {len(each)}")
        for i, (rows, edges, edge_rows) in enumerate(zip(self.features, self.edges, self.edge_features, strict=True)):
            p = checked(f"features[{i}]", rows, Rows).n
            _check_edges(f"edges[{i}]", edges, p)
            _check_edge_features(f"edge_features[{i}]", checked(f"edge_features[{i}]", edge_rows, Rows), edges)
            if self.labels is not None:
                check_indices(f"labels[{i}]", self.labels[i], (p,))
                check_range(f"labels[{i}]", self.labels[i], 0, 2)


class SegmentationModel(LinearModel):
    """Separates foreground from background on graphs, usually grids, by weights of node features and of edge features.

    Parameters
    ----------
    n_features : int
        Number of features F of a node.
    n_edge_features : int
        Number of features G of an edge, all of them >= 0.
    oracle : callable, optional
        Used instead of ``Cut.best`` in training and prediction: from CutScores to (value, labels), with value -inf if
        every output is forbidden. ``accelerated.structures.cut.by_networkx`` is an example. Model files do not store
        it.

    Attributes
    ----------
    size : int
        Number of weights F + G.
    nonnegative : slice
        The weights of edge features, which ``bcfw`` and ``sgd`` keep >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import SegmentationModel, grid_edges
    >>> model, edges = SegmentationModel(1, 1), grid_edges(1, 3)
    >>> data = model.pack([(np.array([[2.0], [-1.0], [2.0]]), edges, np.ones((2, 1)))])
    >>> [model.predict(data, None, np.array([1.0, strength]))[0].tolist() for strength in (0.0, 1.0)]
    [[1, 0, 1], [1, 1, 1]]

    Source
    ------
    Pillutla et al., section 4.2.1 (graph cuts), Theorem 47 and Algorithm 11.
    """

    structure_type: Any = Cut
    packed_type = SegmentationData
    arrays: ModuleType = reference.arrays

    def __init__(self, n_features: int, n_edge_features: int, *, oracle: Oracle | None = None) -> None:
        self.n_features = integer("n_features", n_features, 0)
        self.n_edge_features = integer("n_edge_features", n_edge_features, 0)
        self.size = self.n_features + self.n_edge_features
        self.nonnegative = slice(self.n_features, self.size)
        self._answer_by(oracle)

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> SegmentationData:
        """Images and their labellings, checked.

        Parameters
        ----------
        X : sequence of n triples (features, edges, edge_features)
            Features (p, F) and edge features (e, G) >= 0 as dense arrays, CSR matrices, Rows or lists of active
            columns; edges (e, 2) integers in 0..p-1. No edge joins a node to itself; p = 0 and e = 0 are allowed.
        Y : sequence of n arrays (p,), optional
            Labels, 0 or 1 (or booleans) for each node.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Returns
        -------
        SegmentationData

        Raises
        ------
        ValueError, TypeError
            Naming the image, and the edge with a feature below 0.
        """
        X = listed("X", X)
        Y = None if Y is None else one_for_each(Y, len(X), "labellings")
        each = each_example("X", X, lambda name, image: self._image(name, image, like))
        labels = None
        if Y is not None:
            labels = tuple(each_example("Y", Y, lambda name, y: _labels(name, y, each[name.example][0].n)))
        return SegmentationData(
            tuple(x for x, _, _ in each), tuple(e for _, e, _ in each), tuple(g for _, _, g in each), labels
        )

    def _sizes(self, data: SegmentationData) -> Iterable[tuple[str, int, int]]:
        yield from (("features", rows.width, self.n_features) for rows in data.features)
        yield from (("edge features", rows.width, self.n_edge_features) for rows in data.edge_features)

    def scores(self, data: SegmentationData, batch: np.ndarray, w: Array) -> CutScores:
        """The scores of one image (batch of one) at weights w (d,): unary (p, 2), pairwise (e, 2, 2). ValueError if
        w_edge < 0.
        """
        i, (node, edge) = only(batch), self.split(w)
        check_edge_weights(edge)
        foreground = self.arrays.gather_sum(data.features[i], node[:, None])
        return sound(self._scores(data, i, foreground, self.arrays.gather_sum(data.edge_features[i], edge[:, None])), w)

    def pullback(self, data: SegmentationData, batch: np.ndarray, w: Array, g: CutScores) -> Array:
        """The adjoint of :meth:`scores`: a gradient with respect to the scores of one image, as one (d,) in the
        weights.
        """
        i, xp = only(batch), array_namespace(w)
        node = self.arrays.scatter_sum(data.features[i], g.unary[:, 1:])
        differ = -(g.pairwise[:, 0, 1] + g.pairwise[:, 1, 0])
        return xp.concat([node[:, 0], self.arrays.scatter_sum(data.edge_features[i], differ[:, None])[:, 0]])

    @zero_at_truth
    def task_loss(self, data: SegmentationData, batch: np.ndarray) -> CutScores:
        """The number of wrong nodes, as scores to add: 1 for the wrong label of each node."""
        i, place = only(batch), data.place
        true, edges = self._true(data, i), data.edges[i]
        return CutScores(place.floats(np.eye(2)[1 - true]), place.zeros((len(edges), 2, 2)), edges)

    def gold(self, data: SegmentationData, batch: np.ndarray) -> CutScores:
        """The indicator of the true labelling's parts, shaped like the scores."""
        i, place = only(batch), data.place
        true, edges = self._true(data, i), data.edges[i]
        pairs = np.eye(4)[2 * true[edges[:, 0]] + true[edges[:, 1]]].reshape(-1, 2, 2)
        return CutScores(place.floats(np.eye(2)[true]), place.floats(pairs), edges)

    def counts(self, data: SegmentationData) -> list[int]:
        """2^p for each image."""
        return [2**rows.n for rows in data.features]

    def split(self, w: Array) -> tuple[Array, Array]:
        """Weights (d,) as w_node (F,) and w_edge (G,)."""
        return w[: self.n_features], w[self.n_features :]

    def _image(self, name: Example, image: Any, like: Array | None) -> tuple[Rows, np.ndarray, Rows]:
        """One image, checked: rows of nodes, edges, rows of edges."""
        if isinstance(image, (str, dict)) or not hasattr(image, "__len__") or len(image) != 3:
            raise TypeError(f"{name}: expected a triple (features, edges, edge_features), got {type(image).__name__}")
        x, edges, g = image
        rows = Rows.of(x, width=self.n_features, like=like, name=Example("X", name.example, "features"))
        edges = integers(f"{name} edges", edges, Place.of(None))
        edges = edges.reshape(0, 2) if edges.size == 0 else edges
        _check_edges(f"{name} edges", edges, rows.n)
        of_edges = Example("X", name.example, "edge features")
        edge_rows = Rows.of(g, width=self.n_edge_features, like=like, name=of_edges)
        _check_edge_features(f"{name} edge features", edge_rows, edges)
        return rows, edges, edge_rows

    def _scores(self, data: SegmentationData, i: int, foreground: Array, strength: Array) -> CutScores:
        """Scores from those of the foreground (p, 1) and the penalty of each edge (e, 1) whose ends differ."""
        xp = array_namespace(foreground)
        unary = xp.concat([xp.zeros_like(foreground), foreground], axis=1)
        apart = data.place.floats(1.0 - np.eye(2))
        return CutScores(unary, -strength[:, :, None] * apart, data.edges[i])

    def _true(self, data: SegmentationData, i: int) -> np.ndarray:
        return given(data.labels, "labels")[i]

    def _split(self, data: SegmentationData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        return [host(outputs)]


def grid_edges(height: int, width: int, connectivity: int = 4) -> np.ndarray:
    """The edges (e, 2) int64 of a grid whose nodes are its cells, row by row: node = row * width + column.

    Parameters
    ----------
    height, width : int >= 0
    connectivity : {4, 8}
        4: each cell is joined to those beside, above and below it; 8: also to those at its corners.

    Returns
    -------
    int64 array (e, 2)
        First the horizontal edges, then the vertical ones, then both diagonals; the smaller node first.

    Raises
    ------
    ValueError, TypeError
        A side below 0; a connectivity that is not 4 or 8.

    Examples
    --------
    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    height, width = integer("height", height, 0), integer("width", width, 0)
    if connectivity not in (4, 8):
        raise ValueError(f"connectivity: expected 4 or 8, got {connectivity!r}")
    cell = np.arange(height * width).reshape(height, width)
    pairs = [(cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])]
    if connectivity == 8:
        pairs += [(cell[:-1, :-1], cell[1:, 1:]), (cell[:-1, 1:], cell[1:, :-1])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs]).astype(np.int64)


def _labels(name: str, y: Any, p: int) -> np.ndarray:
    """Labels (p,) of 0 and 1, or booleans, as int64 on the host."""
    values = host(y, name)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iub"):
        raise TypeError(
            f"{name}: expected integers or booleans of shape ({p},), got {values.dtype} of shape {values.shape}"
        )
    if len(values) != p:
        raise ValueError(f"{name}: expected {p} labels, one for each node, got {len(values)}")
    labels = values.astype(np.int64)
    for v in np.flatnonzero((labels < 0) | (labels > 1))[:1].tolist():
        raise example_error(name, v, f"expected labels 0 and 1, got {labels[v]}")
    return labels


def check_edge_weights(edge: Array) -> None:
    """Raise unless the weights (G,) are >= 0."""
    if bool(array_namespace(edge).any(edge < 0)):
        k = int(np.argmax(host(edge) < 0))
        raise ValueError(f"w: weights of edge features must be >= 0, got {float(edge[k])} for edge feature {k}")


def _check_edges(name: str, edges: np.ndarray, p: int) -> None:
    """Raise unless edges (e, 2) int64 join different nodes in 0..p - 1."""
    if not isinstance(edges, np.ndarray) or edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"{name}: expected shape (e, 2), got {getattr(edges, 'shape', type(edges).__name__)}")
    if edges.dtype != np.int64:
        raise TypeError(f"{name}: expected int64, got {edges.dtype}")
    if len(edges) and not 0 <= edges.min() <= edges.max() < p:
        raise ValueError(f"{name}: expected nodes in 0..{p - 1}, got {edges.min()}..{edges.max()}")
    for e in np.flatnonzero(edges[:, 0] == edges[:, 1])[:1]:
        raise ValueError(f"{name}: edge {e} joins node {edges[e, 0]} to itself")


def _check_edge_features(name: str, rows: Rows, edges: np.ndarray) -> None:
    """Raise unless each edge has a row of numbers >= 0."""
    if rows.n != len(edges):
        raise ValueError(f"{name}: expected {len(edges)} rows, one for each edge, got {rows.n}")
    entries = host(rows.data)
    for k in np.flatnonzero(entries < 0)[:1]:
        e = int(np.searchsorted(rows.indptr, k, side="right")) - 1
        raise ValueError(
            f"{name}: expected numbers >= 0, got {float(entries[k])} for edge {e}, "
            f"which joins nodes {edges[e, 0]} and {edges[e, 1]}"
        )
