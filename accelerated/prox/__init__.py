"""Regularizers whose selections run as kernels."""

from accelerated.prox.composite import *  # noqa: F403
from accelerated.prox.grouped import *  # noqa: F403
from accelerated.prox.norms import *  # noqa: F403
from accelerated.prox.selection import *  # noqa: F403
from reference.prox import __all__ as __all__
