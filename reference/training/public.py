"""The options that public functions share, documented once."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

import numpy as np

from reference.declared import Ge, checks_of, options_of, recorded
from reference.training.result import Callback

__all__ = ["RunOptions", "runs"]

F = TypeVar("F", bound=Callable[..., Any])


class RunOptions(TypedDict, total=False):
    """Options passed to :func:`reference.training.solver.minimize`; :func:`runs` selects those of a function."""

    epochs: Annotated[int, Ge(0)]
    iterations: Annotated[int, Ge(0)]
    tol: Annotated[float, Ge(0)] | None
    rng: int | np.random.Generator | None
    callback: Callback | None
    checkpoint: str | Path | None
    resume: str | Path | None
    same: dict[str, Any]  # given by :func:`runs`: the function's own options, which a resumed run must have in common


KINDS = {name: kind.__forward_arg__ for name, kind in inspect.get_annotations(RunOptions).items()}
SHARED = """
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
    w0 : array (d,), optional
        Start; default ``objective.zeros()``, or ``model.initial(data, rng)`` of a nonlinear model.
    lam : float >= 0
        Weight of the squared norm; in other conventions C = 1/(lam n), or crfsuite's c2 = lam n / 2.
    mu : float, optional
        Smoothing, passed to the objective.
    epochs : int >= 0
        Passes over the data, each in a new random order.
    tol : float >= 0, optional
        Stop when gap <= tol * objective, which needs lam > 0; None: after ``epochs``.
    rng : int, numpy.random.Generator or None
        Draws the orders of examples, one permutation for each pass, and samples, with NumPy on the host.
    callback : callable, optional
        Called as ``callback(row, w)`` after each ROW,
        with a :class:`Row` and a copy of the weights (d,) that would be returned at that point, read-only with NumPy.
        The run stops if it returns True or raises StopIteration.
    checkpoint, resume : path, optional
        A file to write the state of the run to, and such a file to continue from, with the same options."""


def runs(row: str = "epoch", **defaults: Any) -> Callable[[F], F]:
    """Decorate a function that ends in ``**run: Unpack[RunOptions]`` and passes them to ``minimize``.

    The function takes the options in ``defaults``, and ``callback``, ``checkpoint`` and ``resume``. They are added to
    its signature. Parameters that its docstring does not describe are added to it from :data:`SHARED`. ``row``: after
    what the callback is called. All options are checked as their annotations say.
    """
    shared = defaults | {"callback": None, "checkpoint": None, "resume": None}

    def decorated(function: F) -> F:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()
        own = {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
        accepted = {each.name for each in parameters} | shared.keys()

        @functools.cache
        def declared() -> tuple[dict[str, Any], dict[str, Any]]:
            """The checks, and the defaults of what a resumed run must have in common."""
            hints = options_of(function)
            return checks_of(function), {name: own[name] for name in own if recorded(hints[name])}

        @functools.wraps(function)
        def public(*arguments: Any, **named: Any) -> Any:
            for name in named:
                if name not in accepted:
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
            checks, same = declared()
            for name, check in checks.items():
                if name in named:
                    check(named[name])
            same = {name: named.get(name, default) for name, default in same.items()}
            return function(*arguments, **(shared | named), same=same)

        only = inspect.Parameter.KEYWORD_ONLY
        every = [*parameters, *(inspect.Parameter(k, only, default=shared[k], annotation=KINDS[k]) for k in shared)]
        public.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        public.__doc__ = _described(function.__doc__ or "", every, row)
        return public  # type: ignore[return-value]

    return decorated


def _described(doc: str, every: list[inspect.Parameter], row: str) -> str:
    """The docstring with the missing parameters added from :data:`SHARED`, all in the order of the signature."""
    before, title, rest = doc.partition("Parameters\n    ----------")
    parameters, returns, after = rest.partition("\n\n    Returns\n")
    shared = SHARED.replace("ROW", row)
    if any(each.annotation == "DualLam" for each in every):
        shared = shared.replace("lam : float >= 0", "lam : float > 0")
    described = re.findall(r"\n    (?=\S)([^\n]*?) :([^\n]*(?:\n        [^\n]*)*)", shared + parameters)
    texts = {name: f"\n    {names} :{text}" for names, text in described for name in names.split(", ")}
    return before + title + "".join(dict.fromkeys(texts.get(each.name, "") for each in every)) + returns + after
