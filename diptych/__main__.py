"""``python -m diptych``: see diptych/commands/main.py."""

import sys

from diptych.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
