"""Compiled code, on shelves that mirror the reference's; below them ``arithmetic``, ``reductions``, ``sweeps`` and
``digits``: scalars and rows of padded arrays, written so that LLVM vectorises them.

* ``structures``: oracles over arrays, one example after another;
* ``prox``: thresholds and projections of rows, proxes of norms of groups;
* ``problems``: packed examples as NamedTuples, whose type says which oracle answers the questions of
  ``problems.oracles``;
* ``epochs``: full gradients and passes of the optimisers, which ask those questions and are written once for all
  problems;
* ``screening``: losses, scores and steps of sparse CRFs.
"""
