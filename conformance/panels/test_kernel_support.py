"""What kernels stand on: arrays that begin at cache lines, sums of several threads, values that live as long as their
owner."""

from __future__ import annotations

import gc
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from accelerated.compiled.structures.chain import viterbi_range
from accelerated.kept import Kept
from accelerated.kernel import TRIED, kernel, kernels_are_plain
from accelerated.numba_inside import CACHE_LINE
from accelerated.threads import set_num_threads, summed_in_parallel

# cache lines ----------------------------------------------------------------------------------------------------------


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


def test_arrays_begin_at_cache_lines_and_numba_is_left_as_it_was():
    kept = [room(1 + n % 7) for n in range(50)]  # memory of many sizes is in use
    assert all(x.ctypes.data % CACHE_LINE == 0 for arrays in kept for x in arrays)
    for n in range(1, 200):
        assert np.all(addresses(n) % CACHE_LINE == 0)
    with pytest.raises(TypingError):
        wrong(1)
    assert "get_preferred_array_alignment" not in vars(cpu_target.target_context)


def release(version):
    return [int(digits) for digits in re.findall(r"\d+", version)[:3]]


def test_versions_that_were_tried_need_no_plain_kernels():
    """A newer version must be plain or fast, and is what the rest of the suite runs on."""
    plain = type(viterbi_range) is type(numba.njit(release))
    assert plain == kernels_are_plain()
    if release(numba.__version__) <= release(TRIED):
        assert plain == (os.environ.get("DIPTYCH_PLAIN_KERNELS", "0") == "1")


# threads --------------------------------------------------------------------------------------------------------------

PIECES = [(i, i + 1) for i in range(8)]


@pytest.fixture
def _two_threads():
    set_num_threads(2)
    yield
    set_num_threads(None)


@pytest.mark.usefixtures("_two_threads")
def test_sums_do_not_depend_on_which_piece_ends_first(rng):
    """They are added in the order of the pieces, with few of them in memory at a time."""
    x, second, made = rng.normal(size=(8, 50)) * 10.0 ** rng.integers(-8, 8, (8, 50)), Event(), []

    def zeros():
        made.append((np.zeros(50),))
        return made[-1]

    def work(lo, hi, sums):
        if lo == 0:
            second.wait()
        sums[0][:] += x[lo]
        if lo == 1:
            second.set()
        return lo

    results, (total,) = summed_in_parallel(work, PIECES, zeros)
    expected = np.zeros(50)
    for row in x:
        expected += row
    assert results == list(range(8)) and len(made) <= 3
    np.testing.assert_array_equal(total, expected)


@pytest.mark.usefixtures("_two_threads")
def test_an_error_of_one_piece_does_not_make_others_wait():
    def work(lo, hi, sums):
        if lo == 2:
            raise ValueError("piece 2")

    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="piece 2"):
        pool.submit(summed_in_parallel, work, PIECES, lambda: (np.zeros(1),)).result(timeout=60)


# values that are kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Owner:
    """Equal to others, and without a hash."""

    x: np.ndarray


def test_a_value_is_made_once_and_goes_with_its_owner():
    kept, made = Kept(), iter(range(9))
    one, other = Owner(np.zeros(2)), Owner(np.zeros(2))
    for _ in range(2):
        assert kept.once(one, lambda: next(made)) == 0 and kept.once(other, lambda: next(made)) == 1
    assert kept.put(one, 7) == kept.get(one) == 7 and kept.get(other) == 1
    del one
    gc.collect()
    assert kept._values == {id(other): 1}
    del other
    gc.collect()
    assert not kept._values and kept.get(Owner(np.zeros(2))) is None
