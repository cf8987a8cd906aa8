"""The array layer of the fast panel: the two sparse primitives as kernels, and views of other libraries' CPU arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array

import reference.arrays
from accelerated.kernel import kernel
from accelerated.mirror import mirrors
from reference.arrays import Array, Place, Rows, fits

__all__ = ["Place", "Rows", "gather_sum", "scatter_sum"]


def view(name: str, x: Array, dtype: Any = np.float64) -> np.ndarray:
    """An array in host memory as a C-contiguous NumPy array, copied only to change dtype or layout; no device arrays."""
    if not is_numpy_array(x):
        if "cpu" not in str(device(x)).lower():
            raise TypeError(
                f"{name}: kernels run on the CPU, got {type(x).__name__} on {device(x)}; reference computes there"
            )
        x = np.from_dlpack(x)
    return np.ascontiguousarray(x, dtype=dtype)


def like(x: np.ndarray, original: Array) -> Array:
    """A kernel's answer in the namespace and floating dtype of what came in."""
    xp = array_namespace(original)
    if x.dtype == np.float64 and original.dtype == xp.float32:
        x = x.astype(np.float32)
    return x if is_numpy_array(original) else xp.asarray(x)


@mirrors(reference.arrays.gather_sum)
def gather_sum(rows: Rows, W: Array) -> Array:
    fits("W", W, rows.width)
    out = np.zeros((rows.n, W.shape[1]))
    _gather_sum(rows.indptr, view("rows", rows.indices, np.int64), view("rows", rows.data), view("W", W), out)
    return like(out, W)


@mirrors(reference.arrays.scatter_sum)
def scatter_sum(rows: Rows, G: Array) -> Array:
    fits("G", G, rows.n)
    out = np.zeros((rows.width, G.shape[1]))
    _scatter_sum(rows.indptr, view("rows", rows.indices, np.int64), view("rows", rows.data), view("G", G), out)
    return like(out, G)


@kernel
def _gather_sum(indptr, indices, data, W, out):
    """out (N, L) += rows @ W (d, L), all C order."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], data[e]
            for label in range(W.shape[1]):
                out[i, label] += x * W[j, label]


@kernel
def _scatter_sum(indptr, indices, data, G, out):
    """out (d, L) += rows.T @ G (N, L), all C order."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], data[e]
            for label in range(G.shape[1]):
                out[j, label] += x * G[i, label]
