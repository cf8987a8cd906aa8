"""The array layer of the fast panel: the two sparse primitives as kernels, and views of other libraries' CPU arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array

import accelerated.compiled.rows as kernels
import reference.arrays
from accelerated.mirror import mirrors
from reference.arrays import Array, Place, Rows, concrete, fits
from reference.packed import check_range

__all__ = ["Place", "Rows", "gather_sum", "scatter_sum"]

FLOAT = np.dtype(np.float64)


def view(name: str, x: Array, dtype: Any = np.float64) -> np.ndarray:
    """An array in host memory as a C-contiguous NumPy array, copied only to change dtype or layout (None: keep the
    dtype). Device arrays raise TypeError.
    """
    if dtype is not None and ready(x, dtype):
        return x
    x = np.ascontiguousarray(in_memory(name, x), dtype=dtype)
    return x if x.flags.writeable else np.asarray(_Unlocked(x))


def in_memory(name: str, x: Array) -> np.ndarray:
    """An array in host memory as one of NumPy, never copied. Device arrays raise TypeError."""
    if not is_numpy_array(x):
        if not concrete(x):
            raise TypeError(
                f"{name}: kernels need numbers, got a tracer of JAX ({type(x).__name__}); reference is traced"
            )
        if "cpu" not in str(device(x)).lower():
            raise TypeError(
                f"{name}: kernels run on the CPU, got {type(x).__name__} on {device(x)}; reference computes there"
            )
        if getattr(x, "requires_grad", False):
            raise TypeError(
                f"{name}: kernels leave PyTorch's graph, and the tensor requires a gradient; diptych.layers.torch has "
                "layers with derivatives (detach() would cut the gradient)"
            )
        x = np.from_dlpack(x)
    return x


class _Unlocked:
    """A writable view of a read-only array. Kernels do not write to their arguments, and a read-only type would compile
    them a second time.
    """

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        self.__array_interface__ = {**x.__array_interface__, "data": (x.__array_interface__["data"][0], False)}


def numbers(name: str, x: Array, below: int) -> np.ndarray:
    """Integers of packed data that index arrays in a kernel. Arrays of other libraries cannot be made read-only, so
    their range is checked again.
    """
    indices = view(name, x, np.int64)
    if not is_numpy_array(x):
        check_range(name, indices, 0, below)
    return indices


def ready(x: Any, dtype: Any = FLOAT) -> bool:
    """Whether kernels take this as it is: a writable array of NumPy in C order, of this dtype."""
    return type(x) is np.ndarray and x.dtype == dtype and x.flags.carray


def are_sound(*arrays: Any) -> bool:
    """Whether these are :func:`ready` and hold scores, finite or -inf. If not, the reference's constructor converts
    them, or says what is wrong."""
    for x in arrays:  # noqa: SIM110 all() of a generator takes longer
        if not (ready(x) and kernels.without_nan_and_inf(x.ravel())):
            return False
    return True


def are_whole(x: Any, shape: tuple[int, ...]) -> bool:
    """Whether x is an int64 array of NumPy of this shape."""
    return type(x) is np.ndarray and x.dtype == np.int64 and x.shape == shape


def like(x: np.ndarray, original: Array) -> Array:
    """A kernel's result in the namespace and floating dtype of ``original``."""
    if type(original) is np.ndarray and (original.dtype == FLOAT or x.dtype != FLOAT):
        return x
    xp = array_namespace(original)
    if x.dtype == np.float64 and original.dtype == xp.float32:
        x = x.astype(np.float32)
    return x if is_numpy_array(original) else xp.asarray(x)


def entries(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of sparse rows, as kernels take them: indptr, indices and data, (1,) if one is broadcast to all."""
    indices, data = numbers("rows.indices", rows.indices, rows.width), in_memory("rows.data", rows.data)
    one = data[:1] if data.strides == (0,) else data
    return view("rows.indptr", rows.indptr, np.int64), indices, view("rows.data", one)


@mirrors(reference.arrays.gather_sum)
def gather_sum(rows: Rows, W: Array) -> Array:
    fits("W", W, rows.width)
    out = np.zeros((rows.n, W.shape[1]))
    kernels.gather_sum(*entries(rows), view("W", W), out)
    return like(out, W)


@mirrors(reference.arrays.scatter_sum)
def scatter_sum(rows: Rows, G: Array) -> Array:
    fits("G", G, rows.n)
    out = np.zeros((rows.width, G.shape[1]))
    kernels.scatter_sum(*entries(rows), view("G", G), out)
    return like(out, G)
