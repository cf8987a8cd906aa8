from reference.boxes import *  # noqa: F403
from reference.boxes import __all__ as __all__
from reference.boxes import __doc__ as __doc__
