"""The suite's own pytest plugin: backends, namespaces and dtypes as axes; devices and known gaps of a backend."""

from __future__ import annotations

import contextlib
import fnmatch
import gc
import importlib
import importlib.metadata
import itertools
import tempfile
import zlib
from collections.abc import Generator
from types import ModuleType
from typing import Any

import hypothesis
import numba
import numpy as np
import pytest
from hypothesis.configuration import set_hypothesis_home_dir

import reference
from conformance import namespaces, options
from conformance.reports import Report

PANELS = ("reference", "accelerated")
PROMISES = (
    "exact selections",
    "checked kernels",
)  # values of a module's __conformance_promises__: more than equality up to rounding
DRAWS = {"first": 5, "rest": 5, "all": 16}  # random instances of a test, by tier
FEW = 3  # instances of a test on a backend in the first tier, of those that it is parametrised by
FITS = {"models", "objectives", "optimizers", "panels"}  # folders: two, and one on kernels, compiled for each problem
LONG = {"application", "distributed"}  # folders: one, and on the reference alone
SPREAD = 5  # one instance in so many of a test on a backend runs on each further space in the rest
_BACKENDS = pytest.StashKey[list[str]]()
_SPACES: list[namespaces.Space] = []  # of this run
_MISSING: dict[str, str] = {}


