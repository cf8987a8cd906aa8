"""The values of sparse rows: ``data`` (nnz,) holds one for each entry, or (1,) one for all of them."""

from __future__ import annotations

from accelerated.kernel import inlined

__all__ = ["entry"]


@inlined
def entry(data, e):
    """The value of entry e."""
    return data[min(e, len(data) - 1)]
