"""The solvers as the command line offers them: their options are the parameters of the public functions.

Name, type, default and help of an option come from a function's signature and docstring. A parameter is an option
where its annotation names a number, an integer, a truth value or a word of a listed choice; ``lam``, ``epochs``,
``rng`` and files are said alike for all.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import reference
from diptych.commands.options import FLAGS, count, number
from diptych.commands.parser import Parser
from diptych.defaults import LBFGS_ITERATIONS
from reference.training.result import Result

__all__ = [
    "add_solver",
    "check_files",
    "check_start",
    "epochs_of",
    "frank_wolfe_job",
    "given",
    "listed",
    "own",
    "solve",
    "takes",
]

SHARED = ("objective", "w0", "lam", "epochs", "iterations", "rng", "callback", "checkpoint", "resume")
KINDS: dict[str, Callable[[str], Any]] = {"float": number, "int": count}
UNREACHED = ("accuracy",)  # of casimir's schedule "theory", which is no option
RENAMED = {("prox-linear", "schedule"): "mu_schedule"}  # --schedule is of step sizes


class Own(NamedTuple):
    """A parameter of a solver as an option: the word of its annotation, choices, default, first sentence."""

    kind: str
    choices: tuple[str, ...]
    default: Any
    help: str


@cache
def _parameters(solver: str) -> dict[str, inspect.Parameter]:
    """The parameters of a solver by name, with those of the function that its ``**options`` are handed to."""
    function = getattr(reference, solver.replace("-", "_"))
    found = dict(inspect.signature(function).parameters)
    if found.pop("options", None) is not None:
        found = {**_parameters(_rest(solver)), **found}
    return found


def _rest(solver: str) -> str:
    """The solver whose other options a solver takes, as its docstring names it."""
    named = re.search(r"\*\*options\n\s+Others of :func:`(\w+)`", _docstring(solver))
    assert named is not None, solver
    return named[1]


def _docstring(solver: str) -> str:
    return inspect.getdoc(getattr(reference, solver.replace("-", "_"))) or ""


@cache
def own(solver: str) -> dict[str, Own]:
    """The options that a solver has besides those of all."""
    said = _documented(_docstring(solver))
    if "**options" in said:
        said = _documented(_docstring(_rest(solver))) | said
    found = {}
    for name, parameter in _parameters(solver).items():
        kind, sentence = said.get(name, ("", ""))
        choices = tuple(re.findall(r'"(\w+)"', kind)) if kind.startswith("{") else ()
        words = [word for word in str(parameter.annotation).split(" | ") if word in ("float", "int", "bool", "str")]
        if name not in (*SHARED, *UNREACHED) and words and (words[0] != "str" or choices):
            default = None if parameter.default is inspect.Parameter.empty else parameter.default
            found[RENAMED.get((solver, name), name)] = Own(words[0], choices, default, sentence)
    return found


def _documented(docstring: str) -> dict[str, tuple[str, str]]:
    """Type and first sentence of each parameter of a docstring."""
    part = docstring.partition("Parameters\n----------\n")[2].partition("\n\nReturns")[0]
    found = {}
    for names, kind, body in re.findall(r"^(\S.*?)(?: : (.*))?$((?:\n .*)*)", part, re.MULTILINE):
        text = re.sub(r":\w+:|``|`", "", " ".join(body.split()))
        sentence = re.split(r"(?<=\.) (?=[A-Z])|; default ", text)[0].rstrip(".")
        for name in names.split(", "):
            found[name] = (kind, sentence)
    return found


def takes(solver: str, parameter: str) -> bool:
    """Whether a solver has a parameter."""
    return parameter in _parameters(solver)


def epochs_of(solver: str) -> int:
    """The default number of passes, or iterations, of a solver."""
    if solver == "lbfgs":
        return LBFGS_ITERATIONS
    found = _parameters(solver)
    return int(found["iterations" if "iterations" in found else "epochs"].default)


def listed(values: dict[str, Any]) -> str:
    """Values by name, for a help text."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )


