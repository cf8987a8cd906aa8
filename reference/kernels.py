"""Positive definite kernels between rows of features, and Gram matrices: dense, sparse, or computed block by block.

A kernel is called with X (n, d) and Y (m, d) and gives K (n, m), K_ij = k(x_i, y_j). Source: Martins et al. 2010,
section 4.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, floats, host, integer, number, real, refuse_nan_and_inf

__all__ = [
    "B1Spline",
    "Explicit",
    "Function",
    "Gaussian",
    "Kernel",
    "Linear",
    "Mean",
    "Polynomial",
    "Precomputed",
    "blocks",
    "titled",
]

ROUNDING = 1024  # times machine epsilon and the largest entry: the asymmetry that rounding can cause
SAMPLE = 256  # the most rows whose Gram matrix is tested for negative eigenvalues


class Kernel:
    """A positive definite function of two feature vectors; a subclass defines ``_block(xp, X, Y)``.

    If ``_of_products`` is defined, the block is computed from the inner products of rows and their squared norms, which
    several kernels share.
    """

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """K (n, m) of the rows of X (n, d) and Y (m, d); Y = None: X itself.

        Raises
        ------
        ValueError, TypeError
            Shapes that do not fit, numbers that are not finite, arrays of different namespaces, devices or dtypes.
        """
        X, Y = checked_rows(X, X if Y is None else Y)
        return self._block(array_namespace(X), X, Y)

    def diagonal(self, X: Array) -> Array:
        """k(x_i, x_i) (n,) of the rows of X (n, d)."""
        X, _ = checked_rows(X, X)
        xp = array_namespace(X)
        squares = xp.sum(X * X, axis=1)
        return self._of_products(xp, squares, squares, squares)

    def _block(self, xp: Any, X: Array, Y: Array) -> Array:
        return self._of_products(xp, *Products(X, Y)())

    def _shared(self, xp: Any, X: Array, Y: Array, products: Products) -> Array:
        """:meth:`_block`, from shared inner products if the kernel needs nothing else."""
        if type(self)._block is Kernel._block:
            return self._of_products(xp, *products())
        return self._block(xp, X, Y)

    def _of_products(self, xp: Any, products: Array, x: Array, y: Array) -> Array:
        """k from <x, y>, ||x||^2 and ||y||^2, arrays that broadcast."""
        raise TypeError(f"{type(self).__name__} must define _of_products, or _block and diagonal")


class Products:
    """<x, y> (n, m) of the rows of X (n, d) and Y (m, d), ||x||^2 (n, 1) and ||y||^2 (1, m): computed when they are
    first used.
    """

    def __init__(self, X: Array, Y: Array) -> None:
        self.X, self.Y = X, Y
        self.computed: tuple[Array, Array, Array] | None = None

    def __call__(self) -> tuple[Array, Array, Array]:
        if self.computed is None:
            xp, X, Y = array_namespace(self.X), self.X, self.Y
            squares = xp.sum(X * X, axis=1)[:, None], xp.sum(Y * Y, axis=1)[None, :]
            self.computed = (xp.matmul(X, xp.matrix_transpose(Y)), *squares)
        return self.computed


def blocks(kernels: Sequence[Kernel], X: Array, Y: Array) -> Iterator[Array]:
    """K (n, m) of each kernel, of the rows of X (n, d) and Y (m, d); inner products are taken once for all."""
    X, Y = checked_rows(X, Y)
    xp, products = array_namespace(X), Products(X, Y)
    for kernel in kernels:
        K = kernel._shared(xp, X, Y, products)
        refuse_nan_and_inf(f"kernel {titled(kernel)}", K, forbidden=False)
        yield K


def titled(kernel: Any) -> str:
    """A kernel's name with its options, or its class if that is too long."""
    if isinstance(kernel, Mean):
        return f"Mean({', '.join(map(titled, kernel.parts))})"
    return (
        type(kernel).__name__
        if isinstance(kernel, (Function, Precomputed)) or not is_dataclass(kernel)
        else repr(kernel)
    )


@dataclass(frozen=True)
class Linear(Kernel):
    """<x, y>, with ``unit_diagonal`` divided by ||x|| ||y||: the cosine; that of a row of zeros is 0, also with
    itself.
    """

    unit_diagonal: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.unit_diagonal, bool):
            raise TypeError(f"unit_diagonal: expected True or False, got {self.unit_diagonal!r}")

    def _of_products(self, xp: Any, products: Array, x: Array, y: Array) -> Array:
        return _cosines(xp, products, x, y) if self.unit_diagonal else products


