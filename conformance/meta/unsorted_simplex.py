"""Mistake: the projection onto the simplex takes prefixes of the numbers as they come, not sorted."""

import numpy as np

from accelerated import *  # noqa: F403
from accelerated import project_simplex as _right


def project_simplex(x, radius=1.0, *, out=None):
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 1:
        return _right(x, radius, out=out)
    theta = (np.cumsum(x) - radius) / np.arange(1, len(x) + 1)
    return np.maximum(x - theta[np.flatnonzero(x > theta)[-1]], 0.0) if np.any(x > theta) else _right(x, radius)
