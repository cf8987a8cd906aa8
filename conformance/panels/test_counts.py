"""Counted work is what was kept: ``python -m conformance.counts`` says the same of all counts."""

from __future__ import annotations

import pytest

from conformance.counts import COUNTS, kept


def held(name):
    value, expected, within = COUNTS[name].measure(), kept()[name], COUNTS[name].within
    assert abs(value - expected) <= within * expected, f"{value} {COUNTS[name].unit}, kept {expected}"


@pytest.mark.parametrize("name", [name for name, count in COUNTS.items() if count.warm])
def test_counted_work(name):
    """Oracle calls, entries, bytes: more is a loss, less is to be kept by ``python -m conformance.counts record``."""
    held(name)


@pytest.mark.beyond("starts processes that compile")
@pytest.mark.parametrize("name", [name for name, count in COUNTS.items() if not count.warm])
def test_compiled_specialisations(name):
    held(name)


def test_every_count_is_kept():
    assert list(kept()) == list(COUNTS)