@dataclass(frozen=True)
class Polynomial(Kernel):
    """(<x, y> + constant)^degree, divided by sqrt(k(x, x) k(y, y)) so that the diagonal is 1 unless ``unit_diagonal``
    is False.

    Parameters
    ----------
    degree : int >= 1
    constant : float >= 0
        If it is 0, the kernel of a row of zeros is 0, also with itself.
    unit_diagonal : bool
    """

    degree: int = 2
    constant: float = 1.0
    unit_diagonal: bool = True

    def __post_init__(self) -> None:
        if integer("degree", self.degree, 1) > 2**31 - 1:
            raise ValueError(f"degree: expected at most {2**31 - 1}, got {self.degree}")
        number("constant", self.constant)
        if not isinstance(self.unit_diagonal, bool):
            raise TypeError(f"unit_diagonal: expected True or False, got {self.unit_diagonal!r}")

    def _of_products(self, xp: Any, products: Array, x: Array, y: Array) -> Array:
        if not self.unit_diagonal:
            return (products + self.constant) ** self.degree
        c = self.constant  # the cosine first: no overflow
        return _cosines(xp, products + c, x + c, y + c) ** self.degree


@dataclass(frozen=True)
class Gaussian(Kernel):
    """exp(-||x - y||^2 / (2 sigma2)).

    Parameters
    ----------
    sigma2 : float > 0
        The variance sigma^2; 5 in the experiments of Martins et al.
    """

    sigma2: float = 5.0

    def __post_init__(self) -> None:
        number("sigma2", self.sigma2, positive=True)

    def _of_products(self, xp: Any, products: Array, x: Array, y: Array) -> Array:
        return xp.exp(_squared_distances(xp, products, x, y) * (-0.5 / self.sigma2))


