"""The array layer: namespace, device and dtype of arrays, and sparse rows with their two primitives.

The reference is written against the array API standard, so that the same code runs on NumPy, PyTorch, JAX (with
``jax_enable_x64``), CuPy and ``array_api_strict``, and on other libraries that follow the standard. Only this module
names libraries: for speed in :func:`_index_add`, and in :func:`concrete`, because JAX traces. Arrays that decide shapes
(offsets, ``Rows.indptr``, batches) are NumPy int64 on the host. All other arrays are in the caller's namespace, on the
caller's device. Under ``jax.jit``, ``vmap`` and ``grad`` shapes and dtypes are checked, values are not.

A NumPy masked array is accepted if no entry is masked, and rejected otherwise.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_namespace,
    is_jax_array,
    is_jax_namespace,
    is_numpy_namespace,
    is_torch_namespace,
)

from reference.example_errors import example_error, is_frame, values_of
from reference.packed import Packed, check_offsets, check_range, lock

__all__ = ["Place", "Rows", "gather_sum", "scatter_sum"]

Array = Any  # an array of any namespace
LARGEST = 2**63 - 1  # of int64
LARGEST_ODD = 2**53  # float64 holds all integers up to this size, beyond it no odd ones
MOST = float(np.finfo(np.float64).max)


class Place(NamedTuple):
    """The namespace, device and floating dtype of computed arrays."""

    xp: Any
    device: Any
    dtype: Any

    @classmethod
    def of(cls, like: Array | None) -> Place:
        """The place of an array; of None, NumPy's float64."""
        if like is None:
            like = np.zeros(0)
        (like,) = floats(like=like)
        return cls(array_namespace(like), device(like), like.dtype)

    def __reduce__(self) -> tuple[Any, ...]:  # modules cannot be pickled, arrays can
        return Place.of, (self.zeros((0,)),)

    def floats(self, values: Any) -> Array:
        """Numbers on the host as a floating array in this place; always a copy."""
        dtype = np.float32 if self.dtype == self.xp.float32 else np.float64
        return self.xp.asarray(np.array(values, dtype=dtype, order="C"), dtype=self.dtype, device=self.device)

    def integers(self, values: Any) -> Array:
        """Integers on the host as an int64 array in this place; always a copy."""
        return self.xp.asarray(np.array(values, np.int64, order="C"), dtype=self.xp.int64, device=self.device)

    def zeros(self, shape: Any) -> Array:
        """A floating array of zeros in this place."""
        return self.xp.zeros(shape, dtype=self.dtype, device=self.device)


def floats(**arguments: Any) -> tuple[Array, ...]:
    """Arguments as floating arrays of one namespace, one device and one dtype.

    float32 and float64 stay; integers and booleans become float64. Nested lists become arrays of the other arguments'
    namespace and device, or of NumPy if there are no arrays. Half precision, complex numbers, objects, mixed
    namespaces, and integers beyond 64 bits or that float64 does not hold (2^53 + 1) are rejected by name.
    """
    arguments = {name: unmasked(name, x) for name, x in arguments.items()}
    given = [x for x in arguments.values() if is_array_api_obj(x)]
    try:
        xp = array_namespace(*given) if given else array_namespace(np.zeros(0))
    except TypeError:
        kinds = ", ".join(f"{name} of {type(x).__module__.split('.')[0]}" for name, x in arguments.items())
        raise TypeError(f"arrays of several namespaces: {kinds}; expected all of one") from None
    devices = {str(where): where for where in map(device, given) if where is not None}  # a tracer of JAX has none
    if len(devices) > 1:
        raise ValueError(f"{', '.join(arguments)}: arrays on several devices ({', '.join(sorted(devices))})")
    arrays = [_floating(xp, name, x, next(iter(devices.values()), None)) for name, x in arguments.items()]
    own = [a for a, x in zip(arrays, arguments.values(), strict=True) if is_array_api_obj(x)]  # lists follow
    dtype = xp.result_type(*(own or arrays))
    return tuple(x if x.dtype == dtype else xp.astype(x, dtype) for x in arrays)


