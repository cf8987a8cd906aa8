"""The parser of the command line: help of one screen in groups, ``--help-all``, and "did you mean"."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from diptych.panels import PANELS

# in the order in which help shows them
GROUPS = ("positional arguments", "commands", "data", "model", "solver", "workers", "output", "options", "general")
WIDTH = 28  # of the options' column in help


class Parser(argparse.ArgumentParser):
    """A parser that accepts ``--panel`` before and after a command's name and reports an error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options, "add_help": False, "formatter_class": _Formatter})
        self._rare: list[argparse.Action] = []  # options that only --help-all shows
        panels = "reference: to read; accelerated: to run (default)"
        self.option("general", "--panel", action=_Panel, choices=PANELS, default=argparse.SUPPRESS, help=panels)
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
        return f"{self.format_usage()}\n{formatter.format_help()}"

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse as argparse does, but reject an empty word and the value "--": argparse fails on them with a
        traceback.
        """
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


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The end of an error message that suggests a name for ``word``, or "" if no name is close.

    The suggestion is the only name that ends in a hyphen and ``word``, else the only one that starts with ``word``,
    else the closest. The hyphens before an option do not make it closer.
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
            lines = super()._split_lines(joined[:end] + " ...", width)
            if len(lines) <= self.most:
                break
        return lines[: self.most]


class _Panel(argparse.Action):
    """Store the panel, and that it was given: a command before whose name it stands cannot tell it from the default."""

    def __call__(self, parser: Any, namespace: Any, value: Any, option: str | None = None) -> None:
        namespace.panel, namespace.panel_given = value, True


class _Help(argparse.Action):
    """Print the help and exit."""

    def __init__(self, option_strings: Sequence[str], dest: str, everything: bool, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)
        self.everything = everything

    def __call__(self, parser: Any, *_: Any) -> None:
        print(parser.format_help(self.everything), end="")
        parser.exit()
