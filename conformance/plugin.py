"""The suite's own pytest plugin: backends, namespaces and dtypes as axes; devices and known gaps of a backend."""

from __future__ import annotations

import fnmatch
import importlib
import tempfile
from collections.abc import Generator
from types import ModuleType
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis.configuration import set_hypothesis_home_dir

import reference
from conformance import namespaces

PANELS = ("reference", "accelerated")
PROMISES = ("exact selections",)  # what a module may promise beyond rounding, in its __conformance_promises__
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

    def promises(self, what: str) -> bool:
        """Whether the module declares a promise of ``PROMISES``, to which the laws then hold it."""
        assert what in PROMISES, what
        return what in getattr(self.module, "__conformance_promises__", ())

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
    group.addoption(
        "--backend", action="append", default=[], help="a module with the API (repeatable; default: both panels)"
    )
    group.addoption(
        "--examples",
        type=int,
        default=None,
        help="draw so many random instances a test (default: 40, the same each time)",
    )
    group.addoption(
        "--namespace",
        action="append",
        default=[],
        help="run only on this namespace, such as torch (repeatable; default: all that are installed)",
    )
    group.addoption(
        "--device",
        default=None,
        help="the device of each --namespace, in its library's words, such as cuda (default: cpu)",
    )
    group.addoption(
        "--no-shrink", action="store_true", help="report a failing instance as drawn: faster, but not the simplest"
    )


def pytest_configure(config: pytest.Config) -> None:
    home = tempfile.TemporaryDirectory()  # whatever hypothesis would leave in the working folder
    config.add_cleanup(home.cleanup)
    set_hypothesis_home_dir(home.name)
    try:
        found, missing = namespaces.spaces(config.getoption("--namespace"), config.getoption("--device"))
    except ValueError as problem:
        raise pytest.UsageError(str(problem)) from None
    _SPACES[:] = found
    _MISSING.clear()
    _MISSING.update(missing)
    given = config.getoption("--examples")
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate, hypothesis.Phase.shrink]
    hypothesis.settings.register_profile(
        "conformance",
        max_examples=given or 40,
        derandomize=given is None,
        deadline=None,
        database=None,
        phases=phases[:2] if config.getoption("--no-shrink") else phases,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("conformance")


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = [f"backend {name}: {importlib.import_module(name).__file__}" for name in _names(config)]
    return (
        lines
        + [f"namespace {name}: run" for name in dict.fromkeys(space.name for space in _SPACES)]
        + [f"namespace {name}: not installed" for name in _MISSING]
    )


def _names(config: pytest.Config) -> list[str]:
    names = config.getoption("--backend") or list(PANELS)
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
        metafunc.parametrize("space", _SPACES, ids=[f"{s.name}-{s.dtype}" for s in _SPACES])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the known gaps of each backend as strict expected failures; a gap that matches no test is an error."""
    selected = config.option.keyword or config.getoption("--namespace")
    whole = not selected and len({item.fspath for item in items}) > 3
    for name in _names(config):
        for pattern, reason in getattr(importlib.import_module(name), "__conformance_gaps__", {}).items():
            matching = [item for item in items if fnmatch.fnmatch(item.nodeid, pattern) and f"[{name}" in item.nodeid]
            for item in matching:  # strict: a gap that has closed fails until its line is taken out
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
            elsewhere = any(missing in pattern for missing in _MISSING)  # of a namespace that is not installed
            if whole and not matching and not elsewhere:
                raise pytest.UsageError(f"{name}.__conformance_gaps__: {pattern!r} matches no test")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """On a device that its backend does not declare, a test passes or ends in a refusal: no other error, no copy."""
    try:
        return (yield)
    except Exception as problem:
        given = pyfuncitem.callspec.params if hasattr(pyfuncitem, "callspec") else {}
        backend, space = given.get("backend", given.get("other")), given.get("space")
        if backend is not None and space is not None and backend.refuses(problem, space.device):
            pytest.xfail(f"refused: {problem}")
        raise


@pytest.fixture
def rng() -> np.random.Generator:
    """The same draws in every run."""
    return np.random.default_rng(20)
