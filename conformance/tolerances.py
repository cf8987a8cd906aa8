"""How close is equal: one table, by dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

RELATIVE = {"float64": 1e-9, "float32": 2e-4}


def close(got: Any, expected: Any, dtype: str = "float64", scale: float | None = None) -> None:
    """Assert equality up to the dtype's tolerance, relative to the largest finite magnitude expected (or ``scale``)."""
    got, expected = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    finite = np.abs(expected[np.isfinite(expected)])
    size = max(1.0, float(finite.max(initial=0.0)) if scale is None else scale)
    np.testing.assert_allclose(got, expected, rtol=RELATIVE[dtype], atol=RELATIVE[dtype] * size)
