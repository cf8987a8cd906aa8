"""First calls: what ``diptych warm`` runs, so that the kernels of everyday work are compiled before they are needed;
and files of these kernels, for other machines.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.check import STRUCTURES, problem
from diptych.elastic_net import elastic_net
from diptych.panels import panel_of
from reference.files import save_bytes


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


def _smooth(sp: ModuleType) -> Any:
    return _hinge(sp, sp.smoothings.Entropy())


def _log(sp: ModuleType) -> Any:
    return problem(sp, 0, "LogLoss")


def _proximal(sp: ModuleType) -> None:
    """The lasso, the group lasso and its square."""
    log = _log(sp)
    groups = np.arange(log.model.size) // 4
    for regularizer in (sp.L1(0.1), sp.L21(0.1, groups), sp.SquaredL21(0.1, groups)):
        sp.online_proximal(log, regularizer, step_size=0.1, epochs=1, rng=0)


def _kernels(sp: ModuleType) -> None:
    """Both losses over two kernels."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (2, 3)]
    model = sp.KernelSequenceModel([sp.kernels.Linear(), sp.kernels.Gaussian(1.0)], 3)
    data = model.pack(X, [rng.integers(0, 3, len(x)) for x in X])
    for loss in ("hinge", "crf"):
        sp.mkl(model, data, lam=0.1, step_size=0.2, loss=loss, epochs=1, rng=0)


def _sparse(sp: ModuleType) -> None:
    for solver in (None, sp.AcceleratedProximalGradient()):
        sp.solve_sparse(_log(sp), beta=0.01, solver=solver, iterations=20)


def _elastic_net(sp: ModuleType) -> None:
    found = elastic_net(_log(sp), l1=0.02, lam=0.01, tol=1e-2)
    elastic_net(_log(sp), found.x, l1=0.01, lam=0.01, tol=1e-2)


def _predict(sp: ModuleType) -> None:
    log = _log(sp)
    log.model.predict(log.data, None, log.zeros())


def _value(sp: ModuleType) -> None:
    log = _log(sp)
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


def _chunker(sp: ModuleType) -> None:
    sentences, Y = [{"word": ["the", "birds", "fly"]}, {"word": ["fish", "swim"]}], [["B-N", "I-N", "O"], ["B-N", "O"]]
    model = sp.ChunkingModel.of(sentences, Y, ["bias", "word[-1..1]"], longest=2)
    data = model.pack(sentences, Y)
    model.predict(data, None, sp.lbfgs(sp.LogLoss(model, data), lam=0.1, iterations=2).x)


def _parser(sp: ModuleType) -> None:
    sentences = [{"word": ["Birds", "fly", "south"]}, {"word": ["fish", "swim"]}]
    model = sp.ParsingModel([("h.word", "m.word"), ("direction", "distance")], bits=8, single_root=True)
    data = model.pack(sentences, [[2, 0, 2], [2, 0]])
    result = sp.bcfw(sp.StructuralHinge(model, data), lam=0.1, epochs=2, rng=0)
    model.predict(data, None, result.x)


FIRST_CALLS: dict[str, Callable[[ModuleType], Any]] = {  # those that compile longest come first
    "casimir with top-K smoothing": lambda sp: sp.casimir(_hinge(sp, sp.smoothings.TopK(5)), lam=0.1, epochs=1, rng=0),
    "casimir with entropy smoothing": lambda sp: sp.casimir(_smooth(sp), lam=0.1, epochs=1, rng=0),
    "casimir by saga": lambda sp: sp.casimir(_smooth(sp), lam=0.1, mu=0.5, inner="saga", epochs=1, rng=0),
    "svrg": lambda sp: sp.svrg(_log(sp), lam=0.1, epochs=1, rng=0),
    "mkl": _kernels,
    "online_proximal": _proximal,
    "multisample": lambda sp: sp.multisample(_hinge(sp), lam=0.1, epochs=2, rng=0),
    "bcfw of a parser": _parser,
    "bcfw": lambda sp: sp.bcfw(_hinge(sp), lam=0.1, epochs=200, rng=0),  # until working sets grow
    "exponentiated_gradient": lambda sp: sp.exponentiated_gradient(_log(sp), lam=0.1, epochs=2, rng=0),
    "elastic net": _elastic_net,
    "bcfw with l1": lambda sp: sp.bcfw(_hinge(sp), lam=0.1, l1=0.02, epochs=200, rng=0),
    "sgd on the log loss": lambda sp: sp.sgd(_log(sp), lam=0.1, epochs=1, rng=0),
    "lbfgs": lambda sp: sp.lbfgs(_log(sp), lam=0.1, iterations=2),
    "lbfgs of a tagger": _tagger,
    "lbfgs of a chunker": _chunker,
    "prox_linear": lambda sp: sp.prox_linear(_smooth(sp), lam=0.1, mu=0.5, iterations=1, rng=0),
    "solve_sparse": _sparse,
    "sparse_path": lambda sp: sp.sparse_path(_log(sp), count=3, iterations=20),
    "cutting_planes": lambda sp: sp.cutting_planes(_hinge(sp), lam=0.1, epochs=2),
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


# files of kernels -----------------------------------------------------------------------------------------------------


@contextmanager
def saved_for_level(path: str) -> Iterator[None]:
    """First calls made in the block compile for every processor of a level (:mod:`accelerated.kernel_archive`), and
    their kernels are written to a file, not kept here. Those of a file that is there are taken over if they fit. Raises
    ValueError where this cannot be done, and OSError.
    """
    from accelerated.kernel import source_hash
    from accelerated.kernel_archive import FOR_LEVEL, obstacle, save_archive

    _check_not_plain("--to")
    if reason := obstacle():
        raise ValueError(f"--to: kernels for other machines cannot be compiled here: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / f"diptych-{source_hash()}"
        kept.mkdir()
        with suppress(FileNotFoundError, ValueError):  # made for anything else, or not of kernels
            kept_from(path, kept)
        before = dict(os.environ)
        os.environ.update(FOR_LEVEL, NUMBA_CACHE_DIR=folder)  # the processes that compile read it
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
        files = [each for each in Path(folder).rglob("*") if each.is_file()]
        save_archive(path, source_hash(), {each.name: each.read_bytes() for each in files})


def kept_from(path: str, folder: Path) -> list[str]:
    """Put the kernels of a file into the folder of compiled kernels; their names.

    Raises ValueError for a file that is damaged or made for anything else than what is here, and OSError.
    """
    from accelerated.kernel import source_hash
    from accelerated.kernel_archive import Archive

    _check_not_plain("--from")
    archive = Archive(path, source_hash())
    for name in archive.names:
        save_bytes(folder / name, archive.read(name) or b"")
    return archive.names


def _check_not_plain(option: str) -> None:
    from accelerated.kernel import kernels_are_plain

    if kernels_are_plain():
        raise ValueError(f"{option}: kernels are plain here, and only others can be taken to another machine")
