"""Mistake: weights that must be >= 0 go free in training and are cut off at 0 when it is over."""

import copy
from dataclasses import replace

import accelerated
from accelerated import *  # noqa: F403
from reference.optimizers.nonnegative import clipped, constraint


def bcfw(objective, **options):
    if constraint(objective) is None:
        return accelerated.bcfw(objective, **options)
    model = copy.copy(objective.model)
    model.nonnegative = None
    result = accelerated.bcfw(accelerated.StructuralHinge(model, objective.data), **options)
    return replace(result, x=clipped(result.x, constraint(objective)))
