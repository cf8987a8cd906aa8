"""ufal.chu_liu_edmonds: the best dependency tree by TurboParser's Chu-Liu/Edmonds."""

from __future__ import annotations

import numpy as np

PACKAGE, MODULE = "ufal.chu-liu-edmonds", "ufal.chu_liu_edmonds"
MAPPING = {
    "Arborescence": "`chu_liu_edmonds(scores)`, whose first row and column are the root's; a forbidden arc is nan, as "
    "its documentation says."
}
KNOWN: dict[str, str] = {}


class Arborescence:
    def __init__(self, values):
        self.values = values

    def best(self):
        from ufal.chu_liu_edmonds import chu_liu_edmonds

        scores = np.full((len(self.values) + 1,) * 2, np.nan)
        scores[1:] = np.where(self.values == -np.inf, np.nan, self.values)
        heads, value = chu_liu_edmonds(scores)
        return value, np.array(heads[1:])
