"""``python -m conformance [options] [FILE ...]``: hold backends to the laws; ``--help`` lists options and commands."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from conformance import options

HERE = Path(__file__).parent
COMMANDS = {
    "fuzz": "run the readers of files on inputs that a fuzzer makes",
    "identities": "print what the papers prove with residuals and slacks on drawn instances",
    "export": "write instances with exact answers as JSON, for libraries in any language",
}
MODULES = {
    "adapters": "hold other libraries to the laws",
    "counts": "print counted work beside its kept values",
    "golden": "compare runs of the learners with those recorded",
    "kept": "write files of this version, which later versions must read",
    "ledger": "print the claims ledger",
    "mutate": "list changes of the reference that no test notices",
}  # python -m conformance.NAME


def main(arguments: list[str] | None = None) -> int:
    """Run a command, or the suite."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        return int(importlib.import_module(f"conformance.{arguments[0]}").main(arguments[1:]))
    if {"-h", "--help"} & set(arguments):
        print(options.help_text(COMMANDS, MODULES))
        return 0
    return suite(arguments)


def suite(arguments: list[str]) -> int:
    """Run pytest over this package with its own plugin and settings, without leaving files."""
    if message := options.missing(arguments):
        print(message, file=sys.stderr)
        return 2
    import pytest

    chosen = any(os.path.exists(argument.split("::")[0]) for argument in arguments if not argument.startswith("-"))
    # where benchmark is installed, it warns as soon as there are several processes, and warnings are errors here
    plugins = ["-p", "conformance.plugin", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    ours = ["-c", str(HERE / "pytest.ini"), "--rootdir", str(HERE), *plugins, "-rN"]  # the plugin lists what failed
    return int(pytest.main([*ours, *arguments, *([] if chosen else [str(HERE)])]))


def script() -> int:
    """The installed script: a ``conformance.py`` in the current folder does not take the suite's place.

    Backends of one's own are still found there.
    """
    sys.path.append(os.getcwd())
    return main()


if __name__ == "__main__":
    sys.exit(main())
