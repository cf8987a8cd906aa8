"""Online multiple kernel learning; the epochs that a model of this panel compiles are in ``accelerated.kernel_epochs``."""

from __future__ import annotations

from reference.online_mkl import MKLResult, mkl

__all__ = ["MKLResult", "mkl"]
