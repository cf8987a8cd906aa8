"""The solvers on the command line. The parameters of the public functions are the options.

The name, type, range, choices and default of an option come from the function's signature, its help from the docstring.
A parameter becomes an option if its annotation is a number, an integer, a truth value or one of a list of words.
``lam``, ``epochs``, ``rng`` and files have the same help for all solvers.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from docstring_parser import DocstringStyle, parse

import reference
from diptych.certificates import advised
from diptych.commands.options import FLAGS, Parser, above_zero, count, declared, number, positive, share
from diptych.defaults import LBFGS_ITERATIONS
from diptych.distributed import cocoa
from diptych.elastic_net import elastic_net
from diptych.panels import slow_path
from reference.declared import Ge, Gt, OpenUnit, Range, members, options_of
from reference.training.result import Result

CHOICE: Any = Literal
SHARED = ("objective", "w0", "lam", "epochs", "iterations", "rng", "callback", "checkpoint", "resume")
KINDS: dict[Any, Callable[[str], Any] | None] = {float: number, int: count, bool: None}
RANGES: dict[Range, Callable[[str], Any]] = {Gt(0): above_zero, OpenUnit(): share, Ge(1): positive}
OF_NO_PANEL: dict[str, Callable[..., Any]] = {"cocoa": cocoa, "elastic-net": elastic_net}
UNREACHED = (("casimir", "schedule"), ("casimir", "accuracy"))  # presets choose them
PRESETS = {"casimir-svrg-const": "casimir", "casimir-svrg-adapt": "casimir"}  # and what receives their **options
RENAMED = {  # --schedule is of step sizes, --memory is of workers
    ("prox-linear", "schedule"): "mu_schedule",
    ("lbfgs", "memory"): "corrections",
}


class Own(NamedTuple):
    """A parameter of a solver as an option: kind, choices, default, first sentence of its documentation, its reader."""

    kind: Any
    choices: tuple[str, ...]
    default: Any
    help: str
    type: Callable[[str], Any] | None


@cache
def _parameters(solver: str) -> dict[str, inspect.Parameter]:
    """The parameters of a solver by name, with those of the function that receives its ``**options``."""
    parameters = dict(inspect.signature(_function(reference, solver)).parameters)
    if parameters.pop("options", None) is not None:
        parameters = {**_parameters(PRESETS[solver]), **parameters}
    return parameters


def _function(panel: ModuleType, solver: str) -> Any:
    """The public function of a solver; cocoa and elastic-net are of no panel, as the loss chooses it."""
    return OF_NO_PANEL.get(solver) or getattr(panel, solver.replace("-", "_"))


@cache
def own(solver: str) -> dict[str, Own]:
    """The options of a solver besides those that all solvers share."""
    functions = [_function(reference, each) for each in (PRESETS.get(solver), solver) if each is not None]
    hints = {name: hint for function in functions for name, hint in options_of(function).items()}
    texts = {name: text for function in functions for name, text in _documented(function).items()}
    options = {}
    for name, parameter in _parameters(solver).items():
        kinds = dict(members(hints[name]))
        kind: Any = next((kind for kind in kinds if kind in KINDS or get_origin(kind) is CHOICE), None)
        if name in SHARED or (PRESETS.get(solver, solver), name) in UNREACHED or kind is None:
            continue
        usual = KINDS.get(kind)
        read = next((RANGES.get(mark, usual) for mark in kinds[kind] if isinstance(mark, Range)), usual)
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        kind, words = (kind, ()) if kind in KINDS else (str, get_args(kind))
        options[RENAMED.get((solver, name), name)] = Own(kind, words, default, texts.get(name, ""), read)
    return options


def _documented(function: Callable[..., Any]) -> dict[str, str]:
    """The first sentence of each parameter in a docstring, without its default."""
    texts = dict[str, str]()
    for each in parse(inspect.getdoc(function) or "", DocstringStyle.NUMPYDOC).params:
        text = re.sub(r":\w+:|``|`", "", " ".join((each.description or "").split()))
        sentence = re.split(r"(?<=\.) (?=[A-Z])|; default ", text)[0].rstrip(".")
        texts |= dict.fromkeys(each.arg_name.split(", "), sentence)
    return texts


def takes(solver: str, parameter: str) -> bool:
    """Whether a solver has a parameter."""
    return parameter in _parameters(solver)


def epochs_of(solver: str) -> int:
    """The default number of passes or iterations of a solver."""
    if solver == "lbfgs":
        return LBFGS_ITERATIONS
    parameters = _parameters(solver)
    return int(parameters["iterations" if "iterations" in parameters else "epochs"].default)


def listed(values: dict[str, Any]) -> str:
    """Values by name, for a help text."""
    texts = {name: f"{value:g}" if isinstance(value, float) else value for name, value in values.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def spelled(solvers: Iterable[str], name: str) -> str:
    """The option of a parameter, with the prefix ``no-`` for a truth value that is true by default."""
    option = next(own(solver)[name] for solver in solvers if name in own(solver))
    return f"--{'no-' if option.default is True else ''}{name.replace('_', '-')}"


def solver_options(solvers: Sequence[str], *, without: Iterable[str] = (), **notes: str) -> Any:
    """A field of a command for the solvers' own options that are given, by name; each is a rare option. notes: text in
    parentheses after an option's help, by name.
    """

    def add(sub: Parser, *_: Any) -> None:
        every: dict[str, dict[str, Own]] = {}
        for solver in solvers:
            for name, option in own(solver).items():
                every.setdefault(name, {})[solver] = option
        for name, of in every.items():
            if name in FLAGS or name in without:
                continue
            first, texts = next(iter(of.values())), dict[str, list[str]]()
            for solver, option in of.items():
                default = option.default is not None and not isinstance(option.default, bool)
                usual = f" (default: {option.default})" if default else ""
                texts.setdefault((option.help or name.replace("_", " ")) + usual, []).append(solver)
            help = "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
            help += f" ({notes[name]})" if name in notes else ""
            types = {option.type for option in of.values()}
            how: dict[str, Any] = {"type": first.type if len(types) == 1 else KINDS.get(first.kind)}
            if first.kind is bool:
                how = {"action": "store_const", "const": not first.default}
            elif first.kind is str:
                how = {"choices": list(dict.fromkeys(word for option in of.values() for word in option.choices))}
            sub.option("solver", spelled(solvers, name), dest=name, rare=True, help=help.replace("%", "%%"), **how)

    def told(values: dict[str, Any]) -> dict[str, Any]:
        return {name: values[name] for each in solvers for name in own(each) if values.get(name) is not None}

    return declared(add, of=told)


def given(values: dict[str, Any], solver: str, solvers: Iterable[str]) -> dict[str, Any]:
    """A solver's own parameters of the values for a command's solvers. ValueError for what only others have."""
    arguments = {}
    for name, value in ((name, value) for name, value in values.items() if value is not None):
        option = spelled(solvers, name)
        if name not in own(solver):
            having = ", ".join(each for each in solvers if name in own(each))
            raise ValueError(f"{option} has no effect with --optimizer {solver}; these have it: {having}")
        choices = own(solver)[name].choices
        if choices and value not in choices:
            raise ValueError(f"{option}: {solver} takes one of {', '.join(choices)}, got {value}")
        arguments[name] = value
    return arguments


def settings_of(command: Any, usual: dict[str, Any], solver: str, solvers: Iterable[str]) -> dict[str, Any]:
    """The settings of a command's run of one of its solvers; usual: its defaults."""
    shared = {name: value for name in usual if (value := getattr(command, name, None)) is not None}
    return usual | shared | given(command.solver, solver, solvers)


