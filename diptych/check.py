"""The checks of ``diptych check``: versions, the packages' folders, threads, the kernel cache, a law of each structure
and a training of each loss.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import diptych
from diptych.panels import PANELS, panel_of
from reference import __version__
from reference.arrays import host
from reference.structures.scores import score_fields

STATUSES = ("ok", "cold", "slow to compile", "not installed", "not kept", "FAILED")
PACKAGES = ("reference", "accelerated", "diptych", "conformance")
REQUIRED = ("numpy", "scipy", "numba", "networkx", "array-api-compat", "docstring-parser", "tqdm")
OPTIONAL = {  # module, and the command that installs it
    "matplotlib": ("matplotlib", "pip install 'diptych[plots]'"),
    "scikit-learn": ("sklearn", "pip install 'diptych[estimators]'"),
    "torch": ("torch", "pip install 'diptych[torch]'"),
    "pytest": ("pytest", "pip install 'diptych[tests]'"),
    "hypothesis": ("hypothesis", "pip install 'diptych[tests]'"),
}
KERNELS = tuple(
    f"structures.{name}." for name in ("chain", "tree", "cut", "assignment", "arborescence_max", "boxes", "clique_tree")
)
KERNELS += ("epochs.bcfw.", "epochs.svrg.")  # the kernels that the checks run; the first use compiles a kernel
Draw = Callable[[Any, np.random.Generator], Any]  # (panel, generator) -> a small instance of a structure
CLOSE = 1e-9  # tolerance, relative to the largest number
LONG = 1.0  # seconds of compilation from which a check is reported as slow to compile


class Line(NamedTuple):
    """The result of one check: its status, one of STATUSES, and details.

    error: the largest relative difference from the expected value; None for a check without numbers.
    """

    group: str
    name: str
    status: str
    detail: str
    error: float | None = None


def checks(seed: int = 0) -> Iterator[Line]:
    """Run the checks one after another."""
    yield from _versions()
    yield from _packages()
    yield from _machine()
    for name, draw in STRUCTURES.items():
        yield _line("law", name, partial(_law, draw, seed))
    for name, train in TRAININGS.items():
        yield _line("training", name, partial(_training, train, seed))


# what is installed -------------------------------------------------------------------------------------------------


def _versions() -> Iterator[Line]:
    yield Line("version", "diptych", "ok", __version__)
    yield Line("version", "Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in REQUIRED:
        try:
            yield Line("version", name, "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Line("version", name, "FAILED", f"is needed: pip install {name}")
    for name, (module, command) in OPTIONAL.items():
        if importlib.util.find_spec(module) is None:
            yield Line("version", name, "not installed", f"optional: {command}")
        else:
            yield Line("version", name, "ok", importlib.metadata.version(name))


def _packages() -> Iterator[Line]:
    """The folder of each package. Two distributions that install a package of one name overwrite each other's files."""
    owners = importlib.metadata.packages_distributions()
    for name in PACKAGES:
        ours, spec = Path(diptych.__file__).parent.with_name(name), importlib.util.find_spec(name)
        if spec is None or spec.origin is None or not Path(spec.origin).parent.samefile(ours):
            found = "none" if spec is None else spec.origin or "a folder without __init__.py"
            yield Line("package", name, "FAILED", f"expected {ours}, but Python finds {found}")
        elif others := sorted(set(owners.get(name, ())) - {"diptych"}):
            yield Line("package", name, "FAILED", f"{ours} is also installed by {', '.join(others)}")
        else:
            yield Line("package", name, "ok", str(ours))


def _machine() -> Iterator[Line]:
    try:
        panel_of("accelerated")
        from accelerated.threads import get_num_threads

        threads = f"{get_num_threads()} of {os.cpu_count()} cores (DIPTYCH_NUM_THREADS sets another number)"
    except Exception as problem:
        yield Line("machine", "accelerated", "FAILED", _message(problem))
        return
    yield Line("machine", "threads", "ok", threads)
    yield Line("machine", "kernel cache", *_cache())


