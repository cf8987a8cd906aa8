"""Structures as layers of PyTorch programs: chains here, others in :mod:`tree`, :mod:`arborescence`, :mod:`matching`.

Needs PyTorch: ``pip install "diptych[torch]"``. On the CPU a call is one call of a kernel for the whole batch, over
``torch.get_num_threads()`` threads; elsewhere PyTorch computes on the device.
"""

from diptych.layers.torch import arborescence, chain, matching, tree
from diptych.layers.torch.chain import *  # noqa: F403
from diptych.layers.torch.modules import ChainCRF, DependencyCRF

__all__ = [*chain.__all__, "ChainCRF", "DependencyCRF", "arborescence", "matching", "tree"]
