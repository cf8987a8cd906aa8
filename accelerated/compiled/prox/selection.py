"""One threshold for all numbers of a row, by selection: expected linear time, no sort.

With v = |x| or x, shifted by a ``View``, and weights d (all 1 if None), tau is the root of

    g(t) = w sum_i d_i max(v_i - d_i t, 0) - r - c t          (``Level``; a floor of tau is known)

which is convex and decreasing. For simplex and l1 ball, (w, c, r) = (1, 0, radius); for squared l1, (lam, 1, 0) up to a
power of two. So the root of a tangent, ``root`` of the sums above any t, is at most tau (Newton's method; from the
floor, Michelot's).

1. A sample of the row gives a guess, and the sums above it a tangent, whose root is close to tau and never above it.
2. One sweep adds up the numbers above a narrow bracket and keeps those inside it: usually a handful.
3. Among those, Newton's method from below, with occasional random pivots, so that no input takes more than a few
sweeps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.reductions import only_if, plus
from accelerated.kernel import inlined, kernel

__all__ = ["Level", "View", "split_root", "sums_at_root"]

HUGE = np.finfo(np.float64).max
BLOCK = 256  # numbers summed together; a block without a number inside the bracket is not read again
SAMPLE = 8192


class Level(NamedTuple):
    """w sum_i d_i max(v_i - d_i t, 0) = r + c t."""

    w: float
    c: float
    r: float
    floor: float  # tau is at least this, whatever the equation says


class View(NamedTuple):
    """v_i = x_i - shift, or |x_i| - shift if the sign bit is not among ``bits``."""

    bits: int
    shift: float


PLAIN, MAGNITUDE = -1, 2**63 - 1
AS_IT_IS = View(PLAIN, 0.0)


@inlined
def number(x, i, view):
    return np.int64(np.float64(x[i]).view(np.int64) & view.bits).view(np.float64) - view.shift


@inlined
def weight(d, i):
    if d is None:
        return 1.0
    return d[i]


@inlined
def root(level, S, M):
    """The root of the tangent with sums S = sum d v and M = sum d^2, or the floor."""
    t = (level.w * S - level.r) / (level.c + level.w * M)
    return t if t > level.floor else level.floor


@kernel
def sums_above(x, d, n, view, t):
    """sum d v, sum d^2 and the number of the first n with v > d t."""
    S = M = count = 0.0
    for b in range((n + 4095) // 4096):
        first, size = np.uint64(4096 * b), np.uint64(min(4096, n - 4096 * b))
        s = m = k = 0.0
        for e in range(size):
            v, a = number(x, first + e, view), weight(d, first + e)
            s = plus(s, only_if(v > a * t, a * v))
            k = plus(k, only_if(v > a * t, 1.0))
            if d is not None:
                m = plus(m, only_if(v > a * t, a * a))
        S, M, count = S + s, M + m, count + k
    return S, M if d is not None else count, count


@kernel
def keep_between(x, d, n, view, low, high, v_kept, d_kept):
    """The sums of those above high. Those with d low < v <= d high go to v_kept and d_kept; returns their number, too.

    v_kept and d_kept may be x and d.
    """
    S = M = count = 0.0
    kept = np.uint64(0)
    for b in range((n + BLOCK - 1) // BLOCK):
        first, size = np.uint64(BLOCK * b), np.uint64(min(BLOCK, n - BLOCK * b))
        s = m = k = inside = 0.0
        for e in range(size):
            v, a = number(x, first + e, view), weight(d, first + e)
            s = plus(s, only_if(v > a * high, a * v))
            k = plus(k, only_if(v > a * high, 1.0))
            inside = plus(inside, only_if(v > a * low, 1.0))
            if d is not None:
                m = plus(m, only_if(v > a * high, a * a))
        S, M, count = S + s, M + m, count + k
        if inside > k:
            for e in range(size):
                v, a = number(x, first + e, view), weight(d, first + e)
                v_kept[kept] = v
                if d_kept is not None:
                    d_kept[kept] = a
                kept += np.uint64(v > a * low) - np.uint64(v > a * high)
    return S, M if d is not None else count, count, np.int64(kept)


@kernel
def select(v, d, n, level, over, low, sums):
    """S, M of all numbers with v > d tau: among the first n, which are all those between low <= tau and an upper bound,
    and those above the bound.

    over: S, M and the number above the bound; sums: S, M and the number above low.
    low is the root of S, M, the sums of that many numbers, or the floor (then S = M = size = 0). v and d are
    overwritten.
    Newton's method from below ends when a step leaves its set unchanged; sets only shrink, so their sizes tell.
    Rounding may end it earlier, by a step of length 0; then the sums before that step are those of the larger root.
    """
    (S_above, M_above, above), (S, M, size) = over, sums
    t = low
    state = np.uint64(88172645463325252)
    step = 0
    while True:
        step += 1
        S_new, M_new, k = sums_above(v, d, n, AS_IT_IS, t)
        S_new, M_new = S_new + S_above, M_new + M_above
        new = root(level, S_new, M_new) if M_new > 0.0 else t
        if (k + above == size or not new > t) and d is not None:
            # a large weight at its threshold hides the others in these sums, so leave it out
            beyond = t * (1.0 + 1e-15)
            S_new, M_new, k = sums_above(v, d, n, AS_IT_IS, beyond)
            S_new, M_new = S_new + S_above, M_new + M_above
            new = root(level, S_new, M_new) if M_new > 0.0 else t
            if not new > beyond:
                return S, M
        elif k + above == size or not new > t:
            return S, M
        t, S, M, size = new, S_new, M_new, k + above
        if 2.0 * k < n:
            _, _, _, n = keep_between(v, d, n, AS_IT_IS, t, HUGE, v, d)
        if step % 8 == 0 and n > 0:
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            i = np.uint64(state % np.uint64(n))
            pivot = v[i] / weight(d, i)
            S_new, M_new, k = sums_above(v, d, n, AS_IT_IS, pivot)
            S_new, M_new = S_new + S_above, M_new + M_above
            new = root(level, S_new, M_new) if M_new > 0.0 else level.floor
            if new > t:
                t, S, M, size = new, S_new, M_new, k + above
            if new <= pivot:
                S_above, M_above, above = S_new, M_new, k + above
                _, _, _, n = keep_between(v, d, n, AS_IT_IS, t, pivot, v, d)
            else:
                _, _, _, n = keep_between(v, d, n, AS_IT_IS, t, HUGE, v, d)


@kernel
def guess(x, d, view, level, v, a):
    """An estimate of tau from a sample of the row; v and a are scratch."""
    n, size = len(x), min(SAMPLE, len(x) // 16)
    stride = n // size
    for j in range(size):
        offset = (np.uint64(j) * np.uint64(11400714819323198485) >> np.uint64(40)) % np.uint64(stride)
        i = np.uint64(j * stride) + offset
        v[j] = number(x, i, view)
        if a is not None:
            a[j] = weight(d, i)
    share = Level(level.w * (n / size), level.c, level.r, level.floor)
    S, M, _, size = keep_between(v, a, size, AS_IT_IS, share.floor, HUGE, v, a)
    S, M = select(v, a, size, share, (0.0, 0.0, 0.0), share.floor, (0.0, 0.0, 0.0))
    return root(share, S, M) if M > 0.0 else share.floor


@kernel
def sums_at_root(x, d, view, level, v, a):
    """S, M of all with v > d tau; v and a (a None where d is) are scratch of the length of x."""
    n = len(x)
    low, S_low, M_low, size = level.floor, 0.0, 0.0, 0.0
    if n >= 16384:
        t = guess(x, d, view, level, v, a)
        S, M, count = sums_above(x, d, n, view, t)
        for _ in range(6):
            new = root(level, S, M) if M > 0.0 else level.floor
            if new > low:
                low, S_low, M_low, size = new, S, M, count
            if 1024.0 * count <= n and low >= t:
                break
            high = low + 0.0625 * abs(low - t) + 1e-14 * abs(low)
            S, M, count, kept = keep_between(x, d, n, view, low, high, v, a)
            if M == 0.0 or root(level, S, M) <= high:
                return select(v, a, kept, level, (S, M, count), low, (S_low, M_low, size))
            t = high
    S, M, count, kept = keep_between(x, d, n, view, low, HUGE, v, a)
    return select(v, a, kept, level, (S, M, count), low, (S_low, M_low, size))


@kernel
def split_root(level, S, M):
    """tau = high + low to about 32 digits: a number at the threshold is not decided by the rounding of tau."""
    w, c, r = level.w, level.c, level.r
    den = c + w * M
    high = (w * S - r) / den
    if not high > level.floor:
        return level.floor, 0.0
    low = 0.0
    for _ in range(2):
        high += low
        # w (S - M high) - c high - r, where the first difference may cancel
        product = M * high
        left = S - product
        gone = ((S - left) - product if abs(S) > abs(product) else S - (left + product)) - muladd(M, high, -product)
        scaled = w * left
        rest = muladd(w, left, -scaled) + w * gone
        first = scaled - r
        rest += (scaled - first) - r if abs(scaled) > abs(r) else scaled - (first + r)
        second = first - c * high
        rest += (first - second) - c * high if abs(first) > abs(c * high) else first - (second + c * high)
        low = (second + rest - muladd(c, high, -(c * high))) / den
    return high, low
