"""``python -m reference``: see reference/app/cli.py."""

import sys

import reference
from reference.app.cli import main

if __name__ == "__main__":
    sys.exit(main(reference))
