"""Whether the packages of this installation are those that Python finds: their names are plain words, and Python looks
first in the folder where ``python -m`` is started.

Nothing is imported to find that out. This module needs no other of the package and nothing that takes long to import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec

__all__ = ["is_command", "refuse_foreign"]


def refuse_foreign(init: str, names: Iterable[str]) -> None:
    """End where one of the packages ``names`` is not beside that whose ``__init__.py`` is given, before it is run.

    Raises
    ------
    ImportError
        Naming both paths; where Python runs the package as a command, that is one line and status 2.
    """
    package = os.path.dirname(os.path.abspath(init))
    for name in names:
        found, expected = _found(name), os.path.join(os.path.dirname(package), name)
        if found is None or os.path.realpath(os.path.dirname(found)) == os.path.realpath(expected):
            continue
        problem = f"{package} belongs to {expected}, but Python finds another {name} first: {found}"
        if is_command(os.path.basename(package)):
            print(f"{problem}; start it in another folder, or rename that", file=sys.stderr)
            raise SystemExit(2)
        raise ImportError(problem, name=name)


def is_command(package: str) -> bool:
    """Whether Python imports this for the script of that name, or as the parent of the ``__main__`` that it was asked
    to run.
    """
    script, given = sys.argv[:1], sys.orig_argv
    if script == ["-m"]:
        return "-m" in given and given[given.index("-m") + 1].split(".")[0] == package
    return script != [] and os.path.basename(script[0]).removesuffix(".exe") == package


def _found(name: str) -> str | None:
    """The file that Python would run for a name; None if there is no such file."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    spec = find_spec(name)
    return None if spec is None else spec.origin