def add_solver(sub: Parser, solvers: Iterable[str], *, without: Iterable[str] = (), **said: str) -> None:
    """Add each option of the solvers, all of them rare but those that all commands share; said: what the help adds."""
    every: dict[str, dict[str, Own]] = {}
    for solver in solvers:
        for name, option in own(solver).items():
            every.setdefault(name, {})[solver] = option
    for name, of in every.items():
        if name in FLAGS or name in without:
            continue
        kinds, texts = next(iter(of.values())), dict[str, list[str]]()
        for solver, option in of.items():
            usual = (
                "" if option.default is None or isinstance(option.default, bool) else f" (default: {option.default})"
            )
            texts.setdefault((option.help or name.replace("_", " ")) + usual, []).append(solver)
        help = "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
        help += f" ({said[name]})" if name in said else ""
        how: dict[str, Any] = {"type": KINDS.get(kinds.kind), "help": help.replace("%", "%%")}
        if kinds.kind == "bool":
            how = {"action": "store_const", "const": not kinds.default, "help": how["help"]}
        elif kinds.kind == "str":
            how |= {
                "type": None,
                "choices": list(dict.fromkeys(word for option in of.values() for word in option.choices)),
            }
        sub.option("solver", spelled(solvers, name), dest=name, rare=True, **how)


def spelled(solvers: Iterable[str], name: str) -> str:
    """The option of a parameter: a truth value that is usually true is turned off."""
    of = next(own(solver)[name] for solver in solvers if name in own(solver))
    return f"--{'no-' if of.default is True else ''}{name.replace('_', '-')}"


def given(options: argparse.Namespace, solver: str, solvers: Iterable[str]) -> dict[str, Any]:
    """What the options say of a solver's own parameters.

    Raises
    ------
    ValueError
        An option that the solver does not have, naming those of the command's that have it; a choice that is another's.
    """
    found = {}
    for name in dict.fromkeys(name for each in solvers for name in own(each)):
        value = getattr(options, name, None)
        if value is None:
            continue
        option = spelled(solvers, name)
        if name not in own(solver):
            having = ", ".join(each for each in solvers if name in own(each))
            raise ValueError(f"{option} has no effect with --optimizer {solver}; these have it: {having}")
        choices = own(solver)[name].choices
        if choices and value not in choices:
            raise ValueError(f"{option}: {solver} takes one of {', '.join(choices)}, got {value}")
        found[name] = value
    return found


def frank_wolfe_job(options: argparse.Namespace, usual: dict[str, Any]) -> dict[str, Any]:
    """The settings of a command that has bcfw alone; usual: its defaults."""
    shared = {name: value for name in usual if (value := getattr(options, name)) is not None}
    return usual | shared | given(options, "bcfw", ["bcfw"])


def check_start(solver: str, solvers: Iterable[str]) -> None:
    """Reject --start for a solver that has its own start."""
    if not takes(solver, "w0"):
        having = ", ".join(each for each in solvers if takes(each, "w0"))
        raise ValueError(
            f"--start: {solver} starts from a point of its dual problem, which weights do not give; {having} take a "
            "start"
        )


def check_files(solver: str, options: argparse.Namespace) -> None:
    """Reject checkpoints for a solver without them."""
    for name in ("checkpoint", "resume"):
        if getattr(options, name) is not None and not takes(solver, name):
            raise ValueError(
                f"--{name}: {solver} has no checkpoints, as SciPy keeps its memory to itself; --save the model and "
                "go on with --start"
            )


def solve(panel: ModuleType, solver: str, objective: Any, *, epochs: int | None = None, **arguments: Any) -> Result:
    """Run a solver of a panel, without shared arguments that are None or that the solver does not take."""
    arguments["iterations" if takes(solver, "iterations") else "epochs"] = epochs
    renamed = {new: old for (of, old), new in RENAMED.items() if of == solver}
    known = {renamed.get(name, name): value for name, value in arguments.items()}
    known = {
        name: value
        for name, value in known.items()
        if takes(solver, name) and not (value is None and name in (*SHARED, "regularizer"))
    }
    run: Callable[..., Result] = getattr(panel, solver.replace("-", "_"))
    return run(objective, **known)
