"""Compiled code without a twin in the reference, from the bottom up.

* ``arithmetic``, ``sweeps``: scalars and rows of padded arrays, written so that LLVM vectorises them;
* ``chains``, ``log_chains``: max-product and sum-product, one chain after another;
* ``k_best``, ``top_k``: the best labellings of a chain and max-marginals; weights on the best labellings;
* ``trees``, ``tree_k_best``: the same for rooted trees, all of one form;
* ``work``, ``oracles``: room for one sequence and its scores; what a packed problem answers, one body for each type;
* ``max_problem``, ``entropy_problem``, ``top_k_problem``: packed data as NamedTuples whose type says which oracle they need, and the
  bodies; ``problems`` is all of them under one name;
* ``loops``: full gradients, epochs of an optimiser, tagging; each written once for all problems.

**Two speeds.** With exactly ``SequenceModel`` or ``TaggingModel``, training, full gradients and predictions run in ``loops``: ``Chain``, its functions
and ``model.scores`` are not called at all. A subclass of the model gets the reference's loop over those functions instead.
"""
