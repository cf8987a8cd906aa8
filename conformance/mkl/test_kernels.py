"""Kernels are their formulas, positive (semi)definite, and Gram matrices are the same however they are held."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from reference import kernels as reference_kernels
from reference.gram import Gram
from reference.models.kernel_names import named


def kernels(backend):
    """Kernels and their formulas."""
    k = backend.kernels
    products = lambda A, B: 0.5 * A @ B.T + 1.0  # noqa: E731
    return {
        "linear": (k.Linear(), lambda x, y: x @ y),
        "cosine": (k.Linear(True), lambda x, y: x @ y / np.sqrt((x @ x) * (y @ y))),
        "quadratic": (k.Polynomial(2), lambda x, y: (x @ y + 1) ** 2 / np.sqrt((x @ x + 1) ** 2 * (y @ y + 1) ** 2)),
        "cubic": (k.Polynomial(3, constant=0.5, unit_diagonal=False), lambda x, y: (x @ y + 0.5) ** 3),
        "gaussian": (k.Gaussian(), lambda x, y: np.exp(-((x - y) ** 2).sum() / 10)),
        "spline": (k.B1Spline(2.0), lambda x, y: max(0.0, 1 - np.sqrt(((x - y) ** 2).sum()) / 2)),
        "mean": (k.Mean([k.Linear(), k.Gaussian(1.0)]), lambda x, y: (x @ y + np.exp(-((x - y) ** 2).sum() / 2)) / 2),
        "function": (k.Function(products), lambda x, y: 0.5 * x @ y + 1),
    }


@pytest.mark.parametrize("name", kernels(reference))
def test_a_kernel_is_its_formula(backend, rng, name):
    """And positive semidefinite, if not a spline; rows that are equal among them."""
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(5, 3))
    X[10:13] = X[0]
    kernel, formula = kernels(backend)[name]
    close(kernel(X, Y), [[formula(x, y) for y in Y] for x in X])
    close(K := kernel(X), kernel(X, X))
    close(kernel.diagonal(X), np.diag(K), scale=100.0 if name == "spline" else None)  # a distance: a root of a rounding
    assert kernel(X[:0], Y).shape == (0, 5) and kernel.diagonal(X[:0]).shape == (0,)
    assert name == "spline" or np.linalg.eigvalsh((K + K.T) / 2).min() >= -1e-10 * np.abs(K).max()


def test_the_variance_of_the_papers_experiments(backend):
    """Martins et al., Table 1: sigma^2 = 5."""
    assert backend.kernels.Gaussian() == backend.kernels.Gaussian(5.0)


def test_a_unit_diagonal(backend, rng):
    """Also at scales whose powers are no floats, and of a row of zeros, whose cosine with itself is 0."""
    X = rng.normal(size=(6, 3)) * np.array([1e-120, 1.0, 1e80, 1e130, 1e-3, 0.0])[:, None]
    cosine, unit = backend.kernels.Linear(True), X[:5] / np.max(np.abs(X[:5]), axis=1, keepdims=True)
    unit = np.append(unit / np.linalg.norm(unit, axis=1, keepdims=True), np.zeros((1, 3)), axis=0)
    close(cosine(X), unit @ unit.T)
    close(cosine.diagonal(X), [1, 1, 1, 1, 1, 0])
    K = backend.kernels.Polynomial(3)(X)
    close(np.diag(K), np.ones(6))
    assert np.all(np.abs(K) <= 1 + 1e-12)
    assert backend.kernels.Polynomial(2, constant=0.0)(np.zeros((2, 3))).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_a_spline_with_a_share_of_zeros(backend, rng, share):
    X = rng.normal(size=(80, 4))
    K = backend.kernels.B1Spline.with_zeros(X, share)(X)
    assert abs(np.mean(K == 0) - share) <= 1 / 80
    assert backend.kernels.B1Spline.with_zeros(X, share).h == pytest.approx(
        backend.kernels.B1Spline.with_zeros(X, share, rows=80).h
    )


def test_a_known_matrix(backend, rng):
    A = rng.normal(size=(6, 6))
    K = A @ A.T
    kernel, numbers = backend.kernels.Precomputed(K), np.array([[2.0], [0.0], [5.0]])
    close(kernel(numbers), K[np.ix_([2, 0, 5], [2, 0, 5])])
    close(kernel.diagonal(numbers), np.diag(K)[[2, 0, 5]])


def gram_type(backend):
    """The type of the matrices that a backend packs."""
    return type(backend.KernelSequenceModel([backend.kernels.Linear()], 1).pack([[[0.0]]]).grams[0])


def test_storage_goes_by_the_budget(backend, rng):
    X, linear = rng.normal(size=(300, 3)), backend.kernels.Linear()
    assert Gram(linear, X).storage == "dense"
    assert all(Gram(linear, X, budget=budget).storage == "blocks" for budget in (0, 8 * 300**2 - 1))
    thin = Gram(backend.kernels.B1Spline.with_zeros(X, 0.98), X)
    assert thin.storage == "sparse" and thin.nbytes == (8 + 8) * np.count_nonzero(thin.kernel(X)) < 0.1 * 8 * 300**2
    assert Gram(linear, X[:0]).times(0, 0, np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize(("classes", "storage"), [(100, "sparse"), (5, "sparse"), (4, "sparse"), (2, "dense")])
def test_sparse_is_chosen_where_it_takes_half_of_dense(backend, classes, storage):
    """Rows of the same class have the product 1; a non-zero takes 16 bytes, twice those of a number."""
    X, n = np.arange(100.0)[:, None], 100
    same = backend.kernels.Function(lambda X, Y: (X % classes == Y.T % classes) * 1.0)
    held = Gram(same, X)
    assert held.storage == storage and held.nbytes == (16 / classes if storage == "sparse" else 8) * n**2
    assert Gram(same, X, budget=held.nbytes).storage == storage
    assert Gram(same, X, budget=held.nbytes - 1).storage == "blocks"


@pytest.mark.parametrize("storage", ["auto", "dense", "sparse", "blocks"])
def test_several_matrices_share_products_and_a_budget(backend, rng, storage):
    """Each is the kernel's own matrix, in parts as well, held as asked; "auto" keeps to the budget for all together."""
    X = np.round(rng.normal(size=(300, 3)), 1)
    every = [kernel for kernel, *_ in kernels(backend).values()]
    kind, budget = gram_type(backend), 2 * 8 * 300**2 + 1000
    grams = kind.several(every, X, storage, budget)
    for kernel, gram in zip(every, grams, strict=True):
        assert gram.kernel is kernel and (storage == "auto" or gram.storage == storage)
        K = kernel(X)
        close(gram.times(0, 300, X), K @ X)
        close(gram.times(3, 290, X), K[3:290] @ X)
        close(gram.block(7, 11, slice(7, 11)), K[7:11, 7:11])
        close(gram.square(X), max(np.sum(X * (K @ X)), 0.0))
    if storage == "auto":
        assert sum(gram.nbytes for gram in grams) <= budget
        assert {"dense", "blocks"} <= {gram.storage for gram in grams}