def _cache() -> tuple[str, str]:
    """Status and folder of the kernel cache; "cold" if some kernels of the checks are not compiled yet."""
    from accelerated import kernel

    folder, shipped = kernel.cache_folder(), kernel.shipped_kernels()
    if folder is None and shipped is None:
        return "not kept", "no folder can be written: compiled in each process (NUMBA_CACHE_DIR names another folder)"
    writable = "writable" if kernel.cache_is_writable() else "not writable: what is compiled now is not kept"
    where = ", then ".join(str(each) for each in (folder, shipped and shipped.path) if each is not None)
    if kernel.kernels_are_plain():
        return ("cold" if kernel.cache_is_cold() else "ok", f"{where}: plain kernels, {writable}")
    names = [name.removeprefix("accelerated.compiled.") for name in kernel.kernel_names()]
    if all(any(name.startswith(kernels) for name in names) for kernels in KERNELS):
        return "ok", f"{where}: warm, {writable}"
    return "cold", f"{where}: {writable}; the checks compile what is not there, which may take minutes"


# laws --------------------------------------------------------------------------------------------------------------


SQUARE = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])  # edges of a cycle of four

STRUCTURES: dict[str, Draw] = {
    "Chain": lambda sp, rng: sp.Chain(rng.normal(size=(4, 3)), rng.normal(size=(3, 3))),
    "Tree": lambda sp, rng: sp.Tree(rng.normal(size=(5, 2)), rng.normal(size=(2, 2)), np.array([-1, 0, 0, 1, 1])),
    "Table": lambda sp, rng: sp.Table(rng.normal(size=7)),
    "Cut": lambda sp, rng: sp.Cut(rng.normal(size=(4, 2)), np.eye(2) * rng.uniform(0, 1, (4, 1, 1)), SQUARE),
    "Matching": lambda sp, rng: sp.Matching(rng.normal(size=(3, 4))),
    "Arborescence": lambda sp, rng: sp.Arborescence(rng.normal(size=(3, 4))),
    "Boxes": lambda sp, rng: sp.Boxes(rng.normal(size=(3, 4))),
    "Graph": lambda sp, rng: sp.Graph(rng.normal(size=(4, 2)), rng.normal(size=(4, 2, 2)), SQUARE),
    "Segments": lambda sp, rng: sp.Segments(rng.normal(size=(3, 2, 2)), rng.normal(size=(2, 2))),
}


def _law(draw: Draw, seed: int) -> tuple[str, float]:
    """Compare best output, log-partition and marginals of a random instance with enumeration, in each panel."""
    worst, detail = 0.0, ""
    for name in PANELS:
        structure = draw(panel_of(name), np.random.default_rng(seed))
        outputs = list(structure.enumerate())
        parts = np.array([_vector(structure.parts(y)) for y in outputs])
        scores = np.array([float(structure.score(y)) for y in outputs])
        value, y = structure.best()
        _near(f"{name}: best output", float(structure.score(y)), scores.max())
        errors = [_near(f"{name}: best score", float(value), scores.max())]
        detail = f"best = enumeration of {len(outputs)} outputs"
        if structure.supports("expectation"):
            value, marginals = structure.expectation(0.7)
            weights = np.exp((scores - scores.max()) / 0.7)
            log_sum = scores.max() + 0.7 * np.log(weights.sum())
            errors.append(_near(f"{name}: log-partition", float(value), log_sum))
            errors.append(_near(f"{name}: marginals", _vector(marginals), weights / weights.sum() @ parts))
            detail += ", expectation = log-sum-exp"
        worst = max(worst, *errors)
    return detail, worst


def _vector(scores: Any) -> np.ndarray:
    return np.concatenate([host(field).ravel() for field in score_fields(scores)]).astype(np.float64)


# trainings ---------------------------------------------------------------------------------------------------------


