"""What structures, models, data, objectives, regularizers and results print: their sizes, and no arrays."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.recipes.structure import Subset
from reference.packed import Packed

EDGES = np.array([[0, 1], [1, 2]])
STRUCTURES = {
    "Chain(n=10, labels=26)": lambda sp: sp.Chain(np.zeros((10, 26)), np.zeros((26, 26))),
    "Chain(batch=(2, 5), n=3, labels=4)": lambda sp: sp.Chain(np.zeros((2, 5, 3, 4)), np.zeros((4, 4))),
    "Tree(nodes=3, labels=2)": lambda sp: sp.Tree(np.zeros((3, 2)), np.zeros((2, 2)), [-1, 0, 0]),
    "Table(outputs=7)": lambda sp: sp.Table(np.zeros(7)),
    "Cut(variables=3, labels=2)": lambda sp: sp.Cut(np.zeros((3, 2)), np.zeros((2, 2, 2)), EDGES),
    "Graph(variables=3, labels=4)": lambda sp: sp.Graph(np.zeros((3, 4)), np.zeros((2, 4, 4)), EDGES),
    "Matching(rows=3, columns=4)": lambda sp: sp.Matching(np.zeros((3, 4))),
    "Arborescence(tokens=3, heads=4)": lambda sp: sp.Arborescence(np.zeros((3, 4))),
    "Boxes(height=3, width=5)": lambda sp: sp.Boxes(np.zeros((3, 5))),
}


@pytest.mark.parametrize("expected", STRUCTURES)
def test_structures(backend, expected):
    assert repr(STRUCTURES[expected](backend)) == expected


def test_a_structure_of_yours_has_a_repr_before_it_has_scores():
    assert repr(Subset(np.zeros(7))) == "Subset(scores=(7,))"
    assert repr(object.__new__(Subset)) == "Subset(scores=())"


def test_models_data_and_results(backend):
    X, Y = [np.ones((3, 128)), np.ones((4, 128))], [np.zeros(3, np.int64), np.ones(4, np.int64)]
    model = backend.SequenceModel(128, 26)
    data = model.pack(X, Y)
    assert repr(model) == "SequenceModel(n_features=128, n_labels=26, size=4056)"
    assert repr(data) == "ChainData(n=2, positions=7)" and repr(data.rows) == "Rows(n=7, width=130)"
    segments = backend.SegmentationModel(3, 2)
    assert repr(segments) == "SegmentationModel(n_features=3, n_edge_features=2, size=5)"
    kernels = backend.KernelSequenceModel([backend.kernels.Linear()], 26)
    assert repr(kernels) == "KernelSequenceModel(n_labels=26)"
    assert repr(kernels.pack(X, Y)) == "KernelData(n=2, positions=7)"
    result = backend.bcfw(backend.StructuralHinge(model, data), lam=0.1, epochs=1, rng=0)
    assert repr(result) == f"Result(fun={result.fun}, nit=1, success={result.success})"
    found = backend.mkl(kernels, kernels.pack(X, Y), lam=0.1, step_size=0.1, epochs=1, rng=0)
    assert repr(found) == f"MKLResult(fun={found.fun}, nit=1, success={found.success})"
    sparse = backend.solve_sparse(backend.LogLoss(model, data), beta=10.0)
    assert repr(sparse) == f"SparseResult(fun={sparse.fun}, nit={sparse.nit}, success={sparse.success})"


def test_objectives(backend):
    model = backend.SequenceModel(2, 2)
    data, printed = model.pack([np.ones((2, 2))], [[0, 1]]), "SequenceModel(n_features=2, n_labels=2, size=12)"
    loss = backend.LogLoss(model, data)
    hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(2))
    assert repr(loss) == f"LogLoss(n=1, model={printed})"
    assert repr(hinge) == f"StructuralHinge(n=1, model={printed}, smoothing=TopK(k=2))"
    assert repr(backend.Weighted(loss, [1.0])) == f"Weighted({loss!r})"


def test_kernels_and_regularizers_print_counts(backend):
    """Of what may be long; a few parts are listed."""
    assert repr(backend.kernels.Precomputed(np.eye(50))) == "Precomputed(n=50)"
    prox, groups = backend.prox, [[k] for k in range(1000)]
    printed = "<1000 groups of 1000 coordinates>"
    assert repr(prox.L21(0.5, groups)) == f"L21(tau=0.5, groups={printed}, weights=<1000 weights>)"
    assert repr(prox.SquaredL21(1.0, groups)) == f"SquaredL21(lam=1.0, groups={printed})"
    assert repr(prox.WeightedSquaredL1(1.0, np.ones(1000))) == "WeightedSquaredL1(lam=1.0, weights=<1000 weights>)"
    nested = prox.TreeGroupLasso([list(range(k)) for k in range(1, 51)])
    assert repr(nested) == "TreeGroupLasso(parts=<50 regularizers>)"
    assert len(repr(prox.ElasticNetMKL(1.0, 2.0, groups))) < 120
    assert repr(prox.Sequential([prox.L1(1.0), prox.L1(2.0)])) == "Sequential(parts=(L1(tau=1.0), L1(tau=2.0)))"


def kinds(kind):
    """The subclasses of a class, and theirs."""
    for each in kind.__subclasses__():
        yield from (each, *kinds(each))


def test_no_record_of_data_prints_its_arrays():
    ours = [kind for kind in kinds(Packed) if kind.__module__.startswith("reference.")]
    assert reference.Rows in ours and len(ours) >= 12
    assert all(kind.__repr__ is Packed.__repr__ for kind in ours)
