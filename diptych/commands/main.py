"""The command ``diptych``: ``--panel`` names the panel that computes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from diptych.commands import grid, line
from diptych.commands.output import error_text, print_report, status_of, unwritten
from diptych.commands.parser import Parser
from diptych.interrupts import leave, listening, status, word
from reference.training.run import Lost


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
            command, report = line.report_of(options)
            print_report(command, report)
            if report.problem is not None:
                raise report.problem
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
    return status() if report.fields.get("interrupted") else int(bool(lines))


def parser() -> Parser:
    """The parser of ``diptych`` with all commands."""
    return line.parser(grid.Grid)


def _drop_output() -> None:
    """Empty the output buffer, so that the flush at exit does not fail on a closed pipe or a full disk."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
