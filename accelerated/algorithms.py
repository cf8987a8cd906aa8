from reference.algorithms import *  # noqa: F403
from reference.algorithms import __all__ as __all__
from reference.algorithms import __doc__ as __doc__
