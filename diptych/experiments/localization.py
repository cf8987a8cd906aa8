"""Figures 3, 4, 6 and 7 of Pillutla et al. (2018) on made scenes, by the protocol of sections 7.1.2 to 7.6.

    diptych reproduce casimir-figure-3 ...    optimisers of linear scores of candidate boxes
    diptych reproduce casimir-figure-4 ...    two layers: SGD against prox-linear
    diptych reproduce casimir-figure-6 ...    two layers: adaptive and constant smoothing, and their levels
    diptych reproduce casimir-figure-7 ...    two layers: eta, passes of the inner solver, its warm starts
    diptych reproduce casimir-figure-3 --draw localization-figure-3.json    picture and table again from the JSON file

Options: [--quick] [--classes aeg] [--out FOLDER] [--json].

Writes localization-FIGURE.json and localization-FIGURE.png into the current folder, or that of --out. The JSON file has
every row of every run. The picture shows the objective minus the best known objective, against oracle calls (without
and with full gradients) and against seconds, and CorLoc on test images. Curves are means with one standard deviation
over random seeds. Prints the tuned settings and the end of each curve. Scenes are made in the same folder (90 MB for
each class). Finished runs are saved in localization-runs.jsonl and are not repeated; delete that file to measure again.
diptych/experiments/localization_plan.py has the compared methods and settings.

The paper has photographs of PASCAL VOC 2007 with 3 x 3 x 256 features of a network trained on ImageNet. Here a class is
a handwritten letter on a cluttered page, with 3 x 3 x 64 features of fixed filters. So the numbers cannot be compared
with the print, but the order of the methods can.

Two layers are trained by stochastic subgradients with steps that are constant or decrease as t^-1/2 or t^-1, and by
PL-Casimir-SVRG. Calls of PL-Casimir-SVRG include its full gradients and the evaluations that decide whether a step is
accepted. Passes without full gradients are the steps of the inner solver. Figures 6 and 7 use 60 images and one class.
"""

from __future__ import annotations

from collections.abc import Sequence

from diptych.experiments.localization_plan import LINEAR, NONLINEAR
from diptych.experiments.localization_report import command


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of one figure, or draw it again; return the exit status."""
    figure = name.removeprefix("casimir-")
    layers = 1 if figure in LINEAR else 2
    return command(name, __doc__, figure, (LINEAR | NONLINEAR)[figure], layers, arguments)
