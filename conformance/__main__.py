"""``python -m conformance [--backend MODULE ...] [--examples N] [pytest options]``: run the suite on installed
packages.

``python -m conformance identities [--json] [--seed N]`` prints what the papers prove as residuals and slacks, without
pytest.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from conformance import identities

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Print the identities, or run the suite."""
    return identities.main(arguments[1:]) if arguments[:1] == ["identities"] else suite(arguments)


def suite(arguments: list[str]) -> int:
    """Run pytest over this package with its own plugin and settings; leave nothing behind."""
    import pytest

    chosen = any(os.path.exists(argument.split("::")[0]) for argument in arguments if not argument.startswith("-"))
    ours = [
        "-c",
        str(HERE / "pytest.ini"),
        "--rootdir",
        str(HERE),
        "-p",
        "conformance.plugin",
        "-p",
        "no:cacheprovider",
        # where it is installed, it warns as soon as there are several processes, and warnings are errors here
        "-p",
        "no:benchmark",
    ]
    return int(pytest.main([*ours, *arguments, *([] if chosen else [str(HERE)])]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
