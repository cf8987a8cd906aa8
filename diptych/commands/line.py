"""The command line in one direction: words, one typed command, its run, its report."""

from __future__ import annotations

import argparse
from typing import Any

from diptych.commands import align, check, curves, localize, parse, reproduce, segment, sequences, tag
from diptych.commands.options import Command, Task, add_command, command_of
from diptych.commands.output import Report, performed
from diptych.commands.parser import Parser
from diptych.panels import panel_of
from reference import __version__

TASKS = (*sequences.COMMANDS, tag.TASK, parse.TASK, segment.TASK, align.TASK, localize.TASK, curves.Curves)
OTHERS = (reproduce.Reproduce, check.Check, check.Warm)


def parser(*more: type[Command] | Task) -> Parser:
    """The parser of ``diptych``. more: the commands that run other commands."""
    main_parser = Parser(prog="diptych", description="Train, evaluate and compare structured predictors.")
    main_parser.set_defaults(panel="accelerated")
    version = f"diptych {__version__}"
    main_parser.option("general", "--version", action="version", version=version, help="show the version")
    main_parser.option("general", "--print-completion", action=_Completion, metavar="SHELL",
        help="show a script that completes commands and options, for bash, zsh or tcsh")  # fmt: skip
    commands = main_parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for each in (*TASKS, *more, *OTHERS):
        add_command(commands, each)
    return main_parser


def report_of(options: argparse.Namespace) -> tuple[Command, Report]:
    """What was parsed, as the command that it is, and its report."""
    if options.kind.no_panel and getattr(options, "panel_given", False):
        raise ValueError(f"--panel {options.panel}: {options.kind.no_panel}")
    command = command_of(options)
    return command, performed(panel_of(options.panel), command)


class _Completion(argparse.Action):
    """Print shtab's completion script for the parser."""

    def __call__(self, parser: Any, namespace: Any, shell: Any, option: str | None = None) -> None:
        try:
            import shtab
        except ImportError:
            parser.error("--print-completion needs shtab: pip install 'diptych[completion]'")
        if shell not in shtab.SUPPORTED_SHELLS:
            parser.error(f"--print-completion: expected one of {', '.join(shtab.SUPPORTED_SHELLS)}, got {shell!r:.80}")
        _complete_files(parser, shtab.FILE)
        print(shtab.complete(parser, shell))
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Complete free-text arguments by file names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_files(sub, files)
        elif action.nargs != 0 and action.choices is None and action.type is None:
            setattr(action, "complete", files)  # noqa: B010 shtab reads this attribute
