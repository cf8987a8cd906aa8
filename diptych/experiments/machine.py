"""The versions and the machine of a measurement, for its record."""

from __future__ import annotations

import os
import platform
from typing import Any

import numba
import numpy as np

import reference


def versions() -> dict[str, Any]:
    """The versions and the machine, as JSON-able values."""
    return {
        "diptych": reference.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