def problem(sp: ModuleType, seed: int, loss: str, **options: Any) -> Any:
    """Twelve short sequences of five features and three labels that a linear model nearly separates."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 5)) for n in rng.integers(2, 6, size=12)]
    truth = rng.normal(size=(5, 3))
    model = sp.SequenceModel(5, 3)
    return getattr(sp, loss)(model, model.pack(X, [np.argmax(x @ truth, axis=1) for x in X]), **options)


def _smoothed(sp: ModuleType, seed: int) -> Any:
    return problem(sp, seed, "StructuralHinge", smoothing=sp.smoothings.Entropy())


TRAININGS: dict[str, Callable[[ModuleType, int], Any]] = {
    "StructuralHinge by bcfw": lambda sp, seed: sp.bcfw(
        problem(sp, seed, "StructuralHinge"), lam=0.1, epochs=200, tol=1e-3, rng=seed
    ),
    "LogLoss by lbfgs": lambda sp, seed: sp.lbfgs(problem(sp, seed, "LogLoss"), lam=0.1, tol=1e-8),
    "smoothed hinge by svrg": lambda sp, seed: sp.svrg(
        _smoothed(sp, seed), lam=0.1, mu=0.5, epochs=20, tol=1e-2, rng=seed
    ),
    "smoothed hinge by casimir": lambda sp, seed: sp.casimir(
        _smoothed(sp, seed), lam=0.1, mu=0.05, epochs=30, tol=0.1, rng=seed
    ),
}


def _training(train: Callable[[ModuleType, int], Any], seed: int) -> tuple[str, float]:
    """A small training in each panel: both reach the requested gap, and their objectives differ by at most this gap.

    The objectives need not be equal: rounding may decide whether a step is accepted.
    """
    results = {name: train(panel_of(name), seed) for name in PANELS}
    for name, result in results.items():
        if not result.success or isinstance(result.certificate, str):
            raise ArithmeticError(f"{name}: {result.message}; certificate: {result.certificate}")
    ours, theirs = results["accelerated"], results["reference"]
    error, gap = abs(ours.fun - theirs.fun), max(ours.certificate, theirs.certificate)
    if not error <= gap:
        raise ArithmeticError(f"objectives {ours.fun:.12g} and {theirs.fun:.12g} differ by more than the gap {gap:.1e}")
    return f"objectives of both panels, proved within {gap:.1e}", error


# one check ---------------------------------------------------------------------------------------------------------


def _line(group: str, name: str, check: Callable[[], tuple[str, float]]) -> Line:
    """The line of one check; an exception becomes a failure."""
    compiling: list[float] = []  # seconds
    try:
        with _timed_compilation(compiling.append):
            detail, error = check()
    except Exception as problem:
        return Line(group, name, "FAILED", _message(problem))
    if sum(compiling) >= LONG:
        return Line(group, name, "slow to compile", f"{detail}; {sum(compiling):.0f} s, once", error)
    return Line(group, name, "ok", detail, error)


def _timed_compilation(callback: Callable[[float], None]) -> AbstractContextManager[Any]:
    try:
        from numba.core.event import install_timer
    except ImportError:  # a missing numba has its own line
        return nullcontext()
    return install_timer("numba:compile", callback)


def _near(what: str, got: Any, expected: Any) -> float:
    """The largest difference, relative to the largest expected number or 1. ArithmeticError if it exceeds CLOSE."""
    difference = float(np.max(np.abs(np.asarray(got) - expected)))
    error = difference / max(1.0, float(np.max(np.abs(expected))))
    if not error <= CLOSE:
        raise ArithmeticError(f"{what}: expected {_short(expected)}, got {_short(got)}")
    return error


def _short(x: Any) -> str:
    return f"{float(x):.12g}" if np.ndim(x) == 0 else f"an array that differs ({np.size(x)} numbers)"


def _message(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".replace("\n", " ")
