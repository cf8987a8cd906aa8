"""Mistake: pairwise scores are read as (label of the node, label of its parent)."""

import numpy as np

import accelerated
from accelerated import *  # noqa: F403
from accelerated.structures import tree
from conformance.meta import with_ops


def _max_product(scores):
    return tree.max_product(scores._replace(pairwise=np.swapaxes(scores.pairwise, -1, -2)))


Tree = with_ops(accelerated.Tree, max_product=_max_product)
