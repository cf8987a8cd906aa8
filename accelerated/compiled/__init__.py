"""Compiled code, in folders that mirror the reference's. Beside them, ``arithmetic``, ``reductions``, ``sweeps`` and
``digits`` hold scalars and rows of padded arrays, written so that LLVM vectorises them.

* ``structures``: oracles over arrays, one example after another;
* ``prox``: thresholds and projections of rows, proxes of norms of groups;
* ``problems``: packed examples as NamedTuples; the type of a problem determines which oracle answers the questions of
  ``problems.oracles``;
* ``epochs``: full gradients and passes of the optimisers; they ask those questions, and are written once for all
  problems;
* ``screening``: losses, scores and steps of sparse CRFs.
"""
