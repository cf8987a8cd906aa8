"""``python -m conformance.golden record | compare [--bits]``, with ``--backend`` and ``--only``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from conformance.golden import records
from conformance.golden.runs import FAMILIES, recorded_runs

PANELS = ("reference", "accelerated")


def main(arguments: list[str]) -> int:
    """Status 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m conformance.golden", description="Golden runs of the learners.")
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="write down what the runs come to now")
    compare = commands.add_parser("compare", help="say where they come to something else than was recorded")
    for command in (record, compare):
        command.add_argument("--backend", action="append", metavar="MODULE", help="default: both panels")
    compare.add_argument("--only", action="append", choices=list(FAMILIES), metavar="FAMILY", help="default: all")
    compare.add_argument("--bits", action="store_true", help="numbers too must be equal bit for bit")
    options = parser.parse_args(arguments)
    differing = 0
    for name in options.backend or PANELS:
        only = getattr(options, "only", None) or list(FAMILIES)
        now = recorded_runs(import_module(name), only)
        if options.command == "record":
            records.write(name, now)
            print(f"{name}: {len(now)} runs recorded in {records.path_of(name)}")
            continue
        lines = list(records.all_differences(records.read(name), now, only, options.bits))
        print("\n".join([*lines, f"{name}: {len(now)} runs, {len(lines)} differences"]))
        differing += len(lines)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
