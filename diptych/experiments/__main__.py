"""Run an experiment by its name. ``diptych reproduce`` starts this in a process whose BLAS has one thread."""

import sys

from diptych.experiments.registry import perform
from diptych.interrupts import leave

if __name__ == "__main__":
    status = perform(sys.argv[1], sys.argv[2:])
    leave()
    sys.exit(status)
