"""Sums of several threads: added in the order of the pieces, with few of them in memory at a time."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from accelerated.threads import set_num_threads, summed_in_parallel

PIECES = [(i, i + 1) for i in range(8)]


@pytest.fixture(autouse=True)
def _two_threads():
    set_num_threads(2)
    yield
    set_num_threads(None)


def test_sums_do_not_depend_on_which_piece_ends_first(rng):
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
    assert results == list(range(8))
    np.testing.assert_array_equal(total, expected)
    assert len(made) <= 3


def test_an_error_of_one_piece_does_not_make_others_wait():
    def work(lo, hi, sums):
        if lo == 2:
            raise ValueError("piece 2")

    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="piece 2"):
        pool.submit(summed_in_parallel, work, PIECES, lambda: (np.zeros(1),)).result(timeout=60)
