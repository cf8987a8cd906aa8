"""Python's search for cycles of objects, left out while the command starts and when it ends.

Modules and what they define live as long as the process. To search them again and again while they are imported, and
once more at the end, takes a third of a short command.
"""

from __future__ import annotations

import atexit
import gc


def pause() -> None:
    """Search for no cycles until :func:`resume`, nor when Python ends."""
    gc.disable()
    atexit.register(gc.freeze)


def resume() -> None:
    """Search from now on, but not what there is already. Nothing changes in a process that has not paused."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
