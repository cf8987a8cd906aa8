"""Figures 3, 4, 6 and 7 of Pillutla et al. (2018) on made scenes, by the protocol of sections 7.1.2 to 7.6.

    diptych reproduce casimir-figure-3 ...    optimisers of linear scores of candidate boxes
    diptych reproduce casimir-figure-4 ...    two layers: SGD against prox-linear
    diptych reproduce casimir-figure-6 ...    two layers: adaptive and constant smoothing, and their levels
    diptych reproduce casimir-figure-7 ...    two layers: eta, passes of the inner solver, its warm starts
    diptych reproduce casimir-figure-3 --draw localization-figure-3.json    picture and table again, from the JSON

Options: [--quick] [--classes aeg] [--out FOLDER] [--json].

Writes into the current folder, or that of --out: localization-FIGURE.json, every row of every run, and
localization-FIGURE.png: objective less the best known, against oracle calls without and with those of full gradients
and against seconds, and CorLoc on test images; the mean and one standard deviation over the rngs. Prints what was tuned
and where each curve ended. Scenes are made there (90 MB a class) and runs kept as they come, in
localization-runs.jsonl: what is in that file is not done again. Delete it to measure anew. What is compared is in
diptych/experiments/localization_plan.py.

The paper has photographs of PASCAL VOC 2007 with features of a network trained on ImageNet, 3 x 3 x 256; here a class
is a handwritten letter on a cluttered page with 3 x 3 x 64 features of fixed filters. So no number can be held against
the print; which methods are ahead can.

Two layers are trained by stochastic subgradients with constant steps, t^-1/2 and t^-1, and by PL-Casimir-SVRG. Calls of
PL-Casimir-SVRG include those of its full gradients and of the evaluations that decide whether a step is taken; passes
without them are the steps of the inner solver. Figures 6 and 7 are of 60 images and one class.
"""

from __future__ import annotations

from collections.abc import Sequence

from diptych.experiments.localization_plan import LINEAR, NONLINEAR
from diptych.experiments.localization_report import command


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of one figure, or draw it again; the exit status."""
    figure = name.removeprefix("casimir-")
    layers = 1 if figure in LINEAR else 2
    return command(name, __doc__, figure, (LINEAR | NONLINEAR)[figure], layers, arguments)
