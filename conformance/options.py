"""The suite's own options: their definitions for pytest, and the help that shows them first."""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
from typing import Any

__all__ = ["OPTIONS", "TIERS", "help_text", "missing", "seed_of"]

TIERS = ("first", "rest", "all")

INTEGER: dict[str, Any] = {"type": int, "metavar": "N"}
OPTIONS: dict[str, dict[str, Any]] = {
    "--backend": {
        "action": "append",
        "default": [],
        "metavar": "MODULE",
        "help": "a module with the API, or a backend that an installed package offers by the entry point "
        "diptych.backends (repeatable; default: both panels)",
    },
    "--tier": {
        "choices": TIERS,
        "default": "all",
        "help": "first: every law, on few instances, on NumPy in float64, without the tests marked beyond; rest: what "
        "first leaves out, any two values of its parameters together, "
        "and a fifth of the instances in other namespaces and dtypes (default: all)",
    },
    "--namespace": {
        "action": "append",
        "default": [],
        "metavar": "NAME",
        "help": "run only on this namespace, such as torch (repeatable; default: all that are installed)",
    },
    "--device": {
        "help": "the device of each --namespace, in its library's words, such as cuda (default: cpu)",
    },
    "--examples": {
        **INTEGER,
        "help": "draw N random instances a test, from --seed (default: 16, in the tiers 5, the same each time)",
    },
    "--seed": {
        **INTEGER,
        "help": "the seed of random instances (default with --examples: drawn, and printed)",
    },
    "--report": {
        "metavar": "FILE",
        "help": "write a line of JSON for each law on each backend: ledger rows, outcome, smallest failing instance",
    },
    "--no-shrink": {
        "action": "store_true",
        "help": "report a failing instance as drawn: faster, but not the simplest",
    },
}

OF_PYTEST = {
    "FILE, FILE::TEST": "run these alone",
    "-k EXPRESSION": "run the tests whose names match, such as 'chain and not scales'",
    "-x": "stop at the first failure",
    "-n N, --numprocesses N": "use N processes (auto: all cores)",
    "-v, -q": "say more, say less",
}


def help_text(commands: dict[str, str], modules: dict[str, str]) -> str:
    """The help of ``python -m conformance``: commands, options of the suite, some of pytest's."""
    parser = argparse.ArgumentParser(
        prog="diptych-conformance",
        usage="diptych-conformance [COMMAND | options] [FILE ...]",
        description="Hold backends to the laws of the papers. Without a command, the suite runs under pytest.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        epilog="commands:\n"
        + _columns(commands)
        + "\n\nbeside them\n"
        + _columns({f"-m conformance.{name}": text for name, text in modules.items()})
        + "\n\noptions of pytest, such as\n"
        + _columns(OF_PYTEST)
        + "\n\nAll options of pytest: python -m pytest --help",
    )
    for name, settings in OPTIONS.items():
        parser.add_argument(name, **settings)
    return parser.format_help()


def _columns(lines: dict[str, str]) -> str:
    return "\n".join(f"  {name:<26}{text}" for name, text in lines.items())


def seed_of(examples: int | None, seed: int | None) -> int | None:
    """The seed of a run; None where each test draws its fixed instances."""
    if seed is not None or examples is None:
        return seed
    return random.SystemRandom().randrange(2**32)


def missing(arguments: list[str]) -> str | None:
    """The message if a package that these arguments need is not installed."""
    packages = ["pytest", "hypothesis"]
    if any(word.startswith(("-n", "--numprocesses", "--dist")) for word in arguments):
        packages.append("xdist")
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    return f"python -m conformance: {', '.join(absent)} not installed; {sys.executable} -m pip install 'diptych[tests]'"
