"""First calls: what ``diptych warm`` runs, so that the kernels of everyday work are compiled before they are needed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import ModuleType
from typing import Any

import numpy as np

from diptych.check import STRUCTURES, problem
from diptych.panels import panel_of


def _questions(name: str) -> Callable[[ModuleType], Any]:
    """The structure's answers to everything that it can be asked."""

    def ask(sp: ModuleType) -> None:
        structure = STRUCTURES[name](sp, np.random.default_rng(0))
        for method, arguments in {"best": (), "topk": (3,), "expectation": (), "max_marginals": ()}.items():
            if structure.supports(method) and method not in structure.intractable:
                getattr(structure, method)(*arguments)

    return ask


def _hinge(sp: ModuleType, smoothing: Any = None) -> Any:
    return problem(sp, 0, "StructuralHinge", smoothing=smoothing)


def _predict(sp: ModuleType) -> None:
    log = problem(sp, 0, "LogLoss")
    log.model.predict(log.data, None, log.zeros())


def _value(sp: ModuleType) -> None:
    log = problem(sp, 0, "LogLoss")
    log.value(log.zeros())
    log.value_and_gradient(log.zeros())


def _tagger(sp: ModuleType) -> None:
    sentences = [{"word": ["Birds", "fly", "south"]}, {"word": ["fish", "swim"]}]
    Y = [["N", "V", "A"], ["N", "V"]]
    model = sp.TaggingModel.of(sentences, Y, ["bias", "word[-1..1]"])
    data = model.pack(sentences, Y)
    result = sp.lbfgs(sp.LogLoss(model, data), lam=0.1, iterations=2)
    model.predict(data, None, result.x)
    model.bound(result.x)(sentences)


def _parser(sp: ModuleType) -> None:
    sentences = [{"word": ["Birds", "fly", "south"]}, {"word": ["fish", "swim"]}]
    model = sp.ParsingModel([("h.word", "m.word"), ("direction", "distance")], bits=8, single_root=True)
    data = model.pack(sentences, [[2, 0, 2], [2, 0]])
    result = sp.bcfw(sp.StructuralHinge(model, data), lam=0.1, epochs=2, rng=0)
    model.predict(data, None, result.x)


FIRST_CALLS: dict[str, Callable[[ModuleType], Any]] = {  # those that compile longest come first
    "casimir with top-K smoothing": lambda sp: sp.casimir(_hinge(sp, sp.smoothings.TopK(5)), lam=0.1, epochs=1, rng=0),
    "casimir with entropy smoothing": lambda sp: sp.casimir(
        _hinge(sp, sp.smoothings.Entropy()), lam=0.1, epochs=1, rng=0
    ),
    "bcfw of a parser": _parser,
    "bcfw": lambda sp: sp.bcfw(_hinge(sp), lam=0.1, epochs=2, rng=0),
    "exponentiated_gradient": lambda sp: sp.exponentiated_gradient(problem(sp, 0, "LogLoss"), lam=0.1, epochs=2, rng=0),
    "sgd on the log loss": lambda sp: sp.sgd(problem(sp, 0, "LogLoss"), lam=0.1, epochs=1, rng=0),
    "lbfgs": lambda sp: sp.lbfgs(problem(sp, 0, "LogLoss"), lam=0.1, iterations=2),
    "lbfgs of a tagger": _tagger,
    "sgd on the hinge": lambda sp: sp.sgd(_hinge(sp), lam=0.1, epochs=1, rng=0),
    "predict": _predict,
    "value and gradient of the log loss": _value,
    **{f"{name}: best, K best, sums": _questions(name) for name in STRUCTURES if name != "Table"},
}


DEMO = ("sgd on the log loss", "predict", "value and gradient of the log loss")  # what ``diptych demo`` compiles


def first_call(name: str) -> str:
    """Make one of the calls in this process; compiled kernels stay in the cache. Returns its name."""
    FIRST_CALLS[name](panel_of("accelerated"))
    return name


def _first_call(name: str) -> tuple[str, set[str]]:
    from accelerated.kernel_files import KernelFiles

    return first_call(name), KernelFiles.written


def warm(processes: int, names: Iterable[str] = FIRST_CALLS) -> Iterator[tuple[str, set[str]]]:
    """Make first calls in several processes; as they end, the names, and the files that their process has written.

    Numba compiles one function at a time in a process, so that threads would not help.
    """
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_first_call, name) for name in names]):
            yield done.result()
