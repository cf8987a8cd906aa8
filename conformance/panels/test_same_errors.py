"""Constructors of both panels reject the same arguments with the same error; a kernel checks them in one of the two."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import accelerated
import reference

UNARY = np.arange(12.0).reshape(4, 3)
PAIRWISE = np.arange(9.0).reshape(3, 3)
COUPLINGS = np.array([[[0.0, -1.0], [-1.0, 0.0]]] * 3)
ARGUMENTS = {
    "Chain": [UNARY, PAIRWISE],
    "Tree": [UNARY, PAIRWISE, np.array([-1, 0, 0, 1])],
    "Cut": [UNARY[:, :2], COUPLINGS, np.array([[0, 1], [1, 2], [2, 3]])],
    "Matching": [UNARY[:3]],
    "Arborescence": [UNARY[:3, :].repeat(2, 1)[:, :4]],
}


def variants(good):
    """The array itself, then arrays that differ in one respect: a value, the shape, the dtype, the memory."""
    yield good
    if good.dtype.kind == "f":
        for bad, place in itertools.product((np.nan, np.inf, -np.inf, 5.0), (0, good.size - 1)):
            one = good.copy()
            one.reshape(-1)[place] = bad
            yield one
        yield good.astype(np.float32)
    else:
        for bad in (-2, -1, 0, 1, 2, 99, 2**40):
            one = good.copy()
            one.reshape(-1)[-1] = bad
            yield one
        yield np.arange(good.size).reshape(good.shape)[::-1].copy()
        yield good.astype(np.int32)
    read_only = good.copy()
    read_only.setflags(write=False)
    yield from (good[..., :0], good[:0], good[0], good[None], good.astype(complex), good.astype(bool))
    yield from (np.asfortranarray(good), read_only, good.tolist(), None)


def error(module, name, arguments):
    try:
        getattr(module, name)(*arguments)
    except (TypeError, ValueError, IndexError) as problem:
        return type(problem), str(problem)
    return None


@pytest.mark.parametrize("name", ARGUMENTS)
def test_constructors_reject_the_same_with_the_same_words(name):
    """One or two arguments are wrong at once."""
    each = [list(variants(good)) for good in ARGUMENTS[name]]
    errors = set()
    for arguments in itertools.product(*each):
        if sum(one is not some[0] for one, some in zip(arguments, each, strict=True)) <= 2:
            expected = error(reference, name, arguments)
            assert error(accelerated, name, arguments) == expected, arguments
            errors.add(expected)
    assert None in errors and len(errors) >= 6  # some variants are right, and the wrong ones differ
