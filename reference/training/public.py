"""The options that public functions share, documented once."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

import numpy as np

from reference.declared import Ge, checks_of, options_of, recorded
from reference.training.result import Callback

__all__ = ["ProvedRunOptions", "RunOptions", "runs"]

F = TypeVar("F", bound=Callable[..., Any])
INDENT = " " * 8


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


class ProvedRunOptions(RunOptions, total=False):
    """With a tolerance that is proved by lam > 0; its range is checked together with lam."""

    tol: float | None


KINDS = {name: kind.__forward_arg__ for name, kind in inspect.get_annotations(RunOptions).items()}
DOCS = {  # by name, or by name and annotation
    "w0": """
    w0 : array (d,), optional
        Start; default ``objective.zeros()``.""",
    "lam: Lam": """
    lam : float >= 0
        Weight of the squared norm.""",
    "lam: DualLam": """
    lam : float > 0
        Weight of the squared norm; C = 1/(lam n).""",
    "mu": """
    mu : float, optional
        Smoothing, passed to the objective.""",
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
""",
    "checkpoint": """
    checkpoint, resume : path, optional
        A file to write the state of the run to, and such a file to continue from, with the same options.""",
    "resume": "",  # with checkpoint
}
CALLED = (
    "Called as ``callback(row, w)`` after each {}, with a :class:`Row` and a copy of the weights (d,) that would be "
    "returned at that point, read-only with NumPy. The run stops if it returns True or raises StopIteration."
)


def runs(row: str = "epoch", **defaults: Any) -> Callable[[F], F]:
    """Decorate a function that ends in ``**run: Unpack[RunOptions]`` and passes them to ``minimize``.

    The function takes the options in ``defaults``, and ``callback``, ``checkpoint`` and ``resume``. They are added to
    its signature. Parameters that its docstring does not describe are added to it from :data:`DOCS`. ``row``: after
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
    """The docstring with the missing parameters added from :data:`DOCS`, all in the order of the signature."""
    before, title, rest = doc.partition("Parameters\n    ----------")
    parameters, returns, after = rest.partition("\n\n    Returns\n")
    own = re.findall(r"\n    (?=\S)([^\n]*?) :([^\n]*(?:\n        [^\n]*)*)", parameters)
    called = DOCS["callback"] + textwrap.fill(CALLED.format(row), 120, initial_indent=INDENT, subsequent_indent=INDENT)
    texts = {each.name: DOCS.get(f"{each.name}: {each.annotation}", DOCS.get(each.name, "")) for each in every}
    texts |= {"callback": called} | {names.split(",")[0]: f"\n    {names} :{text}" for names, text in own}
    texts |= {name: "" for names, _ in own for name in names.split(", ")[1:]}
    return before + title + "".join(texts.values()) + returns + after
