"""Figure 3 of Pillutla et al. (2018) on made scenes: optimisers of linear scores of candidate boxes, by the protocol of sections 7.1.2 to 7.3.

    python -m benchmarks.localization_linear [--quick] [--classes aeg] [--output FOLDER] [--json]
    python -m benchmarks.localization_linear --draw localization-figure-3.json       the picture and the table again, from the JSON

Writes into the current folder, or that of --output: localization-figure-3.json, every row of every run, and localization-figure-3.png: objective less the
best known, against oracle calls without and with those of full gradients and against seconds, and CorLoc on test images; the mean and one standard deviation over
the rngs. Prints what was tuned and where each curve ended. Scenes are made there (90 MB a class) and runs kept as they come, in localization-runs.jsonl: what is
in that file is not done again. Delete it to measure anew. What is compared is in benchmarks/localization_plan.py.

The paper has photographs of PASCAL VOC 2007 with features of a network trained on ImageNet, 3 x 3 x 256; here a class is a handwritten letter on a cluttered page
with 3 x 3 x 64 features of fixed filters. So no number can be held against the print; which methods are ahead can.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy loads its BLAS

import sys
from collections.abc import Sequence

from benchmarks.localization_plan import LINEAR
from benchmarks.localization_report import command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment, or draw it again; the exit status."""
    return command("localization_linear", __doc__, LINEAR, 1, arguments)


if __name__ == "__main__":
    sys.exit(main())