class Backend:
    """A backend under test; a test that asks it for a name that it lacks is skipped (``test_names`` fails instead)."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.__name__ = module.__name__

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.module, name):
            if name not in reference.__all__:
                raise AttributeError(name)
            # test_names fails for this name, once; failing here as well would bury that
            pytest.skip(f"{self.module.__name__} has no {name}")
        return getattr(self.module, name)

    def __repr__(self) -> str:
        return self.__name__

    def promises(self, what: str) -> bool:
        """Whether the module declares a promise of ``PROMISES``, to which the laws then hold it."""
        assert what in PROMISES, what
        return what in getattr(self.module, "__conformance_promises__", ())

    def requires(self, what: str) -> None:
        """Skip the test unless the module declares this promise."""
        if not self.promises(what):
            pytest.skip(f"{self.__name__} does not promise {what}")

    def computes_on(self, device: str) -> bool:
        """Whether the module takes arrays of a device: any, unless its ``__conformance_devices__`` says which."""
        devices = getattr(self.module, "__conformance_devices__", None)
        return devices is None or any(name in device.lower() for name in devices)

    def refuses(self, problem: Exception, device: str) -> bool:
        """Whether an error says that the module does not take arrays of a device: a TypeError that names it."""
        each = problem.exceptions if isinstance(problem, ExceptionGroup) else [problem]  # of several drawn instances
        named = all(isinstance(one, TypeError) and device in str(one) for one in each)
        return named and not self.computes_on(device)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    for name, settings in options.OPTIONS.items():
        group.addoption(name, **settings)


@pytest.hookimpl(tryfirst=True)  # hypothesis reads its seed in a hook
def pytest_configure(config: pytest.Config) -> None:
    if numba.config.DISABLE_JIT:
        raise pytest.UsageError("NUMBA_DISABLE_JIT is set: the laws are held by compiled kernels; unset it")
    gc.disable()  # thousands of tests are made and none is freed: looking for garbage takes two fifths of the time
    home = tempfile.TemporaryDirectory()  # whatever hypothesis would leave in the working folder
    config.add_cleanup(home.cleanup)
    set_hypothesis_home_dir(home.name)
    try:
        first = ["numpy"] if config.getoption("--tier") == "first" else []  # the other libraries are slow to import
        found, missing = namespaces.spaces(config.getoption("--namespace") or first, config.getoption("--device"))
    except ValueError as problem:
        raise pytest.UsageError(str(problem)) from None
    _SPACES[:] = [space for space in found if _first(space)] if first else found
    _MISSING.clear()
    _MISSING.update(missing)
    config.addinivalue_line("markers", "beyond(reason): not in the first tier; the reason says why")
    given = config.getoption("--examples")
    seed = config.option.seed = options.seed_of(given, config.getoption("--seed"))
    if seed is not None:
        config.option.hypothesis_seed = str(seed)  # processes of xdist get the options as they are now
    if config.getoption("--report") and not hasattr(config, "workerinput"):
        try:
            config.pluginmanager.register(Report(config.getoption("--report")))
        except OSError as problem:
            raise pytest.UsageError(f"--report {config.getoption('--report')}: {problem.strerror}") from None
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate, hypothesis.Phase.shrink]
    hypothesis.settings.register_profile(
        "conformance",
        max_examples=given or DRAWS[config.getoption("--tier")],
        derandomize=seed is None,
        deadline=None,
        database=None,
        phases=phases[:2] if config.getoption("--no-shrink") else phases,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("conformance")
    _draw_by_the_seed_alone()


def _draw_by_the_seed_alone() -> None:
    """Keep hypothesis from drawing constants of the modules that are loaded: a test would depend on which others run.

    No setting of hypothesis does this; versions before 6.131 draw none.
    """
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: False  # type: ignore[attr-defined]


def _first(space: namespaces.Space) -> bool:
    """Whether the first tier runs on this space."""
    return (space.name, space.dtype) == ("numpy", "float64")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Say what runs, unless by ``-qq``: backends, the seed of random instances, namespaces."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput") and terminal.verbosity > -2:
        for line in _header(session.config):
            terminal.write_line(line)


def _header(config: pytest.Config) -> list[str]:
    lines = [f"backend {name}: {importlib.import_module(name).__file__}" for name in _names(config)]
    if (seed := config.getoption("--seed")) is not None:
        count = config.getoption("--examples") or DRAWS[config.getoption("--tier")]
        lines.append(f"{count} random instances a test: --examples {count} --seed {seed} draws the same")
    return (
        lines
        + [f"namespace {name}: run" for name in dict.fromkeys(space.name for space in _SPACES)]
        + [f"namespace {name}: not installed" for name in _MISSING]
    )


def _names(config: pytest.Config) -> list[str]:
    """The backends of a run, each of them checked once."""
    if _BACKENDS not in config.stash:
        offered = {point.name: point.value for point in importlib.metadata.entry_points(group="diptych.backends")}
        names = config.getoption("--backend") or list(PANELS)
        config.stash[_BACKENDS] = _checked([offered.get(name, name) for name in names])
    return config.stash[_BACKENDS]


def _checked(names: list[str]) -> list[str]:
    for name in names:
        try:
            module = importlib.import_module(name)
        except ImportError as problem:
            raise pytest.UsageError(f"--backend {name}: cannot be imported: {problem}") from None
        if not any(hasattr(module, public) for public in reference.__all__):
            raise pytest.UsageError(f"--backend {name}: has none of the names of reference.__all__")
        if unknown := set(getattr(module, "__conformance_promises__", ())) - set(PROMISES):
            raise pytest.UsageError(f"{name}.__conformance_promises__: {unknown} is none of {PROMISES}")
        if isinstance(devices := getattr(module, "__conformance_devices__", ()), str):
            raise pytest.UsageError(f"{name}.__conformance_devices__: expected a tuple of names, got {devices!r}")
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        backends = [Backend(importlib.import_module(name)) for name in _names(metafunc.config)]
        metafunc.parametrize("backend", backends, ids=[b.__name__ for b in backends])
    if "other" in metafunc.fixturenames:  # agreement: each backend but the reference, against the reference
        others = [Backend(importlib.import_module(name)) for name in _names(metafunc.config) if name != "reference"]
        metafunc.parametrize("other", others, ids=[b.__name__ for b in others])
    if "space" in metafunc.fixturenames:
        panels = [space for space in _SPACES if space.name not in namespaces.LAYERS]
        metafunc.parametrize("space", panels, ids=repr)


def spaces_of_layers() -> list[namespaces.Space]:
    """Those of this run on which the laws of layers run."""
    return [space for space in _SPACES if space.name in namespaces.LAYERS]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the known gaps of each backend as strict expected failures; a gap that matches no test is an error."""
    tier = config.getoption("--tier")
    if tier != "all":
        first = _first_tier(items)
        kept = first if tier == "first" else _rest_tier(items, first)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    selected = config.option.keyword or config.getoption("--namespace") or tier != "all"
    whole = not selected and len({item.fspath for item in items}) > 3
    for name in _names(config):
        for pattern, reason in getattr(importlib.import_module(name), "__conformance_gaps__", {}).items():
            matching = [item for item in items if fnmatch.fnmatch(item.nodeid, pattern) and f"[{name}" in item.nodeid]
            for item in matching:  # strict: a gap that has closed fails until its line is taken out
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
            elsewhere = any(missing in pattern for missing in _MISSING)  # of a namespace that is not installed
            if whole and not matching and not elsewhere:
                raise pytest.UsageError(f"{name}.__conformance_gaps__: {pattern!r} matches no test")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what failed: each law by its place in the package, wherever that is installed, and what it says."""
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, []):
            said = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
            lines = said.strip().splitlines() or [""]
            terminalreporter.write_line(f"{kind.upper()} conformance/{report.nodeid} - {lines[0]:.160}")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # the tests stay to the end
    gc.enable()


def parameters(item: pytest.Item) -> dict[str, Any]:
    """What a test is parametrised by."""
    return item.callspec.params if hasattr(item, "callspec") else {}


def backend_of(item: pytest.Item) -> Any:
    """The backend that a test runs on, None for a test of the project."""
    given = parameters(item)
    return next((given[name] for name in ("backend", "other", "estimators") if name in given), None)


def is_beyond(item: pytest.Item) -> bool:
    """Whether a test is marked beyond, or is one of commands or partitions on kernels: the panels agree elsewhere."""
    kernels = str(backend_of(item)) == "accelerated" and item.path.parent.name in LONG
    return kernels or item.get_closest_marker("beyond") is not None


def _first_tier(items: list[pytest.Item]) -> set[pytest.Item]:
    """What is not marked beyond, on NumPy in float64; of a test on a backend a few instances, from first to last."""
    tests: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        space = _space(item)
        first = not isinstance(space, namespaces.Space) or _first(space)
        backend = backend_of(item) or item.nodeid  # of none: each instance
        if not is_beyond(item) and first:
            tests.setdefault((item.nodeid.partition("[")[0], str(backend)), []).append(item)
    return {
        instances[k]
        for instances in tests.values()
        for k in np.linspace(0, len(instances) - 1, min(_few(instances[0]), len(instances))).astype(int)
    }


def _few(item: pytest.Item) -> int:
    """How many instances of a test the first tier has on its backend."""
    folder, kernels = item.path.parent.name, str(backend_of(item)) == "accelerated"
    if folder in LONG or (kernels and folder in FITS):
        return 1
    return 2 if folder in FITS else FEW


def _rest_tier(items: list[pytest.Item], first: set[pytest.Item]) -> set[pytest.Item]:
    """Of what the first tier leaves out: each value of a parameter beside each value of every other one, the backend
    too, but not each product of three; of a test on a further space one instance in SPREAD, each space another one: all
    of them together have them all.
    """
    kept, further, met = set(), {}, set().union(*map(_pairs, first))
    for item in filter(_further, items):
        law = item.nodeid.partition("[")[0], str(backend_of(item))
        further.setdefault(law, {}).setdefault(repr(_space(item)), []).append(item)
    for item in sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode())):  # so that backends take turns
        if not _further(item) and (pairs := _pairs(item) - met):
            met |= pairs
            kept.add(item)
    for law, spaces in further.items():
        start = zlib.crc32("".join(law).encode())
        for k, instances in enumerate(spaces.values(), start):
            step = min(SPREAD, len(instances))
            kept.update(instances[k % step :: step])
    return kept


def _pairs(item: pytest.Item) -> set[tuple[Any, ...]]:
    """A test with each two of its parameters, or with the one that it has, or alone."""
    values = [(name, id(value)) for name, value in parameters(item).items()]
    size = min(2, len(values))
    return {(item.nodeid.partition("[")[0], *each) for each in itertools.combinations(values, size)}


def _space(item: pytest.Item) -> Any:
    return parameters(item).get("space", parameters(item).get("layer"))


def _further(item: pytest.Item) -> bool:
    """Whether a test runs on another space than those which have all its instances: NumPy and layers in float64."""
    space = _space(item)
    own = ("numpy", *namespaces.LAYERS)
    return isinstance(space, namespaces.Space) and (space.name not in own or space.dtype != "float64")


def _drawn(item: pytest.Item) -> bool:
    """Whether a test draws random instances."""
    return hypothesis.is_hypothesis_test(getattr(item, "obj", None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Further fields of ``--report``: the backend, and the last instance of hypothesis."""
    report = yield
    if isinstance(backend := backend_of(item), Backend):
        report.user_properties.append(("backend", backend.__name__))
    notes = getattr(call.excinfo.value, "__notes__", []) if call.excinfo else []
    if notes and _drawn(item):  # its arguments, then what it drew
        report.user_properties.append(("instance", "\n".join(notes)))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """On a device that its backend does not declare, a test passes or ends in a refusal: no other error, no copy."""
    try:
        return (yield)
    except Exception as problem:
        backend, space = backend_of(pyfuncitem), parameters(pyfuncitem).get("space")
        if backend is not None and space is not None and backend.refuses(problem, space.device):
            pytest.xfail(f"refused: {problem}")
        raise


@pytest.fixture
def rng() -> np.random.Generator:
    """The same draws in every run."""
    return np.random.default_rng(20)
