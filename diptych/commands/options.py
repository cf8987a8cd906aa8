"""How a command is declared: a dataclass with a field for each argument and option. The parser is made from the fields,
and what is parsed becomes an instance, all that a run knows. Options that commands share are defined once, in FLAGS.
Help is one screen in groups, or all of it (``--help-all``); an unknown word is answered by "did you mean".
"""

from __future__ import annotations

import argparse
import difflib
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, dataclass_transform, get_args, get_type_hints

from diptych.documentation import page
from diptych.panels import PANELS
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
    "top": Flag("output", "show the first K", {"type": positive, "metavar": "K"}),
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
    """A field that is an option of this command alone, ``names`` or the field's name. READ says how an int and a float
    are read, unless ``how`` has a type, an action or choices.
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
    """A field that ``add(parser, name, type without None)`` adds to a parser. of: its value, of all that is parsed."""
    return field(default=default, metadata={"add": add, "of": of})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(argument, declared, flag, option))
class Words:
    """Arguments and options: each class that inherits from this one is a frozen dataclass of them."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class Command(Words):
    """What a command was told, and how it runs. ``name``: its words.

    opens: whether its reports open with the command and the panel. no_panel: why ``--panel`` does not choose its panel.
    writes: the options that name files to write, besides the picture ``plot``.
    """

    opens: ClassVar[bool] = True
    no_panel: ClassVar[str | None] = None
    writes: ClassVar[tuple[str, ...]] = ("save", "log", "checkpoint", "out")
    name: str = ""
    json: bool = flag()
    quiet: bool = flag()

    @property
    def written(self) -> list[str | None]:
        """The files that the command writes, which are looked at before it runs; the last is a picture or None."""
        return [getattr(self, name, None) for name in (*self.writes, "plot")]

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
    values = {each.name: told[each.name] for each in fields(kind) if each.name in told}
    return kind(
        **values | {each.name: of(told) for each in fields(kind) if (of := each.metadata.get("of")) is not None}
    )


def add_command(commands: Any, what: type[Command] | Task, task: str = "") -> None:
    """Add a command, or a task with its actions. A command's docstring is its help; a second paragraph says more."""
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


# the parser -----------------------------------------------------------------------------------------------------------

# in the order in which help shows them
GROUPS = ("positional arguments", "commands", "data", "model", "solver", "workers", "output", "options", "general")
WIDTH = 28  # of the options' column in help


