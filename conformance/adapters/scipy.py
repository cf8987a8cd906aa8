"""SciPy: the best matching by ``linear_sum_assignment``."""

from __future__ import annotations

import numpy as np

PACKAGE, MODULE = "scipy", "scipy"
MAPPING = {"Matching": "`optimize.linear_sum_assignment(values, maximize=True)`."}
KNOWN: dict[str, str] = {}


class Matching:
    def __init__(self, values):
        self.values = values

    def best(self):
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(self.values, maximize=True)
        y = np.full(len(self.values), -1)
        y[rows] = columns
        return self.values[rows, columns].sum(), y
