"""The suite: does a backend show the picture in the papers, and do two backends show the same?

``python -m conformance`` runs it on both panels; ``python -m conformance --backend my.module`` on a third.
"""

import importlib.util
import os

# by its path, because the name diptych may be a folder of the user's
_spec = importlib.util.spec_from_file_location(
    f"{__name__}.installation", os.path.join(os.path.dirname(os.path.dirname(__file__)), "diptych", "installation.py")
)
_installation = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_installation)
_installation.refuse_foreign(__file__, ("reference", "accelerated", "diptych"))
