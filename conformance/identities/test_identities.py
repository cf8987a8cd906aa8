"""Every law of ``reference.identities`` holds on drawn instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.identities import measure, papers

LAWS = [law for laws in papers().values() for law in laws]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.number} {law.says}")
@given(seed=st.integers(0, 2**32))
def test_each_law_holds(backend, law, seed):
    found = measure(law, backend, seed, 0)
    assert found.holds, found
