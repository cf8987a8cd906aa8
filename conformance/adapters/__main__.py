"""``python -m conformance.adapters [--library NAME ...] [--examples N] [--json] [--write FILE.md]``: hold other
libraries to our laws.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.adapters import LIBRARIES, library, missing, version
from conformance.adapters.laws import EXAMPLES, LAWS, hold
from conformance.adapters.page import page


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page, or everything as JSON; write the page. The exit status is 0 whatever fails."""
    parser = argparse.ArgumentParser(prog="python -m conformance.adapters", description=__doc__, allow_abbrev=False)
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="ask only this one (repeatable)")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help=f"of each law and size (default: {EXAMPLES})")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the page")
    options = parser.parse_args(arguments)
    if options.examples < 1:
        parser.error(f"--examples: expected an integer >= 1, got {options.examples}")
    results = {}
    for name in options.library or LIBRARIES:
        if how := missing(name):
            print(how, file=sys.stderr)
            continue
        structures = library(name)
        results[name] = {law: hold(law, structures, options.examples) for law in LAWS}
    if options.json:
        laws = {
            name: {str(law): outcome._asdict() for law, outcome in outcomes.items()}
            for name, outcomes in results.items()
        }
        print(json.dumps({"versions": {name: version(name) for name in results}, "laws": laws}))
    elif not options.write:
        print(page(results, options.examples))
    if options.write:
        options.write.write_text(page(results, options.examples), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
