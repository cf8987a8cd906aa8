"""What structures, models, data, objectives, regularizers and results print: their sizes, and no arrays."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.recipes.structure import Subset
from reference.datasets import Sequences
from reference.packed import Packed

EDGES = np.array([[0, 1], [1, 2]])
GROUPS = [[k] for k in range(1000)]
MODEL = "SequenceModel(n_features=2, n_labels=2, size=12)"


def loss(sp):
    model = sp.SequenceModel(2, 2)
    return sp.LogLoss(model, model.pack([np.ones((2, 2))], [[0, 1]]))


def hinge(sp):
    return sp.StructuralHinge(loss(sp).model, loss(sp).data, smoothing=sp.smoothings.TopK(2))


PRINTED = {  # counts of what may be long; a few parts are listed
    "Chain(n=10, labels=26)": lambda sp: sp.Chain(np.zeros((10, 26)), np.zeros((26, 26))),
    "Chain(batch=(2, 5), n=3, labels=4)": lambda sp: sp.Chain(np.zeros((2, 5, 3, 4)), np.zeros((4, 4))),
    "Segments(batch=(2,), n=3, longest=5, labels=4)": lambda sp: sp.Segments(np.zeros((2, 3, 5, 4)), np.zeros((4, 4))),
    "Tree(nodes=3, labels=2)": lambda sp: sp.Tree(np.zeros((3, 2)), np.zeros((2, 2)), [-1, 0, 0]),
    "Table(outputs=7)": lambda sp: sp.Table(np.zeros(7)),
    "Cut(variables=3, labels=2)": lambda sp: sp.Cut(np.zeros((3, 2)), np.zeros((2, 2, 2)), EDGES),
    "Graph(variables=3, labels=4)": lambda sp: sp.Graph(np.zeros((3, 4)), np.zeros((2, 4, 4)), EDGES),
    "Matching(rows=3, columns=4)": lambda sp: sp.Matching(np.zeros((3, 4))),
    "Arborescence(tokens=3, heads=4)": lambda sp: sp.Arborescence(np.zeros((3, 4))),
    "Boxes(height=3, width=5)": lambda sp: sp.Boxes(np.zeros((3, 5))),
    "Subset(scores=(7,))": lambda sp: Subset(np.zeros(7)),
    "Subset(scores=())": lambda sp: object.__new__(Subset),
    MODEL: lambda sp: loss(sp).model,
    "ChainData(n=1, positions=2)": lambda sp: loss(sp).data,
    "Rows(n=2, width=4)": lambda sp: loss(sp).data.rows,
    "SegmentationModel(n_features=3, n_edge_features=2, size=5)": lambda sp: sp.SegmentationModel(3, 2),
    "KernelSequenceModel(n_labels=26)": lambda sp: sp.KernelSequenceModel([sp.kernels.Linear()], 26),
    f"LogLoss(n=1, model={MODEL})": loss,
    f"StructuralHinge(n=1, model={MODEL}, smoothing=TopK(k=2))": hinge,
    f"Weighted(LogLoss(n=1, model={MODEL}))": lambda sp: sp.Weighted(loss(sp), [1.0]),
    "Sequences(two: 2 sequences, 3 positions, 4 features, 5 labels)": lambda sp: Sequences(
        "two", [np.ones((1, 4)), np.ones((2, 4))], [np.zeros(1, int), np.zeros(2, int)], tuple("abcde")
    ),
    "Precomputed(n=50)": lambda sp: sp.kernels.Precomputed(np.eye(50)),
    "L21(tau=0.5, groups=<1000 groups of 1000 coordinates>, weights=<1000 weights>)": lambda sp: sp.L21(0.5, GROUPS),
    "SquaredL21(lam=1.0, groups=<1000 groups of 1000 coordinates>)": lambda sp: sp.SquaredL21(1.0, GROUPS),
    "WeightedSquaredL1(lam=1.0, weights=<9 weights>)": lambda sp: sp.WeightedSquaredL1(1.0, np.ones(9)),
    "TreeGroupLasso(parts=<9 regularizers>)": lambda sp: sp.TreeGroupLasso([list(range(k)) for k in range(1, 10)]),
    "Sequential(parts=(L1(tau=1.0), L1(tau=2.0)))": lambda sp: sp.Sequential([sp.L1(1.0), sp.L1(2.0)]),
}


@pytest.mark.parametrize("expected", PRINTED)
def test_sizes_are_printed(backend, expected):
    assert repr(PRINTED[expected](backend)) == expected


def test_results(backend):
    for name, result in (
        ("Result", backend.sgd(loss(backend), lam=0.1, epochs=1, rng=0)),
        ("SparseResult", backend.solve_sparse(loss(backend), beta=10.0)),
    ):
        assert repr(result) == f"{name}(fun={result.fun}, nit={result.nit}, success={result.success})"


def test_no_record_of_data_prints_its_arrays():
    def kinds(kind):
        for each in kind.__subclasses__():
            yield from (each, *kinds(each))

    ours = [kind for kind in kinds(Packed) if kind.__module__.startswith("reference.")]
    assert reference.Rows in ours and len(ours) >= 12
    assert all(kind.__repr__ is Packed.__repr__ for kind in ours)
