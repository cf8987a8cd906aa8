"""Options are declared in signatures: each has an annotation and a text; what the annotation excludes is refused."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest

import reference
from reference.declared import (
    LEAST_LAM,
    Ge,
    Gt,
    Normal,
    OpenUnit,
    Range,
    Strength,
    check_of,
    choices_of,
    members,
    options_of,
)

GIVEN = {"lam": 0.1, "step_size": 0.1, "beta": 0.1}  # where there is no default
POSITIONAL = {"objective", "w0", "model", "data", "regularizer", "betas", "options"}
# checked by the objects that they become, or taken for true or false
ELSEWHERE = {"rng", "callback", "checkpoint", "resume", "schedule", "penalty", "project", "rule", "solver"}
ELSEWHERE |= {"line_search", "online", "fixed_eta"}
ELSEWHERE |= {"inner", "alpha"}  # of prox_linear: a function alone; of sparse_path: a number or a sequence


def parameters(name):
    return inspect.signature(getattr(reference, name)).parameters


LEARNERS = [
    name
    for name in reference.__all__
    if inspect.isfunction(getattr(reference, name)) and {"callback", "options"} & parameters(name).keys()
]
CHECKPOINTED = [name for name in LEARNERS if "checkpoint" in parameters(name)]


def declared(name):
    """The options of a learner by name, with their annotations."""
    return {option: hint for option, hint in options_of(getattr(reference, name)).items() if option not in POSITIONAL}


def documented(function):
    """The names in the section Parameters of a docstring, with how often they are there."""
    _, _, section = inspect.cleandoc(function.__doc__).partition("Parameters\n----------\n")
    lines = section.partition("\n\nReturns\n")[0].splitlines()
    return Counter(word for line in lines if line[:1].strip() for word in line.partition(" :")[0].split(", "))


def wrong(option, hint):
    """Values that an annotation excludes, each with the type of the error and what is said."""
    kinds = dict(members(hint))
    none = () if type(None) in kinds else (None,)
    for kind, marks in kinds.items():
        ranges = [mark for mark in marks if isinstance(mark, Range)]
        if kind is int:
            said = f"{option}: expected an integer >= {ranges[0].least}, got "
            yield from ((value, TypeError, f"{said}{value!r}") for value in ("1", 1.5, True, *none))
            yield ranges[0].least - 1, ValueError, f"{said}{ranges[0].least - 1}"
        elif kind is float:
            for value in ("a", "1", True, np.ones(1), np.ones(2), *none):
                yield value, TypeError, f"{option}: expected a number, got {type(value).__name__}"
            outside = (value for mark in ranges for value in (np.nan, np.inf, *mark.outside))
            yield from ((value, ValueError, f"{option}: ") for value in outside)
        elif get_origin(kind) is Literal:
            yield from ((value, ValueError, f"{option}: expected ") for value in ("no such choice", 1, get_args(kind)))


def test_the_learners_are_found():
    some = {"sgd", "svrg", "casimir", "casimir_svrg_adapt", "bcfw", "mkl", "solve_sparse", "sparse_path"}
    assert some <= set(LEARNERS)
    assert choices_of(reference.sgd, "average") == ("last", "uniform", "weighted")


@pytest.mark.parametrize("name", LEARNERS)
def test_each_option_is_annotated_and_documented_once(name):
    """And what is annotated is checked, unless it is checked elsewhere."""
    function, names = getattr(reference, name), parameters(name).keys() - {"options"}
    assert not [each for each in names if options_of(function).get(each, Any) is Any]
    assert {each: documented(function)[each] for each in names} == dict.fromkeys(names, 1)
    assert not [each for each, hint in declared(name).items() if check_of(each, hint) is None and each not in ELSEWHERE]


@pytest.mark.parametrize("name", LEARNERS)
def test_what_an_annotation_excludes_is_refused(backend, name):
    """By name, and before anything is computed: there is no objective yet."""
    learner, tried = getattr(backend, name), 0
    given = {each: GIVEN[each] for each, parameter in parameters(name).items() if each in GIVEN}
    given = {each: value for each, value in given.items() if parameters(name)[each].default is inspect.Parameter.empty}
    places = [object()] * (2 if name in ("mkl", "online_proximal") else 1)
    for option, hint in declared(name).items():
        if check_of(option, hint) is None:
            continue
        for value, kind, said in wrong(option, hint):
            with pytest.raises(kind, match=f"^{re.escape(said)}"):
                learner(*places, **{**given, option: value})
            tried += 1
    assert tried


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_options_of_a_run_are_given_by_name(backend, name):
    """An option that there is not is refused by name, though all others are handed on."""
    learner = getattr(backend, name)
    own = inspect.signature(learner).parameters
    assert {"callback", "checkpoint", "resume"} <= own.keys() and "run" not in own
    for option in own.keys() & {"epochs", "tol", "rng", "callback", "checkpoint", "resume"}:
        assert own[option].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'epoch'"):
        learner(None, epoch=3)
    with pytest.raises(TypeError, match=rf"{name}\(\) missing .*argument"):
        learner()


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        (Ge(0), (0.0, 5e-324), (-5e-324,)),
        (Gt(0), (5e-324,), ()),
        (OpenUnit(), (5e-324, np.nextafter(1.0, 0.0)), ()),
        (Normal(), (np.finfo(float).tiny,), (np.nextafter(np.finfo(float).tiny, 0.0),)),
        (Strength(), (0.0, LEAST_LAM), (np.nextafter(LEAST_LAM, 0.0),)),
        (Strength(dual=True), (LEAST_LAM,), (np.nextafter(LEAST_LAM, 0.0),)),
    ],
    ids=repr,
)
def test_a_range_ends_where_it_says(kind, inside, outside):
    """The numbers next to its ends, and those that the refusals are drawn from."""
    for value in inside:
        kind.check("x", value)
    for value in (*outside, *kind.outside, np.inf, np.nan):
        with pytest.raises(ValueError, match="^x: "):
            kind.check("x", value)
    with np.errstate(over="ignore"):
        assert np.isfinite(1 / np.float64(LEAST_LAM)) and np.isinf(1 / np.nextafter(LEAST_LAM, 0.0))
