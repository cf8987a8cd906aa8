"""``python -m conformance [--backend MODULE ...] [--examples N] [pytest options]``: run the suite on installed
packages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Run pytest over this package with its own plugin and settings; leave nothing behind."""
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