def test_blocks_of_several_kernels_are_those_of_each(backend, rng):
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    every, mean = [kernel for kernel, _ in kernels(backend).values()], backend.kernels.Mean
    every += [mean([every[0], mean(every[1:3])]), backend.kernels.Function(lambda X, Y: X @ Y.T + 1)]
    for kernel, K in zip(every, reference_kernels.blocks(every, X, Y), strict=True):
        close(K, kernel(X, Y))


def test_kernels_in_other_namespaces(space, rng):
    X, k = np.round(rng.normal(size=(4, 2)), 2), reference.kernels
    for kernel in (k.Linear(), k.Polynomial(2), k.Gaussian(1.0), k.B1Spline(1.5)):
        close(space.get(kernel(space.put(X))), kernel(X), space.dtype)
        close(space.get(kernel.diagonal(space.put(X))), kernel.diagonal(X), space.dtype)
        for storage in ("dense", "sparse", "blocks"):
            close(space.get(Gram(kernel, space.put(X), storage).times(0, 4, space.put(X))), kernel(X) @ X, space.dtype)


def fitted(backend, kernel, storage, n=12):
    """The objective after two epochs over two sequences of the positions 0..n-1, whose numbers are their features."""
    X, Y = np.arange(float(n))[:, None], np.arange(n) * np.arange(n) // 3 % 2
    model = backend.KernelSequenceModel([kernel], 2)
    data = model.pack([X[: n // 2], X[n // 2 :]], [Y[: n // 2], Y[n // 2 :]], storage=storage)
    return backend.mkl(model, data, lam=0.1, step_size=backend.steps.InverseSqrt(1.0), epochs=2, rng=0).fun


def of_matrix(backend, K):
    """The kernel of a matrix as a function that a user writes."""
    return backend.kernels.Function(lambda X, Y: K[np.ix_(X[:, 0].astype(int), Y[:, 0].astype(int))])


@pytest.mark.parametrize("storage", ["dense", "sparse", "blocks"])
def test_rounding_is_symmetrised_and_asymmetry_is_refused(backend, rng, storage):
    """Asymmetry by rounding changes a run by rounding, however the matrix is held; 1e-9 is refused with its place."""
    A, E = rng.normal(size=(12, 5)), rng.normal(size=(12, 12))
    K, make = A @ A.T, (backend.kernels.Precomputed, lambda K: of_matrix(backend, K))
    K = (K + K.T) / 2
    for kernel in (kind(K + 1e-15 * E) for kind in make):
        assert fitted(backend, kernel, storage) == pytest.approx(fitted(backend, make[0](K), "dense"), rel=1e-9)
        gram = gram_type(backend)(kernel, np.arange(12.0)[:, None], storage)
        assert np.array_equal(gram.times(0, 12, np.eye(12)), gram.times(0, 12, np.eye(12)).T)
    for i, j, kind in ((7, 3, make[0]), (3, 7, make[1])):
        wrong = K.copy()
        wrong[i, j] += 1e-9
        place = r"K\[3, 7\] = .* and K\[7, 3\] = .*, which differ by 1e-09, .* \(K \+ K\.T\)/2 is symmetric"
        with pytest.raises(ValueError, match=place):
            fitted(backend, kind(wrong), storage)
    assert backend.kernels.Precomputed((K + 1e-6 * E).astype(np.float32)).matrix.dtype == np.float32


def test_blocks_beyond_the_sample_are_checked_when_they_are_computed(backend):
    K = np.eye(300)
    K[[211, 17], [17, 211]] = 0.01, -0.01
    gram = gram_type(backend)(of_matrix(backend, K), np.arange(300.0)[:, None], "blocks")
    gram.block(0, 10)
    with pytest.raises(ValueError, match=r"K\[17, 211\] = -0.01 and K\[211, 17\] = 0.01, which differ by 0.02"):
        gram.square(np.ones((300, 1)))


@pytest.mark.parametrize("storage", ["dense", "sparse", "blocks"])
def test_numbers_of_kernels_are_finite(backend, rng, storage):
    K = np.eye(12)
    K[4, 9] = np.inf
    with pytest.raises(ValueError, match=r"kernel Function: expected finite numbers, got inf at index \(4, 9\)"):
        fitted(backend, of_matrix(backend, K), storage)
    X = np.array([[1.0], [1e200]])
    for kernel in (backend.kernels.Linear(), backend.kernels.Mean([backend.kernels.Gaussian()])):
        with pytest.raises(ValueError, match=r"got (inf|nan) at index \(1, 1\): scale the features"):
            gram_type(backend).several([kernel], X, storage)


def test_a_kernel_with_a_negative_eigenvalue_is_said(backend, rng):
    """By one warning; a matrix of low rank, with eigenvalues below 0 by rounding, or of zeros is no such kernel."""
    A = rng.normal(size=(12, 3))
    K = A @ A.T
    for kernel in (backend.kernels.Precomputed(K - np.eye(12) / 2), of_matrix(backend, K - np.eye(12) / 2)):
        with pytest.warns(UserWarning, match="is not positive definite: .* eigenvalue -0.5,") as told:
            fitted(backend, backend.kernels.Mean([kernel]), "auto")
        assert len(told) == 1
    for semidefinite in (K, 0.0 * K):
        fitted(backend, of_matrix(backend, semidefinite), "auto")


def test_the_width_of_a_named_spline_comes_from_the_data(rng):
    X = [rng.normal(size=(20, 2)), rng.normal(size=(10, 2))]
    (spline,) = named("spline:0.5", X)
    assert spline == reference.kernels.B1Spline.with_zeros(np.concatenate(X), 0.5)
    assert abs(np.mean(spline(np.concatenate(X)) == 0) - 0.5) <= 1 / 30
    assert isinstance(named("spline:0.5", None)[0], reference.kernels.B1Spline)


def test_what_is_wrong_is_named(backend, rng):
    X = [np.ones((2, 3)), np.ones((1, 3))]
    model = backend.KernelSequenceModel([backend.kernels.Linear(), backend.kernels.Explicit()], 3)
    names = {"np": np, "b": backend, "Gram": Gram, "model": model, "X": X, "data": model.pack(X, [[0, 1], [2]])}
    check_refusals("wrong_kernels.txt", names)
