"""Fused loops over packed data: the only files of this panel without a twin in the reference.

A *problem* (:mod:`accelerated.epochs.problems`) is a NamedTuple of packed arrays whose type says which oracle it needs.
The loops are written once, for any problem; ``numba.extending.overload`` picks the oracle by the problem's type when a loop is
compiled, so that it is inlined and found in the disk cache.

**Two speeds.** With exactly ``SequenceModel``, training and full gradients run here: ``Chain``, its functions and
``model.scores`` are not called at all. A subclass of the model gets the reference's loop over those functions instead.
"""
