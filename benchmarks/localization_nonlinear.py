"""Figures 4, 6 and 7 of Pillutla et al. (2018) on made scenes: training scores of two layers, by the protocol of sections 7.1.2 to 7.6.

    python -m benchmarks.localization_nonlinear figure-4 [--quick] [--classes ag] [--output FOLDER] [--json]
    python -m benchmarks.localization_nonlinear figure-6     adaptive and constant smoothing, and their levels
    python -m benchmarks.localization_nonlinear figure-7     eta, passes of the inner solver, its warm starts
    python -m benchmarks.localization_nonlinear draw localization-figure-4.json       the picture and the table again, from the JSON

Stochastic subgradients with constant steps, t^-1/2 and t^-1, against PL-Casimir-SVRG. Writes localization-FIGURE.json and .png into the current folder, or that of
--output, as ``benchmarks.localization_linear`` does; what is said there holds here. Calls of PL-Casimir-SVRG include those of its full gradients and of the evaluations
that decide whether a step is taken; passes without them are the steps of the inner solver. Figures 6 and 7 are of 60 images and one class.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy loads its BLAS

import sys
from collections.abc import Sequence

from benchmarks.localization_plan import NONLINEAR
from benchmarks.localization_report import command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of one figure, or draw it again; the exit status."""
    return command("localization_nonlinear", __doc__, NONLINEAR, 2, arguments)


if __name__ == "__main__":
    sys.exit(main())
