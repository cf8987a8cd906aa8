"""Arrays that kernels allocate begin at cache lines, and numba is left as it was."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from accelerated.kernel import kernel
from accelerated.numba_inside import CACHE_LINE


@kernel
def room(n):
    return np.empty((n, 8)), np.zeros((n, 8)), np.empty(n + 3, np.uint8)


@kernel
def addresses(n):
    """Of arrays allocated by the kernel that Python calls and by a part of it, with a small array in between."""
    one, other, small = room(n)
    mine = np.empty((n, 8))
    return np.array([one.ctypes.data, other.ctypes.data, small.ctypes.data, mine.ctypes.data])


@kernel
def wrong(n):
    return n.no_such_field


def test_arrays_begin_at_cache_lines():
    kept = [room(1 + n % 7) for n in range(50)]  # memory of many sizes is in use
    assert all(x.ctypes.data % CACHE_LINE == 0 for arrays in kept for x in arrays)
    for n in range(1, 200):
        assert np.all(addresses(n) % CACHE_LINE == 0)


def test_numba_is_left_as_it_was():
    addresses(1)
    with pytest.raises(TypingError):
        wrong(1)
    assert "get_preferred_array_alignment" not in vars(cpu_target.target_context)
