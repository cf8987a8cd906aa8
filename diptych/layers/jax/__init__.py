"""Structures as layers of JAX programs: chains here, dependency trees in :mod:`arborescence`.

Needs JAX: ``pip install "diptych[jax]"``.
"""

from diptych.layers.jax import arborescence, chain
from diptych.layers.jax.chain import *  # noqa: F403

__all__ = [*chain.__all__, "arborescence"]
