"""Structures as layers of programs in PyTorch (:mod:`diptych.layers.torch`) and JAX (:mod:`diptych.layers.jax`)."""
