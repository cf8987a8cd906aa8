"""Work that does not depend on the machine's load: oracle calls to a gap, and how often the top-K strategy is certified
exact. One rng, 1,000 words.
"""

from __future__ import annotations

import accelerated
from benchmarks import problems

SMOOTHINGS = {
    "entropy": accelerated.smoothings.Entropy(),
    "squared l2": accelerated.smoothings.SquaredL2(),
    "top-5": accelerated.smoothings.TopK(5),
}


def hinge(smoothing=None):
    """The structural hinge over 1,000 words."""
    plain = problems.objective("accelerated", "StructuralHinge", 1000)
    return accelerated.StructuralHinge(plain.model, plain.data, smoothing=smoothing)


class Casimir:
    """The unsmoothed hinge by Casimir with its default settings."""

    params = list(SMOOTHINGS)
    param_names = ("smoothing",)
    timeout = 300
    unit = "oracle calls"

    def track_calls_to_twenty_percent(self, smoothing):
        run = accelerated.casimir(hinge(SMOOTHINGS[smoothing]), lam=0.01, tol=0.2, epochs=200, rng=0)
        return run.oracle_calls if run.success else float("nan")


class BlockFrankWolfe:
    """The same by block-coordinate Frank-Wolfe, with and without working sets."""

    params = [0, 3]
    param_names = ("cached passes",)
    timeout = 300
    unit = "oracle calls"

    def track_calls_to_one_percent(self, cached_passes):
        run = accelerated.bcfw(hinge(), lam=0.01, tol=0.01, cached_passes=cached_passes, epochs=300, rng=0)
        return run.oracle_calls if run.success else float("nan")


class ExactCalls:
    """The share of words whose smoothed max Proposition 4 certifies, after five passes of Casimir at mu = 0.5."""

    params = ["squared l2", "top-5"]
    param_names = ("smoothing",)
    timeout = 300
    unit = "share"

    def track_share_of_exact_calls(self, smoothing):
        run = accelerated.casimir(hinge(SMOOTHINGS[smoothing]), lam=0.01, mu=0.5, epochs=5, rng=0)
        return run.history[-1].exact
