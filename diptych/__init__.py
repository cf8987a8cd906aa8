"""The application around the panels: the command, the learners, files, pictures.

``diptych.commands`` is the command line, ``diptych.estimators`` has learners for scikit-learn, ``diptych.files`` reads
and writes files, ``diptych.pictures`` draws. The panel that computes is an argument; the algorithms are in
``reference`` and ``accelerated``.
"""

from diptych.installation import refuse_foreign as _refuse_foreign
from diptych.interrupts import handle as _handle_interrupts

_handle_interrupts()  # before the slow imports
_refuse_foreign(__file__, ("reference", "accelerated"))

# isort: split
from reference import __version__ as __version__
