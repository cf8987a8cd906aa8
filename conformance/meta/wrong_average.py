"""Mistake: the uniform average where the weighted one is asked for."""

import accelerated
from accelerated import *  # noqa: F403


def sgd(objective, w0=None, *, average="weighted", **options):
    return accelerated.sgd(objective, w0, average="uniform" if average == "weighted" else average, **options)