@dataclass(frozen=True)
class B1Spline(Kernel):
    """max(0, 1 - ||x - y|| / h), the generalised B1-spline: 0 beyond a distance of h.

    Parameters
    ----------
    h : float > 0

    Notes
    -----
    It is positive definite in one dimension, but not in general: Gram matrices of the letters have small negative
    eigenvalues. A squared group norm below 0 is replaced by 0.
    """

    h: float

    def __post_init__(self) -> None:
        number("h", self.h, positive=True)

    @classmethod
    def with_zeros(cls, X: Array, share: float = 0.95, *, rows: int = 2000) -> B1Spline:
        """The spline whose Gram matrix over X (n, d) has this share of zeros among its entries, the diagonal included.

        Parameters
        ----------
        X : array (n, d)
        share : float
            In [0, 1).
        rows : int >= 1
            If X has more rows, the share is estimated from this number of rows, spread evenly, against all rows.

        Raises
        ------
        ValueError
            A share out of range, no rows; all of that share of the distances 0.
        """
        share = real("share", share)
        if not 0 <= share < 1:
            raise ValueError(f"share: expected a number in [0, 1), got {share}")
        X, _ = checked_rows(X, X)
        if X.shape[0] == 0:
            raise ValueError("X: expected at least one row, got none")
        some = np.unique(np.arange(min(integer("rows", rows, 1), X.shape[0])) * X.shape[0] // min(rows, X.shape[0]))
        xp, place = array_namespace(X), Place.of(X)
        part = xp.take(X, place.integers(some), axis=0)
        squares = xp.sum(part * part, axis=1)[:, None], xp.sum(X * X, axis=1)[None, :]
        squared = host(_squared_distances(xp, xp.matmul(part, xp.matrix_transpose(X)), *squares)).ravel()
        kept = max(int(np.ceil((1 - share) * squared.size)), 1)
        h2 = float(np.partition(squared, kept - 1)[kept - 1]) if share > 0 else float(squared.max()) * (1 + 1e-9)
        if not h2 > 0:
            raise ValueError(f"share: {1 - share:g} of the distances are 0, so that no h > 0 leaves {share:g} of zeros")
        return cls(float(np.sqrt(h2)))

    def _of_products(self, xp: Any, products: Array, x: Array, y: Array) -> Array:
        distances = xp.sqrt(_squared_distances(xp, products, x, y))
        return xp.clip(1.0 - distances / self.h, 0.0, None)


@dataclass(frozen=True, eq=False)
class Mean(Kernel):
    """The average of several kernels.

    Parameters
    ----------
    parts : sequence of Kernel
        At least one.
    """

    parts: Sequence[Kernel]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or not all(isinstance(part, Kernel) for part in self.parts):
            raise TypeError(f"parts: expected kernels such as Linear(), got {self.parts!r}")

    def _block(self, xp: Any, X: Array, Y: Array) -> Array:
        return self._shared(xp, X, Y, Products(X, Y))

    def _shared(self, xp: Any, X: Array, Y: Array, products: Products) -> Array:
        return sum(part._shared(xp, X, Y, products) for part in self.parts) / len(self.parts)

    def diagonal(self, X: Array) -> Array:
        return sum(part.diagonal(X) for part in self.parts) / len(self.parts)


@dataclass(frozen=True, eq=False)
class Function(Kernel):
    """A kernel that a function computes.

    Parameters
    ----------
    block : callable
        ``block(X, Y)`` gives (n, m) for X (n, d) and Y (m, d), in their namespace; symmetric, block(X, Y) =
        block(Y, X)', and positive definite. A Gram matrix checks the first: see :class:`reference.gram.Gram`.
    """

    block: Callable[[Array, Array], Array]

    def __post_init__(self) -> None:
        if not callable(self.block):
            raise TypeError(f"block: expected a callable, got {type(self.block).__name__}")

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        block = super().__call__(X, Y)
        refuse_nan_and_inf("block", block, forbidden=False)
        return block

    def _block(self, xp: Any, X: Array, Y: Array) -> Array:
        (block,) = floats(block=self.block(X, Y))
        if tuple(block.shape) != (X.shape[0], Y.shape[0]):
            raise ValueError(f"block: expected shape {(X.shape[0], Y.shape[0])}, got {tuple(block.shape)}")
        return block

    def diagonal(self, X: Array) -> Array:
        X, _ = checked_rows(X, X)
        xp = array_namespace(X)
        each = [xp.reshape(self._block(xp, X[i : i + 1, :], X[i : i + 1, :]), (1,)) for i in range(X.shape[0])]
        return xp.concat(each) if each else xp.sum(X, axis=1)


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """A precomputed matrix; the only feature of an example is its number.

    Parameters
    ----------
    matrix : array (N, N)
        Symmetric up to rounding (:func:`symmetrised`) and positive definite; k(i, j) = matrix[i, j] for X = [[i], ...].
    """

    matrix: Array

    def __post_init__(self) -> None:
        (matrix,) = floats(matrix=self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix: expected shape (N, N), got {tuple(matrix.shape)}")
        refuse_nan_and_inf("matrix", matrix, forbidden=False)
        object.__setattr__(self, "matrix", symmetrised("matrix", matrix))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={int(self.matrix.shape[0])})"

    def _block(self, xp: Any, X: Array, Y: Array) -> Array:
        rows, columns = self._numbers("X", X), self._numbers("Y", Y)
        return xp.take(xp.take(self.matrix, rows, axis=0), columns, axis=1)

    def diagonal(self, X: Array) -> Array:
        X, _ = checked_rows(X, X)
        xp = array_namespace(self.matrix)
        numbers = self._numbers("X", X)
        return xp.take(xp.reshape(self.matrix, (-1,)), numbers * (self.matrix.shape[0] + 1))

    def _numbers(self, name: str, x: Array) -> Array:
        numbers, N = host(x), int(self.matrix.shape[0])
        if numbers.shape[1] != 1 or np.any(numbers != np.round(numbers)) or np.any((numbers < 0) | (numbers >= N)):
            raise ValueError(f"{name}: expected one column of numbers 0..{N - 1}, got shape {numbers.shape}")
        return Place.of(self.matrix).integers(numbers[:, 0].astype(np.int64))


@dataclass(frozen=True)
class Explicit:
    """A group of explicit features: the linear kernel with weights (d, L) instead of coefficients of training
    positions.

    Parameters
    ----------
    unit_diagonal : bool
        Whether rows are scaled to length 1 (rows of zeros are not), as by ``Linear(unit_diagonal=True)``.
    """

    unit_diagonal: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.unit_diagonal, bool):
            raise TypeError(f"unit_diagonal: expected True or False, got {self.unit_diagonal!r}")


