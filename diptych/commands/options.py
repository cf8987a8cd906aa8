"""How a command is declared: a dataclass with a field for each argument and option. The parser is made from the fields,
and what is parsed becomes an instance, all that a run knows. Options that commands share are defined once, in FLAGS.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, dataclass_transform, get_args, get_type_hints

from diptych.commands.parser import Parser
from reference.archives import MOST_BYTES

LONGEST = 80  # characters of a value that an error message repeats


@dataclass(frozen=True)
class Real:
    """What reads an option of type number; the error says what is expected."""

    expected: str
    right: Callable[[float], bool]
    metavar: str = "X"

    def __call__(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not self.right(value):
            raise argparse.ArgumentTypeError(f"expected {self.expected}, got {text:.{LONGEST}}")
        return value


@dataclass(frozen=True)
class Whole:
    """What reads an option of type integer, such as a count, a seed or a number of bytes."""

    most: int
    least: int = 0
    metavar: str = "N"

    def __call__(self, text: str) -> int:
        digits = text.strip()
        value = int(digits) if digits.isdecimal() and len(digits) <= LONGEST else -1
        if not self.least <= value <= self.most:
            bound = f" and <= {self.most}" if digits.isdecimal() and digits.strip("0") else ""
            raise argparse.ArgumentTypeError(f"expected an integer >= {self.least}{bound}, got {text:.{LONGEST}}")
        return value


number = Real("a finite number >= 0", lambda value: 0 <= value < math.inf)
above_zero = Real("a finite number > 0", lambda value: 0 < value < math.inf)
share = Real("a number in (0, 1)", lambda value: 0 < value < 1)
count, large, positive = Whole(2**31 - 1), Whole(2**63 - 1), Whole(2**31 - 1, 1)


class Flag(NamedTuple):
    """An option with the same meaning in every command. how: further arguments of ``add_argument``."""

    group: str
    help: str
    how: dict[str, Any]
    rare: bool = False


FILE: dict[str, Any] = {"metavar": "FILE"}
FLAGS = {
    "test": Flag("data", "score the model on these examples too", FILE),
    "limit": Flag("data", "only N examples, spread evenly", {"type": positive}),
    "encoding": Flag("data", "encoding of text files (default: UTF-8, or UTF-16 with its byte order mark)",
                     {"metavar": "NAME"}, True),
    "most_bytes": Flag("data", f"maximum size of a compressed file when unpacked (default: {MOST_BYTES})",
                       {"type": large, "default": MOST_BYTES}, True),
    "start": Flag("model", "start from the weights of a saved model, with its settings", {"metavar": "MODEL"}, True),
    "lam": Flag("solver", "weight of lam/2 ||w||^2", {"type": number}),
    "epochs": Flag("solver", "maximum number of passes over the examples, or of iterations", {"type": count}),
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


def add_flags(sub: Parser, *names: str, **notes: str) -> None:
    """Add shared options. notes: text in parentheses after an option's help, such as its default, by name."""
    for name in dict.fromkeys((*names, *notes)):
        flag = FLAGS[name]
        text = flag.help + (f" ({notes[name]})" if name in notes else "")
        sub.option(flag.group, f"--{name.replace('_', '-')}", rare=flag.rare, help=text, **flag.how)


# commands -------------------------------------------------------------------------------------------------------------

READ: dict[Any, dict[str, Any]] = {int: {"type": count}, float: {"type": number}}


def argument(help: str | None = None, **how: Any) -> Any:
    """A field that is an argument without a name. how: further arguments of ``add_argument``."""
    return declared(lambda sub, name, _: sub.add_argument(name, help=help, **how))


def option(group: str, help: str, *names: str, rare: bool = False, **how: Any) -> Any:
    """A field that is an option of this command alone; its name is that of the field unless ``names`` are given.

    An int is read by :func:`count` and a float by :func:`number`, unless ``how`` has a type, an action or choices.
    """
    usual = how.get("default", {"store_true": False, "store_false": True}.get(how.get("action", "")))

    def add(sub: Parser, name: str, kind: Any) -> None:
        every = names or (f"--{name.replace('_', '-')}",)
        read = {} if how.keys() & {"type", "action", "choices"} else READ.get(kind, {})
        sub.option(group, *every, dest=name, rare=rare, help=help, **read, **how)

    return declared(add, usual)


