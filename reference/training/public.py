"""The options of a run that all public functions share, documented once."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np

from reference.training.result import Callback

__all__ = ["RunOptions", "runs"]

F = TypeVar("F", bound=Callable[..., Any])


class RunOptions(TypedDict, total=False):
    """Options passed to :func:`reference.training.minimize.run_of`; :func:`runs` selects those of a function."""

    epochs: int
    iterations: int
    tol: float | None
    rng: int | np.random.Generator | None
    callback: Callback | None
    checkpoint: str | Path | None
    resume: str | Path | None


KINDS = {name: kind.__forward_arg__ for name, kind in inspect.get_annotations(RunOptions).items()}
DOCS = {
    "epochs": """
    epochs : int >= 0
        Passes over the data, each in a new random order.""",
    "tol": """
    tol : float >= 0, optional
        Stop when gap <= tol * objective; None: after ``epochs``.""",
    "rng": """
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation an epoch.""",
    "callback": """
    callback : callable, optional
        Called as ``callback(row, w)`` after each epoch, with a :class:`Row` and a copy of the weights (d,) that would
        be returned at that point, read-only with NumPy. The run stops if it returns True or raises StopIteration.""",
    "checkpoint": """
    checkpoint, resume : path, optional
        A file to write the state of the run to, and such a file to continue from, with the same options.""",
    "resume": "",  # with checkpoint
}


def runs(**defaults: Any) -> Callable[[F], F]:
    """Decorate a function that ends in ``**run: Unpack[RunOptions]`` and passes them to ``minimize``.

    The function takes the options in ``defaults``, and ``callback``, ``checkpoint`` and ``resume``. They are added to
    its signature, and to its docstring unless it already describes them.
    """
    options = defaults | {"callback": None, "checkpoint": None, "resume": None}

    def decorated(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        documented = {parameter.name for parameter in own} | options.keys()

        @functools.wraps(function)
        def public(*arguments: Any, **named: Any) -> Any:
            for name in named:
                if name not in documented:
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
            return function(*arguments, **(options | named))

        shared = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=options[name]) for name in options]
        shared = [parameter.replace(annotation=KINDS[parameter.name]) for parameter in shared]
        public.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
        public.__doc__ = _described(function.__doc__ or "", [parameter.name for parameter in [*own, *shared]])
        return public  # type: ignore[return-value]

    return decorated


def _described(doc: str, order: list[str]) -> str:
    """The docstring with the missing parameters added from :data:`DOCS`, in the order of the signature."""
    before, title, rest = doc.partition("Parameters\n    ----------")
    parameters, returns, after = rest.partition("\n\n    Returns\n")
    entries = re.findall(r"\n    (?=\S)([^\n]*?) :([^\n]*(?:\n        [^\n]*)*)", parameters)
    documented = {name.strip() for names, _ in entries for name in names.split(",")}
    texts = {names.split(",")[0]: f"\n    {names} :{text}" for names, text in entries}
    texts |= {name: DOCS[name] for name in order if name in DOCS and name not in documented}
    inside = "".join(texts.pop(name) for name in order if name in texts)
    return before + title + "".join(texts.values()) + inside + returns + after
