"""The panel under test as a module, which workers import by its name."""

from __future__ import annotations

import pytest


@pytest.fixture
def sp(backend):
    return backend.module
