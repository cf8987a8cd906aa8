"""Mistake: exponentiated gradient's rows have the dual of the epoch before."""

from dataclasses import replace

import accelerated
from accelerated import *  # noqa: F403


def exponentiated_gradient(objective, **options):
    result = accelerated.exponentiated_gradient(objective, **options)
    duals = [0.0, *(row.dual for row in result.history[:-1])]
    rows = tuple(
        replace(row, dual=dual, gap=row.objective - dual) for row, dual in zip(result.history, duals, strict=True)
    )
    return replace(result, history=rows, certificate=rows[-1].gap if rows else result.certificate)
