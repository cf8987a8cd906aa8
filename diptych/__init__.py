"""The application around the panels: the command, the learners, files, pictures.

``diptych.commands`` is the command line, ``diptych.estimators`` has learners for scikit-learn, ``diptych.files`` reads
and writes files, ``diptych.pictures`` draws. The panel that computes is an argument; the algorithms are in
``reference`` and ``accelerated``.
"""

from diptych.collector import pause as _pause_collector
from diptych.installation import is_command as _is_command
from diptych.installation import refuse_foreign as _refuse_foreign

if _is_command("diptych"):
    _pause_collector()
try:
    from diptych.interrupts import handle as _handle_interrupts

    _handle_interrupts()  # before the slow imports
except KeyboardInterrupt:  # while Python imports signal
    if not _is_command("diptych"):
        raise
    import os as _os

    _os.write(2, b"interrupted\n")
    _os._exit(130)
_refuse_foreign(__file__, ("reference", "accelerated"))

# isort: split
from reference import __version__ as __version__
