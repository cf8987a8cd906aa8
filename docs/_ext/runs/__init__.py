"""Algorithms that run on small instances, with a picture and a sentence for each step.

The states are those of the reference's own functions: variables while they run (:mod:`watch`), or states of the boxes.
A function's docstring is its page: the title, then the instance and the picture, with the values of ``{NAMES}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from drawing import Drawing


class Frame(NamedTuple):
    """A step: its picture, and one sentence about what happened."""

    drawing: Drawing
    says: str


class Run(NamedTuple):
    """code: the function that ran; final: the state after the last frame."""

    code: Callable[..., Any]
    frames: list[Frame]
    final: Any
