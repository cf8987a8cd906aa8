"""Tables over the variables of cliques, flat in C order, and smaller arrays that are added to them or reduced from
them.

An array over some of a table's variables has a stride for each of the table's axes, 0 for a variable that it lacks.
Adjacent axes that form one axis of both arrays are one run. A walk goes along a table in blocks, the last run; a
mixed-radix counter over the other runs gives the place of the next block in the smaller array. Offsets, sizes and
strides are uint64, so that no index is tested for wrap-around.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.reductions import plus
from accelerated.compiled.sweeps import larger
from accelerated.kernel import inlined, kernel

__all__ = ["Walks", "add_along", "advance", "largest_along", "largest_of", "reduced", "sums_along"]

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


class Walks(NamedTuple):
    """Walk k has the runs first[k] : first[k + 1], outer ones first: their sizes in the table, and their strides in the
    smaller array.
    """

    first: np.ndarray  # int64
    size: np.ndarray
    stride: np.ndarray


@inlined
def advance(lo, hi, walks, digit, base):
    """The place of the next block; runs lo : hi, the last of which is the block. Digits are 0 before the first block
    and after the last.
    """
    for run in range(hi - 2, lo - 1, -1):
        base += walks.stride[run]
        digit[run - lo] += ONE
        if digit[run - lo] < walks.size[run]:
            return base
        base -= walks.size[run] * walks.stride[run]
        digit[run - lo] = ZERO
    return base


@inlined
def largest_of(table, first, last, x):
    """The largest of x and table[first:last]; four at a time, because each of a row of maxima waits for the one
    before.
    """
    m0 = m1 = m2 = m3 = x
    blocks = (last - first) >> TWO
    for b in range(blocks):
        i = first + (b << TWO)
        m0, m1 = larger(m0, table[i]), larger(m1, table[i + ONE])
        m2, m3 = larger(m2, table[i + TWO]), larger(m3, table[i + TWO + ONE])
    for i in range(first + (blocks << TWO), last):
        m0 = larger(m0, table[i])
    return larger(larger(m0, m1), larger(m2, m3))


@kernel
def add_along(k, walks, digit, source, base, table, first, last):
    """table[first:last] += source, which begins at base."""
    lo, hi = walks.first[k], walks.first[k + 1]
    block, step = walks.size[hi - 1], walks.stride[hi - 1]
    for i in range(first, last, block):
        if step == ZERO:
            x = source[base]
            for t in range(block):
                table[i + t] += x
        elif step == ONE:
            for t in range(block):
                table[i + t] += source[base + t]
        else:
            for t in range(block):
                table[i + t] += source[base + t * step]
        base = advance(lo, hi, walks, digit, base)


@kernel
def largest_along(k, walks, digit, table, first, last, out, base):
    """Raise the entries of out from ``base`` on to the largest of table[first:last] with each of their states."""
    lo, hi = walks.first[k], walks.first[k + 1]
    block, step = walks.size[hi - 1], walks.stride[hi - 1]
    for i in range(first, last, block):
        if step == ZERO:
            out[base] = largest_of(table, i, i + block, out[base])
        elif step == ONE:
            for t in range(block):
                out[base + t] = larger(out[base + t], table[i + t])
        else:
            for t in range(block):
                out[base + t * step] = larger(out[base + t * step], table[i + t])
        base = advance(lo, hi, walks, digit, base)


@kernel
def sums_along(k, walks, digit, table, first, last, out, base):
    """Add to the entries of out from ``base`` on the sums of table[first:last] with each of their states."""
    lo, hi = walks.first[k], walks.first[k + 1]
    block, step = walks.size[hi - 1], walks.stride[hi - 1]
    for i in range(first, last, block):
        if step == ZERO:
            x = 0.0
            for t in range(block):
                x = plus(x, table[i + t])
            out[base] += x
        elif step == ONE:
            for t in range(block):
                out[base + t] += table[i + t]
        else:
            for t in range(block):
                out[base + t * step] += table[i + t]
        base = advance(lo, hi, walks, digit, base)


@kernel
def reduced(mu, k, walks, digit, table, first, last, message, room):
    """message becomes the largest of table[first:last] with each of its states, or their log sum exp if mu > 0, minus
    its own largest entry. Returns that entry.

    room: for a table and two messages.
    """
    for j in range(len(message)):
        message[j] = -np.inf
    largest_along(k, walks, digit, table, first, last, message, ZERO)
    if mu > 0.0:
        weights, shift, masses = room
        for j in range(len(message)):
            shift[j], masses[j] = -message[j] if message[j] > -np.inf else 0.0, 0.0
        n = last - first
        for i in range(n):
            weights[i] = table[first + i]
        add_along(k, walks, digit, shift, ZERO, weights, ZERO, n)
        for i in range(n):
            weights[i] = exp(weights[i])
        sums_along(k, walks, digit, weights, ZERO, n, masses, ZERO)
        for j in range(len(message)):
            if message[j] > -np.inf:
                message[j] += np.log(masses[j])
    top = largest_of(message, ZERO, np.uint64(len(message)), -np.inf)
    if top > -np.inf:
        for j in range(len(message)):
            message[j] -= top
    return top
