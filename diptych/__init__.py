"""The application around the panels: the command, the learners, files, pictures.

``diptych.commands`` is the command line, ``diptych.estimators`` has learners for scikit-learn, ``diptych.files`` reads
and writes, ``diptych.pictures`` draws. Each takes the panel that computes as an argument; the algorithms
are in ``reference`` and ``accelerated``.
"""

from diptych.installation import refuse_foreign as _refuse_foreign
from diptych.interrupts import handle as _handle_interrupts

_handle_interrupts()  # before the imports that take long
_refuse_foreign(__file__, ("reference", "accelerated"))

# isort: split
from reference import __version__ as __version__