def _floating(xp: Any, name: str, given: Any, where: Any) -> Array:
    x = given
    if not is_array_api_obj(x):
        try:
            x = np.asarray(x)
        except ValueError:
            raise ValueError(
                f"{name}: expected a rectangular array of numbers, got nested lists of unequal length"
            ) from None
        if x.dtype.kind not in "fiub":
            raise TypeError(f"{name}: expected real numbers, got {_kind(x)}")
        if x.dtype.kind == "f" and np.any(np.abs(x) >= LARGEST_ODD):  # integers beside floats
            refuse_rounded(name, np.asarray(given, dtype=object))
        x = xp.asarray(x, device=where)
    if xp.isdtype(x.dtype, ("bool", "integral")):
        if concrete(x):
            refuse_rounded(name, host(x))
        return xp.astype(x, xp.float64)
    if x.dtype not in (xp.float32, xp.float64):
        raise TypeError(f"{name}: expected float32 or float64 (or integers or booleans), got {x.dtype}")
    return x


def refuse_rounded(name: str, x: np.ndarray) -> None:
    """Raise ValueError at the first integer of a host array that float64 does not hold."""
    if x.dtype.kind not in "iuO" or (x.dtype.kind != "O" and x.dtype.itemsize < 8):
        return
    large = x if x.dtype.kind == "O" else x[(x > LARGEST_ODD) | (x < -LARGEST_ODD if x.dtype.kind == "i" else False)]
    for v in large.flat:
        if isinstance(v, (int, np.integer)) and abs(int(v)) <= MOST and int(float(v)) != v:
            raise ValueError(f"{name}: expected numbers that float64 holds, got {v}: it becomes {int(float(v))}")


def integers(name: str, x: Any, place: Place) -> Array:
    """An integer argument as int64 in ``place``, from any namespace; floats, booleans and integers beyond
    int64 are rejected."""
    x = unmasked(name, x)
    if not is_array_api_obj(x):
        x = np.asarray(x)
        if x.size == 0:
            x = x.astype(np.int64)
    if not array_namespace(x).isdtype(x.dtype, "integral"):
        raise TypeError(f"{name}: expected integers, got {_kind(x) if isinstance(x, np.ndarray) else x.dtype}")
    if array_namespace(x) is place.xp and x.dtype == place.xp.int64 and device(x) in (None, place.device):
        return x
    return place.integers(int64(name, host(x)))


def booleans(name: str, x: Any, shape: tuple[int, ...], place: Place) -> Array:
    """A boolean argument of this shape in ``place``. Raises ValueError, TypeError."""
    x = unmasked(name, x)
    if not is_array_api_obj(x):
        x = np.asarray(x, dtype=bool if np.size(x) == 0 else None)
    if x.dtype != array_namespace(x).bool:
        raise TypeError(f"{name}: expected booleans, got {_kind(x) if isinstance(x, np.ndarray) else x.dtype}")
    if tuple(x.shape) != tuple(shape):
        raise ValueError(f"{name}: expected shape {tuple(shape)}, got {tuple(x.shape)}")
    if array_namespace(x) is place.xp and device(x) in (None, place.device):
        return x
    return place.xp.asarray(host(x), device=place.device)


def int64(name: str, x: np.ndarray) -> np.ndarray:
    """Host integers as int64. Raises TypeError for other dtypes, ValueError beyond the range."""
    if x.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got {_kind(x)}")
    if x.dtype.kind == "u" and x.size and x.max() > LARGEST:
        raise ValueError(f"{name}: expected integers up to 2^63 - 1, got {x.max()}")
    return x.astype(np.int64, copy=False)


