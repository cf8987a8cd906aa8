"""The options that commands share, each defined once (name, group, type, help), and functions that add commands."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

from diptych.commands.parser import Parser
from reference.archives import MOST_BYTES

__all__ = [
    "EVERYWHERE",
    "TRAINING",
    "Action",
    "above_zero",
    "add_command",
    "add_flags",
    "add_task",
    "count",
    "large",
    "number",
    "positive",
    "share",
    "without_panel",
]

LONGEST = 80  # characters of a value that an error message repeats
Action = Callable[..., Parser]


def number(text: str) -> float:
    """The value of an option of type finite number >= 0."""
    return _float(text, "a finite number >= 0", lambda value: 0 <= value < math.inf)


def above_zero(text: str) -> float:
    """The value of an option of type finite number > 0."""
    return _float(text, "a finite number > 0", lambda value: 0 < value < math.inf)


def share(text: str) -> float:
    """The value of an option of type number between 0 and 1, both excluded."""
    return _float(text, "a number in (0, 1)", lambda value: 0 < value < 1)


def _float(text: str, expected: str, right: Callable[[float], bool]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not right(value):
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text:.{LONGEST}}")
    return value


def count(text: str) -> int:
    """The value of an option of type integer >= 0 of 31 bits, such as a count."""
    return _integer(text, 2**31 - 1)


def large(text: str) -> int:
    """The value of an option of type integer >= 0 of 63 bits, such as a seed or a number of bytes."""
    return _integer(text, 2**63 - 1)


def positive(text: str) -> int:
    """The value of an option of type integer >= 1 of 31 bits."""
    return _integer(text, 2**31 - 1, 1)


def _integer(text: str, most: int, least: int = 0) -> int:
    digits = text.strip()
    value = int(digits) if digits.isdecimal() and len(digits) <= LONGEST else -1
    if not least <= value <= most:
        bound = f" and <= {most}" if digits.isdecimal() and digits.strip("0") else ""
        raise argparse.ArgumentTypeError(f"expected an integer >= {least}{bound}, got {text:.{LONGEST}}")
    return value


class Flag(NamedTuple):
    """An option with the same meaning in every command. how: further arguments of ``add_argument``."""

    group: str
    help: str
    how: dict[str, Any]
    rare: bool = False


FILE: dict[str, Any] = {"metavar": "FILE"}
FLAGS = {
    "test": Flag("data", "score the model on these examples too", FILE),
    "limit": Flag("data", "only N examples, spread evenly", {"type": positive, "metavar": "N"}),
    "encoding": Flag("data", "encoding of text files (default: UTF-8, or UTF-16 with its byte order mark)",
                     {"metavar": "NAME"}, True),
    "most_bytes": Flag("data",
                       f"maximum size of a compressed file when unpacked (default: {MOST_BYTES})",
                       {"type": large, "metavar": "N", "default": MOST_BYTES}, True),
    "start": Flag("model", "start from the weights of a saved model, with its settings", {"metavar": "MODEL"}, True),
    "lam": Flag("solver", "weight of lam/2 ||w||^2", {"type": number}),
    "epochs": Flag("solver", "maximum number of passes over the examples, or of iterations",
                   {"type": count, "metavar": "N"}),
    "tol": Flag("solver", "stop at this gap, relative to the objective; lbfgs: at this largest entry of the gradient",
                {"type": number}),
    "rng": Flag("solver", "seed of the random numbers (default: 0)", {"type": large, "metavar": "SEED"}, True),
    "checkpoint": Flag("solver", "save the state of the run, to resume it later (.npz)", FILE, True),
    "resume": Flag("solver", "resume from a checkpoint with the same options, up to --epochs in all; appends to --log",
                   FILE, True),
    "save": Flag("output", "write the model (.npz, loads in either panel)", FILE),
    "out": Flag("output", "write the result to this file instead of printing it", FILE),
    "plot": Flag("output", "draw a picture of the result (.png, .pdf or .svg)", FILE),
    "log": Flag("output", "write job, epochs and outcome as lines of JSON", FILE, True),
    "json": Flag("output", "print the result as one JSON object", {"action": "store_true"}),
    "quiet": Flag("output", "print no progress on stderr", {"action": "store_true"}),
    "top": Flag("output", "number of the best to show", {"type": positive, "metavar": "K"}),
}  # fmt: skip
EVERYWHERE = ("json", "quiet")
TRAINING = ("limit", "checkpoint", "resume", "save", "plot", "log")  # of every command that trains


def add_flags(sub: Parser, *names: str, **notes: str) -> None:
    """Add shared options. notes: text in parentheses after an option's help, such as its default, by name."""
    for name in dict.fromkeys((*names, *notes)):
        flag = FLAGS[name]
        text = flag.help + (f" ({notes[name]})" if name in notes else "")
        sub.option(flag.group, f"--{name.replace('_', '-')}", rare=flag.rare, help=text, **flag.how)


def add_command(
    commands: Any, name: str, run: Callable[..., Any], summary: str, description: str = "", *, task: str = ""
) -> Parser:
    """Add a command, or an action of a task; ``run`` is called with the panel and the options."""
    sub: Parser = commands.add_parser(
        name, help=summary, description=description or f"{summary[0].upper()}{summary[1:]}."
    )
    sub.set_defaults(command=run, name=f"{task} {name}".strip(), reported=None)
    add_flags(sub, *EVERYWHERE)
    return sub


def without_panel(sub: Parser, why: str) -> None:
    """Make a command reject ``--panel``, before and after its name, and leave it out of its help."""
    sub.without_panel()
    run = sub.get_default("command")

    @wraps(run)
    def command(panel: ModuleType, options: argparse.Namespace) -> Any:
        if getattr(options, "panel_given", False):
            raise ValueError(f"--panel {options.panel}: {why}")
        return run(panel, options)

    sub.set_defaults(command=command)


def add_task(commands: Any, task: str, summary: str, description: str) -> Action:
    """Add a command with actions. Return a function that adds one action, as :func:`add_command` does."""
    actions = commands.add_parser(task, help=summary, description=description).add_subparsers(
        required=True, metavar="ACTION"
    )

    def action(name: str, run: Callable[..., Any], summary: str, description: str = "") -> Parser:
        return add_command(actions, name, run, summary, description, task=task)

    return action
