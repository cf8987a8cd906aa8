"""``python -m accelerated``: see reference/app/cli.py."""

import sys

import accelerated
from reference.app.cli import main

if __name__ == "__main__":
    sys.exit(main(accelerated))