def unmasked(name: str, x: Any) -> Any:
    """x, without the mask of a NumPy masked array (or of one in a list) that masks no entry. Raises ValueError if it
    masks one.
    """
    if isinstance(x, (list, tuple)) and any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, x))):
        return [unmasked(f"{name}[{i}]", row) for i, row in enumerate(x)]
    if not isinstance(x, np.ma.MaskedArray):
        return x
    if np.ma.is_masked(x):
        masked = np.count_nonzero(np.ma.getmaskarray(x))
        raise ValueError(f"{name}: expected numbers throughout, got a masked array with {masked} of {x.size} masked")
    return np.ma.getdata(x)


def _kind(x: np.ndarray) -> str:
    """The content of an array that does not hold numbers, in words: its dtype, or an integer beyond int64."""
    beyond = (v for v in x.flat if isinstance(v, int) and not -LARGEST - 1 <= v <= LARGEST) if x.dtype == object else ()
    return next((shown(v) for v in beyond), str(x.dtype))


def concrete(x: Array) -> bool:
    """Whether the values of ``x`` can be read. Those of a tracer of ``jax.jit``, ``vmap`` or ``grad`` cannot."""
    if not is_jax_array(x):
        return True
    from jax.core import Tracer  # JAX is loaded, as x is from it

    return not isinstance(x, Tracer)


def seen(wrong: Array) -> bool:
    """The result () of a check as a bool; False for a tracer, so that only checks of values are skipped."""
    return concrete(wrong) and bool(wrong)


def refuse_nan_and_inf(name: str, x: Array, *, forbidden: bool = True) -> None:
    """Raise ValueError at the first nan or +inf of ``x`` (and -inf, unless it may mean a forbidden part)."""
    xp = array_namespace(x)
    bad = xp.isnan(x) | (x == xp.inf) if forbidden else ~xp.isfinite(x)
    if seen(xp.any(bad)):
        index = tuple(int(i) for i in np.argwhere(host(bad))[0])
        allowed = "finite scores, or -inf for a forbidden part" if forbidden else "finite numbers"
        raise ValueError(f"{name}: expected {allowed}, got {float(x[index])} at index {index}")


def host(x: Any, name: str = "array") -> np.ndarray:
    """An array of any namespace and device as a NumPy array; a copy only if it is not in host memory."""
    x = unmasked(name, x)
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        try:
            return np.asarray(x)
        except ValueError:
            raise ValueError(f"{name}: expected an array of numbers, got nested lists of unequal length") from None
    return np.from_dlpack(x, device="cpu")


def read_only_copy(x: Any) -> Any:
    """A copy of an array, or of each array in nested tuples. NumPy arrays are read-only, others cannot be."""
    if isinstance(x, tuple):
        fields = [read_only_copy(each) for each in x]
        return type(x)(*fields) if hasattr(x, "_fields") else tuple(fields)
    return lock(array_namespace(x).asarray(x, copy=True))


def take_last(xp: Any, x: Array, index: Array) -> Array:
    """``x[..., index]`` with one index for each leading position: like the standard's take_along_axis with one
    index.
    """
    return xp.take_along_axis(x, index[..., None], axis=-1)[..., 0]


def logsumexp(xp: Any, x: Array, axis: int | tuple[int, ...]) -> Array:
    """log sum exp along an axis, or several; -inf where every entry is -inf; never overflows."""
    top = xp.max(x, axis=axis, keepdims=True)
    total = xp.sum(xp.exp(x - xp.where(top > -xp.inf, top, 0.0)), axis=axis)  # >= 1, or 0 if all are -inf
    return xp.log(xp.where(total > 0, total, 1.0)) + xp.squeeze(top, axis=axis)


def softmax(xp: Any, x: Array, axis: int = -1) -> Array:
    """exp(x) over its sum along an axis, without overflow; all 0 if x is all -inf."""
    top = xp.max(x, axis=axis, keepdims=True)
    return normalized(xp, xp.exp(x - xp.where(top > -xp.inf, top, 0.0)), axis)


