"""Mistake: the sum over trees of a single root takes in those of several roots."""

import accelerated
from accelerated import *  # noqa: F403
from accelerated.structures import arborescence
from conformance.meta import with_ops


def _tree_partition(scores, mu=1.0, single_root=False):
    return arborescence.tree_partition(scores, mu, False)


Arborescence = with_ops(accelerated.Arborescence, tree_partition=_tree_partition)