def is_known(kernel: Any, *others: type) -> bool:
    """Whether a kernel has a formula of this module, or is one of ``others``, or an average of such kernels."""
    if type(kernel) is Mean:
        return all(is_known(part, *others) for part in kernel.parts)
    return type(kernel) in (Linear, Polynomial, Gaussian, B1Spline, *others)


def symmetrised(name: str, K: Array, other: Array | None = None, rows: Any = None, columns: Any = None) -> Array:
    """(K + K')/2 of K (n, m), which may be asymmetric by rounding: |K_ij - K_ji| <= 1024 eps max |K|, eps that of its
    dtype. ``other`` (m, n): for a block K, the transposed block. Raises ValueError for more asymmetry, and for numbers
    that are not finite.

    Two orders of summing d products differ by at most d eps sum |x y|, hence by d eps times the largest entry of a
    positive definite K; 1024 eps is 2.3e-13 in float64, 1.2e-4 in float32.
    """
    xp = array_namespace(K)
    rows, columns = range(K.shape[0]) if rows is None else rows, range(K.shape[1]) if columns is None else columns
    for block, of, to in ((K, rows, columns), (K if other is None else other, columns, rows)):
        for i, j in np.argwhere(~np.isfinite(host(block)))[:1].tolist():
            place = int(of[i]), int(to[j])
            raise ValueError(f"{name}: expected finite numbers, got {float(block[i, j])} at index {place}")
    other = xp.matrix_transpose(K if other is None else other)
    if 0 in K.shape or not bool(xp.any(other != K)):
        return K
    differ = xp.abs(K - other)
    i, j = divmod(int(xp.argmax(differ)), int(K.shape[1]))
    if float(differ[i, j]) > ROUNDING * xp.finfo(K.dtype).eps * float(xp.max(xp.abs(K))):
        raise ValueError(
            f"{name}: expected a symmetric matrix K, got K[{rows[i]}, {columns[j]}] = {float(K[i, j])} and "
            f"K[{columns[j]}, {rows[i]}] = {float(other[i, j])}, which differ by {float(differ[i, j]):.3g}, more than "
            f"rounding; (K + K.T)/2 is symmetric"
        )
    return K / 2 + other / 2


def warn_if_indefinite(kernel: Any, X: Array) -> None:
    """Warn if the Gram matrix of rows of X (n, d) has a negative eigenvalue beyond rounding, for kernels without a
    formula of this module. At most SAMPLE rows, evenly spaced, are used.
    """
    n = int(X.shape[0])
    if n == 0 or is_known(kernel):
        return
    some = np.unique(np.arange(min(SAMPLE, n)) * n // min(SAMPLE, n))
    xp = array_namespace(X)
    part = xp.take(X, Place.of(X).integers(some), axis=0)
    K = host(symmetrised(f"kernel {titled(kernel)}", kernel._block(xp, part, part), rows=some, columns=some))
    values = np.linalg.eigvalsh(K.astype(np.float64))
    if values[0] < -ROUNDING * np.finfo(K.dtype).eps * np.abs(values).max():
        warnings.warn(
            f"kernel {titled(kernel)} is not positive definite: the Gram matrix of {len(some)} of {n} positions has "
            f"the eigenvalue {values[0]:.3g}, so that training may not converge; add {-values[0]:.3g} to the "
            f"diagonal to make it 0",
            stacklevel=2,
        )


def checked_rows(X: Any, Y: Any) -> tuple[Array, Array]:
    """Two arrays of finite rows of one width."""
    X, Y = floats(X=X, Y=Y)
    for name, x in (("X", X), ("Y", Y)):
        if x.ndim != 2:
            raise ValueError(f"{name}: expected shape (n, d), got {tuple(x.shape)}")
        refuse_nan_and_inf(name, x, forbidden=False)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"Y: expected {X.shape[1]} columns as X has, got {Y.shape[1]}")
    return X, Y


def _cosines(xp: Any, products: Array, x: Array, y: Array) -> Array:
    """products / sqrt(x y), 0 where x or y is 0."""
    x, y = (xp.where(z > 0, 1.0 / xp.sqrt(xp.where(z > 0, z, xp.ones_like(z))), xp.zeros_like(z)) for z in (x, y))
    return products * x * y


def _squared_distances(xp: Any, products: Array, x: Array, y: Array) -> Array:
    """||x - y||^2, not below 0 by rounding; exactly 0 only where the products say so."""
    return xp.clip(x + y - 2.0 * products, 0.0, None)
