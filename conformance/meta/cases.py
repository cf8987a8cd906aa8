"""A plugin: of the tests collected, keep those of ``--case BACKEND::TEST::WORD``, so that one process runs many cases.

WORD is a part of the test's name; it may be empty. Instances are made on the backends of a test's cases alone.
A case is over with its first failure.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from conformance import plugin
from conformance.plugin import backend_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--case", action="append", default=[])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    config = metafunc.config
    every, words = plugin._names(config), [given.split("::") for given in config.getoption("--case")]
    if words:
        mine = {backend for backend, test, _ in words if test == metafunc.function.__name__}
        config.stash[plugin._BACKENDS] = [name for name in every if name in mine]
    try:
        return (yield)
    finally:
        config.stash[plugin._BACKENDS] = every


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    words = {case: word for case, _, word in (given.rpartition("::") for given in config.getoption("--case"))}
    if words:
        items[:] = [
            item
            for item in items
            if isinstance(item, pytest.Function) and _case(item) in words and words[_case(item)] in item.name
        ]


def _case(item: pytest.Function) -> str:
    return f"{getattr(backend_of(item), '__name__', None)}::{item.originalname}"


CAUGHT: set[str] = set()


def pytest_runtest_setup(item: pytest.Function) -> None:
    if _case(item) in CAUGHT:  # one failure is enough: the mistake is caught
        pytest.skip("caught")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        CAUGHT.add(dict(report.user_properties)["case"])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Function) -> None:
    item.user_properties.append(("case", _case(item)))
