"""Algorithms that run on small instances, with a picture and a sentence for each step.

The states are those of the reference's own functions: variables while they run (:mod:`watch`), or states of the boxes.
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
    """title: of the page. about: the instance and the picture, in reStructuredText. code: the function that ran.
    final: the state after the last step.
    """

    title: str
    about: str
    code: Callable[..., Any]
    frames: list[Frame]
    final: Any
