"""The array layer: dtypes, sparse rows and their two primitives; the suite's choice of namespaces and devices."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import reference.arrays
from conformance.namespaces import LAYERS, spaces
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close


def layer(backend):
    """The backend's array layer: the module behind its model's ``arrays``."""
    return backend.SequenceModel.arrays


@st.composite
def sparse(draw):
    """Dense (N, d) with zeros, and index lists with repeats."""
    n, d = draw(st.integers(0, 4)), draw(st.integers(1, 4))
    entry = st.one_of(st.just(0.0), st.floats(-3, 3, width=32))
    return np.array(draw(st.lists(entry, min_size=n * d, max_size=n * d)), dtype=np.float64).reshape(n, d)


@given(data=st.data(), L=st.integers(1, 9))
def test_gather_and_scatter_are_matrix_products(backend, space, data, L):
    dense = data.draw(sparse())
    rng = np.random.default_rng(0)
    W, G = rng.normal(size=(dense.shape[1], L)), rng.normal(size=(len(dense), L))
    rows = backend.Rows.of(dense, like=space.put(0.0 * W))
    close(space.get(layer(backend).gather_sum(rows, space.put(W))), dense @ W, space.dtype)
    close(space.get(layer(backend).scatter_sum(rows, space.put(G))), dense.T @ G, space.dtype)
    assert space.get(layer(backend).gather_sum(rows, space.put(W))).dtype == space.dtype


@given(data=st.data())
def test_take_is_indexing(backend, space, data):
    dense = data.draw(sparse().filter(len))
    positions = np.array(data.draw(st.lists(st.integers(0, len(dense) - 1), max_size=6)), np.int64)
    rows = backend.Rows.of(dense, like=space.put(dense)).take(positions)
    identity = space.put(np.eye(dense.shape[1]))
    close(space.get(layer(backend).gather_sum(rows, identity)), dense[positions], space.dtype)


def test_every_form_gives_the_same_rows(backend, rng):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    dense = (rng.random((5, 7)) < 0.4).astype(float)
    matrices = scipy_sparse.csr_matrix(dense), scipy_sparse.csr_array(dense)
    for form in (dense, dense.astype(bool), *matrices, [np.flatnonzero(r) for r in dense], backend.Rows.of(dense)):
        assert np.array_equal(layer(backend).gather_sum(backend.Rows.of(form, width=7), np.eye(7)), dense)
    twice = backend.Rows.of([[1, 1, 0], [], [2]], width=3)  # an index that occurs twice counts twice
    assert np.array_equal(layer(backend).gather_sum(twice, np.eye(3)), [[1, 2, 0], [0, 0, 0], [0, 0, 1]])


def csr(**fields):
    """What a CSR matrix has, of the shape (2, 2)."""
    good = {"indptr": np.array([0, 1, 2]), "indices": np.array([0, 1]), "data": np.array([1.0, 2.0])}
    given = {name: value if isinstance(value, np.ndarray) else np.array(value) for name, value in fields.items()}
    return SimpleNamespace(**good | given, shape=(2, 2))


def test_what_is_wrong_is_named(backend):
    assert backend.Rows.of(csr()).n == 2
    rows = lambda b, x: b.Rows(x.indptr, x.indices, x.data, 2)  # noqa: E731
    check_refusals("wrong_rows.txt", {"np": np, "b": backend, "csr": csr, "rows": rows, "layer": layer})


def test_stored_zeros_are_dropped(backend):
    """As of a dense array: the weight of such a feature may be -inf, and 0 times that is no score."""
    scipy_sparse = pytest.importorskip("scipy.sparse")
    stored = scipy_sparse.csr_matrix((np.array([0.0, 1.0, 0.0]), np.array([0, 1, 2]), np.array([0, 2, 3])), (2, 3))
    rows, dense = (layer(backend).Rows.of(x) for x in (stored, stored.toarray()))
    for field in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(rows, field), getattr(dense, field))
    model = backend.SequenceModel(3, 2, start_stop=False)
    hinge = backend.StructuralHinge(model, model.pack([stored], [[1, 0]]), smoothing=backend.smoothings.Entropy())
    w = np.zeros(model.size)
    w[0] = -np.inf
    close(hinge.value(w, None, 1.0), 2 * np.log(1 + np.e))  # the cost of each position is 1
    none = scipy_sparse.csr_matrix((np.zeros(2), np.array([0, 1]), np.array([0, 1, 2])), (2, 3))
    assert layer(backend).Rows.of(none).data.shape == (0,)


def test_only_csr_matrices_pass_as_csr_and_are_copied(backend):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    for kind in (scipy_sparse.csc_matrix, scipy_sparse.bsr_matrix, scipy_sparse.coo_matrix, scipy_sparse.csc_array):
        with pytest.raises(TypeError, match="X: expected a CSR matrix"):
            backend.Rows.of(kind(np.eye(2)))
    matrix = scipy_sparse.csr_matrix(np.eye(2))
    rows = backend.Rows.of(matrix)
    matrix.data[:], matrix.indices[:] = np.nan, 99
    assert np.array_equal(layer(backend).gather_sum(rows, np.eye(2)), np.eye(2))


def test_dtype_policy():
    floats = reference.arrays.floats
    assert floats(x=[1, 2])[0].dtype == np.float64
    assert floats(x=np.zeros(2, bool))[0].dtype == np.float64
    assert floats(x=np.zeros(2, np.float32))[0].dtype == np.float32
    assert [a.dtype for a in floats(x=np.zeros(2, np.float32), y=np.zeros(2))] == [np.float64] * 2
    assert [a.dtype for a in floats(x=np.zeros(2, np.float32), y=[0.5, 1.0])] == [np.float32] * 2
    for wrong in (np.zeros(2, np.float16), np.zeros(2, complex), ["a"], [None]):
        with pytest.raises(TypeError, match="x: expected"):
            floats(x=wrong)


def test_arrays_are_of_one_namespace_and_device_where_lists_go():
    strict, floats = pytest.importorskip("array_api_strict"), reference.arrays.floats
    one, two = (strict.asarray([1.0], device=strict.Device(name)) for name in ("CPU_DEVICE", "device1"))
    with pytest.raises(TypeError, match="several namespaces: x of numpy, y of array_api_strict"):
        floats(x=np.zeros(2), y=one)
    with pytest.raises(ValueError, match="several devices"):
        floats(x=one, y=two)
    x, y = floats(x=two, y=[[2.0]])
    assert type(x) is type(y) and y.device == x.device


def test_logsumexp_of_nothing_possible_is_minus_infinity():
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [1e300, 1e300]])
    close(reference.arrays.logsumexp(np, x, -1), [-np.inf, 0.0, 1e300])


@pytest.mark.parametrize("value", [1.0, 2.0])
def test_values_that_are_all_one_are_stored_once(backend, value):
    lists = [[0, 2], [], [2, 1, 2]]
    indptr, indices = np.array([0, 2, 2, 5]), np.concatenate(lists).astype(np.int64)
    rows = backend.Rows.of(SimpleNamespace(indptr=indptr, indices=indices, data=np.full(5, value), shape=(3, 3)))
    full = backend.Rows(indptr, indices, np.full(5, value), 3)
    assert rows.data.strides == ((0,) if value == 1.0 else (8,)) and full.data.strides == (8,)
    W = np.arange(6.0).reshape(3, 2)
    for f in (layer(backend).gather_sum, layer(backend).scatter_sum):
        np.testing.assert_array_equal(f(rows, W), f(full, W))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows)).data, full.data)


# devices --------------------------------------------------------------------------------------------------------------

TEST = f"{Path(__file__).parent / 'test_arrays.py'}::test_take_is_indexing"


@pytest.mark.beyond("starts processes")
def test_a_namespace_runs_on_the_device_that_is_named():
    """One that is not there ends the run."""

    def collected(*options):
        command = [sys.executable, "-m", "conformance", "-v", "--collect-only", *options, TEST]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    status, output = collected("--namespace", "array_api_strict", "--device", "device1", "--backend", "reference")
    assert status == 0 and "namespace array_api_strict:device1: run" in output
    tests = [line for line in output.splitlines() if "test_take_is_indexing[" in line]
    assert [test.split("[")[1].rstrip(">") for test in tests] == ["reference-array_api_strict:device1-float64]"]
    status, output = collected("--namespace", "numpy", "--device", "cuda")
    assert status == 4 and "--device cuda: numpy does not compute there: " in output


@pytest.mark.parametrize(
    ("names", "device", "message"),
    [
        (["numba"], None, "--namespace numba: expected one of numpy, array_api_strict, torch, jax, cupy, "),
        (["torch:cuda"], None, "--namespace torch:cuda: expected one of .*, torch:cpu"),
        ([], "cuda", "--device cuda: expected a --namespace beside it, one of numpy, "),
        (["array_api_strict"], "device9", "--device device9: array_api_strict does not compute there: .*device9"),
        (["numpy", "array_api_strict"], "device1", "--device device1: numpy does not compute there"),
        *(  # not known, or known and without numbers
            ([name], device, f"(--namespace {name}: not installed|--device {device}: {name} does not)")
            for name, device in (("torch", "no-such-device"), ("torch", "meta"), ("jax", "no-such-device"))
        ),
    ],
)
def test_what_cannot_run_is_refused(names, device, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        spaces(names, device)


def test_numbers_come_back_from_every_space():
    """Without names all that are installed; the others are said to be missing. What lies on another device is not taken
    for an answer of the space."""
    found, missing = spaces([])
    names = {space.name for space in found}
    assert {"numpy", "array_api_strict", "array_api_strict:device1"} <= names and not names & set(missing)
    on_hosts = {"numpy", "array_api_strict", "array_api_strict:device1", "torch:cpu", "jax:cpu"}
    assert names | set(missing) == on_hosts | {"cupy:cuda", *LAYERS}
    for space in found:
        x = np.array([[0.5, -2.0]], space.dtype)
        assert np.array_equal(space.get(space.put(x)), x) and space.get(space.put(x)).dtype == space.dtype
        (other,) = spaces(["array_api_strict"], "CPU_DEVICE" if space.name.endswith("device1") else "device1")[0]
        with pytest.raises(AssertionError, match="is not"):
            space.get(other.put(np.zeros(2)))


def hinge(backend, put):
    """The subgradient of sequences packed on a device."""
    model = backend.SequenceModel(2, 2)
    data = model.pack([np.eye(2)], [[0, 1]], like=put(0.0))
    return backend.StructuralHinge(model, data).value_and_gradient(model.zeros(data))[1]


SCORES = [[1.0, 0.0], [0.0, 2.0]]
ANSWERS = {  # not cuts nor boxes, which either panel finds on the host, wherever the arrays lie
    "Arborescence": lambda backend, put: backend.Arborescence(put([[0.0, 0.0, 5.0], [2.0, 4.0, 0.0]])).best()[0],
    "Chain": lambda backend, put: backend.Chain(put(SCORES), put(SCORES)).best()[0],
    "Graph": lambda backend, put: backend.Graph(put(SCORES), put([SCORES]), [[0, 1]]).best()[0],
    "Matching": lambda backend, put: backend.Matching(put(SCORES)).best()[0],
    "Tree": lambda backend, put: backend.Tree(put(SCORES), put(SCORES), [-1, 0]).best()[0],
    "L1": lambda backend, put: backend.L1(0.5).prox(put([1.0, -2.0]), 1.0),
    "project_simplex": lambda backend, put: backend.project_simplex(put([1.0, -2.0])),
    "StructuralHinge": hinge,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_other_devices_are_refused_not_copied(backend, name):
    """By what a backend has of its own, where it declares its devices; elsewhere answers lie where the arrays do."""
    (space,) = spaces(["array_api_strict"], "device1")[0]
    if backend.computes_on(space.device) or getattr(backend, name) is getattr(reference, name):
        space.get(ANSWERS[name](backend, space.put))
    else:
        with pytest.raises(TypeError, match=re.escape(space.device)):
            ANSWERS[name](backend, space.put)
