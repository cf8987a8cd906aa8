"""Sparse CRFs with safe screening: the elastic-net problem, rules that prove weights to be 0, solvers, paths.
Source: Zhang and Qiu.
"""

import reference.screening.known  # noqa: F401, registers the bounds of this package's models