def normalized(xp: Any, x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """x over its sum along an axis; x itself if the sum is 0."""
    total = xp.sum(x, axis=axis, keepdims=True)
    return x / xp.where(total == 0, 1.0, total)


def one_hot(xp: Any, index: Array, n: int, dtype: Any) -> Array:
    """Indicators (..., n) of integer indices (...); all 0 for a negative index."""
    return xp.astype(index[..., None] == xp.arange(n, dtype=xp.int64, device=device(index)), dtype)


def shown(value: Any) -> str:
    """``value`` as error messages show it; of an integer beyond 64 bits only its length."""
    is_long = isinstance(value, int) and value.bit_length() > 64
    return f"an integer of {value.bit_length()} bits" if is_long else repr(value)


def integer(name: str, value: Any, least: int, most: int | None = LARGEST) -> int:
    """``value`` as an int from ``least`` to ``most``; other types (bool too) and other numbers are rejected."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer >= {least}, got {value!r}") from None
    if isinstance(value, bool):
        raise TypeError(f"{name}: expected an integer >= {least}, got {value!r}")
    if number < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {shown(number)}")
    if most is not None and number > most:
        raise ValueError(f"{name}: expected an integer in {least}..{most}, got {shown(number)}")
    return number


def real(name: str, value: Any) -> float:
    """``value`` as a float; strings, booleans, non-scalar arrays, numbers beyond float64 and other objects are
    rejected."""
    value = unmasked(name, value)
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)) or getattr(value, "ndim", 0) != 0:
            raise TypeError
        converted = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}") from None
    except OverflowError:
        got = shown(value) if isinstance(value, int) else f"a {type(value).__name__} beyond that"
        raise ValueError(f"{name}: expected a number of at most 1.8e308 in size, got {got}") from None
    if abs(converted) >= LARGEST_ODD:
        refuse_rounded(name, np.array([value], dtype=object))
    return converted


def number(name: str, value: Any, *, positive: bool = False) -> float:
    """A finite scalar >= 0 (or > 0) as a float."""
    scalar = real(name, value)
    if not 0 <= scalar < np.inf or (positive and scalar == 0):
        raise ValueError(f"{name}: expected a finite number {'>' if positive else '>='} 0, got {scalar}")
    return scalar


def squared_norm(x: Array) -> float:
    """||x||^2, summed in float64 on the host."""
    flat = host(x).astype(np.float64, copy=False).reshape(-1)
    return float(flat @ flat)


def absolute_sum(x: Array) -> float:
    """||x||_1, summed in float64 on the host."""
    return float(np.sum(np.abs(host(x).astype(np.float64, copy=False))))


def epsilon(x: Array) -> float:
    """The machine epsilon of an array's dtype."""
    return float(array_namespace(x).finfo(x.dtype).eps)


@dataclass(frozen=True, eq=False, repr=False)
class Rows(Packed):
    """N sparse rows of ``width`` columns in compressed form: row i holds ``indices[indptr[i]:indptr[i+1]]``.

    ``indptr`` (N + 1,) is NumPy int64 on the host, because it decides shapes; ``indices`` (nnz,) int64 and ``data``
    (nnz,) are arrays of the namespace. An index that occurs twice in a row counts twice (the entries add). If all
    entries are 1, :meth:`of` gives ``data`` as a single 1 broadcast to (nnz,).

    Raises
    ------
    ValueError, TypeError
        Fields whose sizes do not match, a column outside 0..width-1, a number that is not finite.
    """

    indptr: np.ndarray
    indices: Array
    data: Array
    width: int

    @property
    def n(self) -> int:
        """Number of rows N."""
        return len(self.indptr) - 1

    def validate(self) -> None:
        """Raise unless ``indptr`` rises from 0 to the number of entries, and these are finite, of columns
        0..width-1."""
        integer("rows.width", self.width, 0)
        if not is_array_api_obj(self.indices) or not is_array_api_obj(self.data):
            raise TypeError("rows: expected indices and data as arrays")
        xp, nnz = self.place.xp, int(self.data.shape[0]) if self.data.ndim == 1 else -1
        if nnz < 0 or self.data.dtype not in (xp.float32, xp.float64):
            raise TypeError(f"rows.data: expected float32 or float64 of shape (nnz,), got {_described(self.data)}")
        if array_namespace(self.indices) is not xp or self.indices.dtype != xp.int64:
            raise TypeError(f"rows.indices: expected int64 in the namespace of data, got {_described(self.indices)}")
        if tuple(self.indices.shape) != (nnz,):
            raise ValueError(f"rows.indices: expected shape ({nnz},), as data has, got {tuple(self.indices.shape)}")
        check_offsets("rows.indptr", self.indptr, nnz, "entries in rows.data and rows.indices")
        check_range("rows.indices", host(self.indices), 0, self.width)
        refuse_nan_and_inf("rows.data", self.data, forbidden=False)

    @property
    def place(self) -> Place:
        """The place of the entries."""
        return Place(array_namespace(self.data), device(self.data), self.data.dtype)

    @classmethod
    def of(cls, x: Any, *, width: int | None = None, like: Array | None = None, name: str = "X") -> Rows:
        """Rows from a dense (N, width) array, a CSR matrix, or one list of active columns a row.

        Parameters
        ----------
        x : array (N, width), CSR object with ``indptr``, ..., ``shape``, data frame, or sequence of index sequences
            Lists of columns stand for entries of 1.
        width : int, optional
            Number of columns; needed for index lists, checked for the others.
        like : array, optional
            Namespace, device and dtype of the result (default: NumPy float64).
        name : str
            The name of ``x`` in error messages.

        Raises
        ------
        ValueError
            Naming row and column: a width that does not fit, a column outside 0..width-1, a number that is not finite,
            a masked entry; of a CSR matrix or Rows, arrays that are not vectors.
        TypeError
            A matrix that is not CSR, columns or offsets that are not integers, lists with other items than columns.
        """
        fields, x = list(x.columns) if is_frame(x) else None, values_of(x)
        if isinstance(x, Rows):
            indptr, indices, data, columns = x.indptr, x.indices, host(x.data), x.width
        elif all(hasattr(x, field) for field in ("indptr", "indices", "data", "shape")):
            if getattr(x, "format", "csr") != "csr" or len(x.indptr) != x.shape[0] + 1:
                raise TypeError(
                    f"{name}: expected a CSR matrix (rows compressed), got {type(x).__name__}; .tocsr() makes one"
                )
            indptr, indices, data, columns = x.indptr, x.indices, host(x.data, f"{name}.data"), x.shape[1]
            refuse_rounded(f"{name}.data", data)
        elif is_array_api_obj(x):
            if isinstance(x, np.ndarray) and x.dtype.kind in "OUS" and x.ndim == 2:
                for row, column in np.argwhere([[not isinstance(v, (int, float)) for v in each] for each in x])[:1]:
                    field = f"column {column}" if fields is None else fields[column]
                    raise example_error(
                        name, int(row), f"{field}: expected a number, got {x[row, column]!r}", TypeError
                    )
            (x,) = floats(**{name: x})
            if x.ndim != 2:
                problem = f"expected a two-dimensional array (positions, features), got shape {tuple(x.shape)}"
                raise example_error(name, None, problem)
            dense = host(x)
            rows, indices = np.nonzero(dense)
            indptr = _offsets(np.bincount(rows, minlength=len(dense)))
            data, columns = dense[rows, indices], dense.shape[1]
        elif hasattr(x, "tocsr"):
            raise TypeError(
                f"{name}: expected a CSR matrix (rows compressed), got {type(x).__name__}; .tocsr() makes one"
            )
        else:
            x = list(x)
            if width is None:
                raise ValueError(f"{name}: index lists do not tell the number of features; give width")
            each, columns = [_columns(name, i, row, width) for i, row in enumerate(x)], width
            indptr, indices = _offsets(list(map(len, each))), np.concatenate([np.zeros(0, np.int64), *each])
            data = np.ones(len(indices))
        if width is not None and columns != width:
            raise example_error(name, None, f"expected {width} features, got {columns}")
        indptr, indices = (
            int64(f"{name}.{field}", host(x, f"{name}.{field}"))
            for field, x in (("indptr", indptr), ("indices", indices))
        )
        _check_rows(name, indptr, indices, data, int(columns), fields)
        present = np.asarray(data) != 0
        if not np.all(present):  # as of dense arrays, zeros are not stored
            indptr, indices, data = _offsets(present)[indptr], indices[present], data[present]
        place = Place.of(like)
        if len(data) and np.all(np.asarray(data) == 1):  # columns of text and of lists: a single 1 stands for all
            values = place.xp.broadcast_to(place.floats([1.0]), (len(data),))
        else:
            values = place.floats(data)
        return cls.unchecked(indptr.copy(), place.integers(indices), values, int(columns))

    @classmethod
    def unchecked(cls, indptr: np.ndarray, indices: Array, data: Array, width: int) -> Rows:
        """Rows from arrays that need no check."""
        return cls._trusted(indptr=lock(indptr), indices=lock(indices), data=lock(data), width=width)

    def take(self, positions: np.ndarray) -> Rows:
        """The rows at host ``positions`` (m,), in that order; the index is built on the host and sent once."""
        starts, counts = self.indptr[positions], self.indptr[positions + 1] - self.indptr[positions]
        indptr = _offsets(counts)
        index = self.place.integers(np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1]))
        xp = self.place.xp
        return Rows.unchecked(indptr, xp.take(self.indices, index), xp.take(self.data, index), self.width)

    def select(self, columns: np.ndarray) -> Rows:
        """The given ``columns`` (m,) of all rows, on the host, different and sorted; renumbered 0..m-1."""
        new = np.full(self.width, -1, np.int64)
        new[columns] = np.arange(len(columns))
        renumbered = new[host(self.indices)]
        kept = renumbered >= 0
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr].astype(np.int64)
        if type(self.data) is np.ndarray and self.data.strides == (0,):  # a single 1 stands for all
            data = self.data[: indptr[-1]]
        else:
            data = self.place.xp.take(self.data, self.place.integers(np.flatnonzero(kept)))
        return Rows.unchecked(indptr, self.place.integers(renumbered[kept]), data, len(columns))

    def row_ids(self) -> Array:
        """The row of each entry (nnz,), in the namespace."""
        return self.place.integers(np.repeat(np.arange(self.n), np.diff(self.indptr)))