def flag(note: str = "", default: Any = None) -> Any:
    """A field that is an option of FLAGS. note: text in parentheses after its help."""

    def add(sub: Parser, name: str, _: Any) -> None:
        add_flags(sub, name, **({name: note} if note else {}))
        if default is not None:
            sub.set_defaults(**{name: default})

    return declared(add, default)


def declared(add: Callable[[Parser, str, Any], Any], default: Any = None, of: Callable[..., Any] | None = None) -> Any:
    """A field that ``add(parser, name, kind)`` adds to a parser. kind: its type, without None. of: its value, from all
    that is parsed.
    """
    return field(default=default, metadata={"add": add, "of": of})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(argument, declared, flag, option))
class Words:
    """Arguments and options: each class that inherits from this one is a frozen dataclass of them."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class Command(Words):
    """What a command was told, and how it runs. ``name``: its words.

    opens: whether its reports open with the command and the panel. no_panel: why ``--panel`` does not choose its panel.
    """

    opens: ClassVar[bool] = True
    no_panel: ClassVar[str | None] = None
    name: str = ""
    json: bool = flag()
    quiet: bool = flag()

    @property
    def written(self) -> list[str | None]:
        """The files that the command writes, which are looked at before it runs; the last is a picture or None."""
        return [getattr(self, name, None) for name in ("save", "log", "checkpoint", "out", "plot")]

    def run(self, panel: ModuleType) -> Any:
        """Run in a panel, and return a report."""
        raise NotImplementedError


class Saved(Command):
    """A command that reads a saved model."""

    model: str = declared(lambda sub, name, _: sub.add_argument(
        name, help=f"a file written by {' '.join([*sub.prog.split()[1:-1], 'train'])} --save"))  # fmt: skip


class Training(Command):
    """A command that trains."""

    limit: int | None = flag()
    checkpoint: str | None = flag()
    resume: str | None = flag()
    save: str | None = flag()
    plot: str | None = flag()
    log: str | None = flag()


class Task(NamedTuple):
    """A command with actions; their names are those of their classes."""

    name: str
    summary: str
    description: str
    actions: tuple[type[Command], ...]


def command_of(options: argparse.Namespace) -> Command:
    """What was parsed, as the dataclass of its command."""
    told: dict[str, Any] = vars(options)
    kind: type[Command] = told["kind"]
    values = {}
    for each in fields(kind):
        of = each.metadata.get("of")
        if of is not None or each.name in told:
            values[each.name] = told[each.name] if of is None else of(told)
    return kind(**values)


def add_command(commands: Any, what: type[Command] | Task, task: str = "") -> None:
    """Add a command, or a task with its actions.

    The first paragraph of the docstring of a command is its help, the second, if there is one, says more.
    """
    if isinstance(what, Task):
        actions = commands.add_parser(what.name, help=what.summary, description=what.description)
        subparsers = actions.add_subparsers(required=True, metavar="ACTION")
        for action in what.actions:
            add_command(subparsers, action, what.name)
        return
    name = what.__name__.lower()
    first, *more = (" ".join(text.split()) for text in str(what.__doc__).strip().split("\n\n"))
    summary = f"{first[0].lower()}{first[1:]}".removesuffix(".")
    sub: Parser = commands.add_parser(name, help=summary, description=more[0] if more else first)
    sub.set_defaults(kind=what, name=f"{task} {name}".strip())
    hints = get_type_hints(what)
    for each in fields(what):
        if "add" in each.metadata:
            kinds = get_args(hints[each.name]) or (hints[each.name],)
            each.metadata["add"](sub, each.name, next(kind for kind in kinds if kind is not type(None)))
    if what.no_panel is not None:
        sub.without_panel()