def check_start(solver: str, solvers: Iterable[str]) -> None:
    """Reject --start for a solver that chooses its own start."""
    if not takes(solver, "w0"):
        having = ", ".join(each for each in solvers if takes(each, "w0"))
        why = "starts from a point of its dual problem, which weights do not give"
        raise ValueError(f"--start: {solver} {why}; {having} take a start")


def solve(panel: ModuleType, solver: str, objective: Any, *, epochs: int | None = None, **arguments: Any) -> Result:
    """Run a solver of a panel, without arguments that the solver lacks and shared arguments that are None. Solvers
    that compute no duality gap get it at the end. Features of different scales are named in the message.
    """
    arguments["iterations" if takes(solver, "iterations") else "epochs"] = epochs
    renamed = {new: old for (name, old), new in RENAMED.items() if name == solver}
    arguments = {renamed.get(name, name): value for name, value in arguments.items()}
    left_out = [name for name in (*SHARED, "regularizer") if arguments.get(name) is None]
    arguments = {name: value for name, value in arguments.items() if takes(solver, name) and name not in left_out}
    if slow := slow_path(panel, solver.replace("-", "_"), objective, arguments):
        _say_once(slow)
    return advised(panel, _function(panel, solver)(objective, **arguments), objective, arguments)


@cache
def _say_once(line: str) -> None:
    """Print a line on stderr, once for all runs of a command."""
    print(line, file=sys.stderr)
