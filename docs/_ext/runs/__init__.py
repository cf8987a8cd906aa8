"""Algorithms that run on small instances, with a picture and a sentence for each step.

The states are those of the reference's own functions: variables while they run (:mod:`watch`), or states of the boxes.
A function's docstring is its page: the title, then the instance and the picture, with the values of ``{NAMES}``.
"""

from collections.abc import Callable

from drawing import Run

from runs import chains, plane, spaces, sparse

RUNS: dict[str, Callable[[], Run]] = {**chains.RUNS, **plane.RUNS, **spaces.RUNS, **sparse.RUNS}  # by its statement
