"""A backend has every public name; what is missing is said, one line each."""

from __future__ import annotations

import pytest

import reference


@pytest.mark.parametrize("name", reference.__all__)
def test_name_is_there(backend, name):
    assert hasattr(backend.module, name), f"{backend.__name__} lacks {name}"
