"""One experiment by its name: what ``diptych reproduce`` starts, in a process whose BLAS has one thread."""

import sys

from diptych.experiments.registry import perform

if __name__ == "__main__":
    sys.exit(perform(sys.argv[1], sys.argv[2:]))
