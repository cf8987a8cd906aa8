"""Mistake: when a cycle of tokens becomes one, heads from outside keep their scores, instead of what the cycle gains
with them.
"""

from types import SimpleNamespace

import numpy as np

import accelerated
import reference.structures.arborescence_max as oracles
from accelerated import *  # noqa: F403
from accelerated.structures import arborescence


def _maximum_arborescence(scores, single_root=False):
    values = oracles.host_values(scores)
    if not np.any(np.isfinite(values)):
        return arborescence.maximum_arborescence(scores, single_root)
    limited, undone = values, []
    heads = oracles.greedy_heads(limited, single_root)
    while heads is not None and len(cycle := oracles.find_cycle(heads)):
        smaller, contraction = oracles.contract(limited, heads, cycle)
        kept = np.concatenate([[0], contraction.kept + 1])
        outside = limited[cycle][:, kept]
        smaller[-1, :-1] = outside.max(axis=0)
        undone.append(contraction._replace(entered=cycle[outside.argmax(axis=0)]))
        limited = smaller
        heads = oracles.greedy_heads(limited, single_root)
    for contraction in reversed(undone):
        heads = oracles.expand(heads, contraction) if heads is not None else None
    if heads is None or (single_root and np.sum(heads == 0) > 1):
        return arborescence.maximum_arborescence(scores, single_root)
    place = arborescence.Place.of(scores.values)
    return place.floats(oracles.tree_score(values, heads)), place.integers(heads)


class Arborescence(accelerated.Arborescence):
    ops = SimpleNamespace(**{**vars(arborescence), "maximum_arborescence": _maximum_arborescence})

    def best(self):
        return self.ops.maximum_arborescence(self.scores, self.single_root)
