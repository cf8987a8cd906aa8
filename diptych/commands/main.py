"""The command ``diptych``: ``--panel`` names the panel that computes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from diptych.commands import align, check, curves, grid, localize, parse, reproduce, segment, sequences, tag, warm
from diptych.commands.output import error_text, status_of, unwritten
from diptych.commands.parser import Parser
from diptych.interrupts import leave, listening, status, word
from diptych.panels import panel_of
from reference import __version__
from reference.training.run import Lost

__all__ = ["main", "parser"]

COMMANDS = (
    sequences.add,
    tag.add,
    parse.add,
    segment.add,
    align.add,
    localize.add,
    curves.add,
    grid.add,
    reproduce.add,
    check.add,
    warm.add,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    The status is 0 for success, 2 for arguments or data that are wrong, 1 for what fails later, 130 after Ctrl-C, 143
    after SIGTERM and 141 if the reader of a pipe has closed it (as ``| head`` does). If training is interrupted after
    its first epoch, the best weights so far are saved and reported.
    """
    try:
        return _main(argv)
    finally:
        leave()


def _main(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args([*words[1:], "--help"] if words[:1] == ["help"] else words)
    try:
        with unwritten(options.name) as lines, listening():
            interrupted = options.command(panel_of(options.panel), options)
    except BrokenPipeError:
        _drop_output()
        return 141
    except (ValueError, OSError, ImportError, Lost) as problem:
        print(f"diptych {options.name}: {error_text(problem)}", file=sys.stderr)
        _drop_output()
        return status_of(problem)
    except MemoryError as problem:
        print(f"diptych {options.name}: not enough memory: {problem}", file=sys.stderr)
        return 2 if getattr(options, "memory", None) is not None else 1
    except KeyboardInterrupt:
        print(word(), file=sys.stderr)
        return status()
    return status() if interrupted else int(bool(lines))


def parser() -> Parser:
    """The parser of ``diptych`` with all commands."""
    main_parser = Parser(prog="diptych", description="Train, evaluate and compare structured predictors.")
    main_parser.set_defaults(panel="accelerated")
    version = f"diptych {__version__}"
    main_parser.option("general", "--version", action="version", version=version, help="show the version")
    main_parser.option("general", "--print-completion", action=_Completion, metavar="SHELL",
        help="show a script that completes commands and options, for bash, zsh or tcsh")  # fmt: skip
    commands = main_parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for add in COMMANDS:
        add(commands)
    return main_parser


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


def _drop_output() -> None:
    """Empty the output buffer, so that the flush at exit does not fail on a closed pipe or a full disk."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