def _described(x: Array) -> str:
    return f"{x.dtype} of shape {tuple(x.shape)}"


def _columns(name: str, i: int, row: Any, width: int) -> np.ndarray:
    """One row's list of active columns."""
    try:
        columns = host(row, name)
    except ValueError:  # nested lists of unequal length
        columns = np.zeros((0, 0))
    if columns.ndim != 1 or (columns.size and columns.dtype.kind not in "iu"):
        hint = "features with names go into a TaggingModel" if columns.dtype.kind in "OUS" else DENSE
        raise example_error(name, i, f"expected a list of column numbers, got {row!r:.80}; {hint}", TypeError)
    if columns.size and not 0 <= columns.min() <= columns.max() < width:
        wrong = columns[(columns < 0) | (columns >= width)][0]
        raise example_error(name, i, f"expected feature indices in 0..{width - 1}, got {wrong}; {DENSE}")
    return int64(name, columns) if columns.size else columns.astype(np.int64)


DENSE = "dense features go in as an array"


def _offsets(counts: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _check_rows(
    name: str, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, width: int, fields: Any = None
) -> None:
    for field, x in (("indptr", indptr), ("indices", indices), ("data", data)):
        if x.ndim != 1:
            raise ValueError(f"{name}.{field}: expected one dimension, got shape {x.shape}")
    if (
        len(indptr) == 0
        or indptr[0] != 0
        or np.any(indptr[1:] < indptr[:-1])
        or not indptr[-1] == len(indices) == len(data)
    ):
        raise ValueError(
            f"{name}: indptr must rise from 0 to the number of entries ({len(indices)} indices, {len(data)} data)"
        )
    for e in np.flatnonzero((indices < 0) | (indices >= width))[:1]:
        problem = f"expected feature indices in 0..{width - 1}, got {indices[e]}"
        raise example_error(name, _row(indptr, e), problem)
    if np.asarray(data).dtype.kind not in "fiub":
        raise TypeError(f"{name}: expected real numbers, got {np.asarray(data).dtype}")
    for e in np.flatnonzero(~np.isfinite(data))[:1]:
        field = f"column {indices[e]}" if fields is None else fields[indices[e]]
        raise example_error(name, _row(indptr, e), f"{field}: expected a finite number, got {data[e]}")


def _row(indptr: np.ndarray, entry: int) -> int:
    return int(np.searchsorted(indptr, entry, side="right")) - 1


def gather_sum(rows: Rows, W: Array) -> Array:
    """The product of sparse rows and a dense matrix: out[i] = sum_e data[e] W[indices[e]] over the entries e of row i.

    Parameters
    ----------
    rows : Rows
        N rows of d columns.
    W : array (d, L)

    Returns
    -------
    array (N, L)

    Raises
    ------
    ValueError
        W does not have d rows.

    Notes
    -----
    Work and memory O(nnz L); entries are added in the order in which they are stored.
    """
    fits("W", W, rows.width)
    xp = array_namespace(W)
    return _index_add(xp, rows.n, rows.row_ids(), rows.data[:, None] * xp.take(W, rows.indices, axis=0))


def scatter_sum(rows: Rows, G: Array) -> Array:
    """The adjoint of :func:`gather_sum`: out[j] = sum over the entries (i, j, data) of data G[i].

    Parameters
    ----------
    rows : Rows
        N rows of d columns.
    G : array (N, L)

    Returns
    -------
    array (d, L)

    Raises
    ------
    ValueError
        G does not have N rows.

    Notes
    -----
    Work and memory O(nnz L).
    """
    fits("G", G, rows.n)
    xp = array_namespace(G)
    return _index_add(xp, rows.width, rows.indices, rows.data[:, None] * xp.take(G, rows.row_ids(), axis=0))


def fits(name: str, x: Array, rows: int) -> None:
    """Raise ValueError unless x is a matrix with this number of rows."""
    if x.ndim != 2 or x.shape[0] != rows:
        raise ValueError(f"{name}: expected a matrix of {rows} rows, got shape {tuple(x.shape)}")


def _index_add(xp: Any, n: int, index: Array, values: Array) -> Array:
    """out (n, L) with out[index[e]] += values[e]; the array API has no scatter, so the libraries are named here."""
    out = xp.zeros((n, values.shape[1]), dtype=values.dtype, device=device(values))
    if is_numpy_namespace(xp):
        cells = (index[:, None] * values.shape[1] + np.arange(values.shape[1])).ravel()
        return np.bincount(cells, values.ravel(), out.size).reshape(out.shape).astype(values.dtype, copy=False)
    if is_torch_namespace(xp):
        return out.index_add_(0, index, values)
    if is_jax_namespace(xp):
        return out.at[index].add(values)
    if is_cupy_namespace(xp):
        xp.add.at(out, index, values)
        return out
    rows = [xp.sum(xp.where((index == i)[:, None], values, 0.0), axis=0) for i in range(n)]
    return xp.stack(rows) if rows else out
