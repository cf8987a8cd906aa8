"""Check that Python finds the packages of this installation and not others of the same name.

The names are common words, and ``python -m`` looks first in the current folder. The check imports no package. This
module uses no other module of the package and imports nothing slow.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterable


def refuse_foreign(init: str, names: Iterable[str]) -> None:
    """Check that the packages ``names`` are beside the package whose ``__init__.py`` is given, before they run.

    Raises
    ------
    ImportError
        Another package was found; the message names both paths.
    SystemExit
        The same if Python runs the package as a command: one line on stderr and status 2.
    """
    package = os.path.dirname(os.path.abspath(init))
    for name in names:
        file, expected = _file_of(name), os.path.join(os.path.dirname(package), name)
        if file is None or os.path.realpath(os.path.dirname(file)) == os.path.realpath(expected):
            continue
        problem = f"{package} belongs to {expected}, but Python finds another {name} first: {file}"
        if is_command(os.path.basename(package)):
            print(f"{problem}; start it in another folder, or rename that", file=sys.stderr)
            raise SystemExit(2)
        raise ImportError(problem, name=name)


def is_command(package: str) -> bool:
    """Whether Python runs the script of that name, or ``python -m`` with that package."""
    script, arguments = sys.argv[:1], sys.orig_argv
    if script == ["-m"]:
        return "-m" in arguments and arguments[arguments.index("-m") + 1].split(".")[0] == package
    return script != [] and os.path.basename(script[0]).removesuffix(".exe") == package


def _file_of(name: str) -> str | None:
    """The file that Python would run for a package, or None."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    from importlib.util import find_spec

    spec = find_spec(name)
    return None if spec is None else spec.origin