class Parser(argparse.ArgumentParser):
    """A parser that accepts ``--panel`` before and after a command's name and reports an error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options, "add_help": False, "formatter_class": _Formatter})
        self._rare: list[argparse.Action] = []  # options that only --help-all shows
        self.page: str | None = None  # of the documentation, which the help names
        panels = "reference: to read; accelerated: to run (default)"
        self.option("general", "--panel", choices=PANELS, default=argparse.SUPPRESS, help=panels)
        self.option("general", "-h", "--help", action=_Help, everything=False, help="show the usual options")
        self.option("general", "--help-all", action=_Help, everything=True, help="show all options")

    def option(self, group: str, *names: str, rare: bool = False, **arguments: Any) -> argparse.Action:
        """Add an option to a group of the help; only ``--help-all`` shows a rare option."""
        existing = next((each for each in self._action_groups if each.title == group), None)
        added = (existing or self.add_argument_group(group)).add_argument(*names, **arguments)
        if added.choices is not None and added.option_strings:
            added.metavar = added.metavar or "NAME"
            choices = [str(each) for each in added.choices]
            if not set(choices) <= set(re.findall(r"[\w-]+", (added.help or "").partition("(default")[0])):
                added.help = f"{', '.join(choices)}{'; ' if added.help else ''}{added.help or ''}".replace("; (", " (")
        added.metavar = added.metavar or getattr(added.type, "metavar", None)
        if rare:
            self._rare.append(added)
        return added

    def without_panel(self) -> None:
        """Leave ``--panel`` out of the help. A command that does not have it says why when it is given."""
        self._option_string_actions["--panel"].help = argparse.SUPPRESS

    def format_usage(self) -> str:
        places = [action for action in self._actions if not action.option_strings]
        formatter = self._get_formatter()
        words = [formatter._format_args(action, str(action.metavar or action.dest)) for action in places]
        return " ".join([f"usage: {self.prog} [OPTIONS]", *map(str, words)]) + "\n"

    def format_help(self, everything: bool = False) -> str:
        formatter = _Formatter(self.prog, brief=not everything)
        formatter.add_text(self.description)
        for group in sorted(self._action_groups, key=lambda each: GROUPS.index(str(each.title))):
            shown = [action for action in group._group_actions if everything or action not in self._rare]
            formatter.start_section(group.title if group.title != GROUPS[0] else "arguments")
            formatter.add_text(group.description if everything else None)
            formatter.add_arguments(shown)
            formatter.end_section()
        if self._rare and not everything:
            n = len(self._rare)
            formatter.add_text(f"{n} more option{'s' if n > 1 else ''}: --help-all")
        if self.page:
            formatter.add_text(f"documentation: {page(self.page)}")
        return f"{self.format_usage()}\n{formatter.format_help()}"

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse as argparse does, but reject an empty word and the value "--", on which argparse fails."""
        words = sys.argv[1:] if args is None else list(args)
        for before, word in zip(["", *words], words, strict=False):
            name, equals, value = word.partition("=")
            if name.startswith("--") and equals and value in ("", "--"):
                self.error(f"argument {name}: expected a value, got {value!r}")
            if not word:
                self.error(f"expected a value, got '' after {before or self.prog}")
        return super().parse_args(words, namespace)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does; a command with subcommands shows its help if called without one."""
        words = list(args)
        if self._subparsers is not None and not words:
            self.print_help()
            self.exit()
        others = any(each.nargs in (argparse.PARSER, argparse.REMAINDER) for each in self._get_positional_actions())
        for word in words:
            if word == "--" or (others and not word.startswith("-")):  # the words that follow belong to another parser
                break
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in word and name not in self._option_string_actions:
                self.error(f"unknown option {name}{did_you_mean(name, self._option_string_actions)}")
        return super().parse_known_args(words, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(each) for each in action.choices]
            text = f"expected one of {', '.join(choices)}, got {value!r:.80}{did_you_mean(str(value), choices)}"
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


def refuse(values: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    """Raise ValueError for an option that has a value but, says ``why``, no effect."""
    for name in names:
        if values.get(name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} has no effect {why}")


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The end of an error message that suggests a name for ``word``, or "" if no name is close: the only name that ends
    in a hyphen and ``word``, else the only one that starts with ``word``, else the closest.
    """
    word, by_bare = word.lstrip("-"), {name.lstrip("-"): name for name in names}
    ended = [bare for bare in by_bare if bare.endswith(f"-{word}")]
    started = [bare for bare in by_bare if word and bare.startswith(word)]
    near = next((some for some in (ended, started) if len(some) == 1), difflib.get_close_matches(word, by_bare, 1))
    return f"; did you mean {by_bare[near[0]]}?" if near else ""


class _Formatter(argparse.HelpFormatter):
    """A help formatter that lists commands without a heading."""

    def __init__(self, prog: str, brief: bool = False) -> None:
        super().__init__(prog, max_help_position=WIDTH)
        self.brief = brief  # one line per option, two if it has choices

    def _iter_indented_subactions(self, action: argparse.Action) -> Any:
        yield from action._get_subactions() if hasattr(action, "_get_subactions") else ()

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return self._join_parts([self._format_action(each) for each in self._iter_indented_subactions(action)])
        self.most = 1 if action.option_strings and action.choices is None else 2
        return super()._format_action(action)

    def _split_lines(self, text: str, width: int) -> list[str]:
        lines = super()._split_lines(text, width)
        if not self.brief or len(lines) <= self.most:
            return lines
        joined = " ".join(text.split())
        for end in sorted((match.start() for match in re.finditer(r"; | \(|, ", joined)), reverse=True):
            start = joined[:end]
            lines = super()._split_lines(f"{start} ..." + ")" * (start.count("(") - start.count(")")), width)
            if len(lines) <= self.most:
                break
        return lines[: self.most]


class _Help(argparse.Action):
    """Print the help and exit."""

    def __init__(self, option_strings: Sequence[str], dest: str, everything: bool, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)
        self.everything = everything

    def __call__(self, parser: Any, *_: Any) -> None:
        print(parser.format_help(self.everything), end="")
        parser.exit()
