"""Counted work is what was kept: ``python -m conformance.counts`` says the same of all counts."""

from __future__ import annotations

import json

import pytest

from conformance.counts import COUNTS, compared, kept


def held(name):
    (row,) = compared({name: float(COUNTS[name].measure())})
    assert row["same"], row


@pytest.mark.parametrize("name", [name for name, count in COUNTS.items() if count.warm])
def test_counted_work(name):
    """Oracle calls, entries, bytes: more is a loss, less is to be kept by ``python -m conformance.counts record``."""
    held(name)


@pytest.mark.beyond("starts processes that compile")
@pytest.mark.parametrize("name", [name for name, count in COUNTS.items() if not count.warm])
def test_compiled_specialisations(name):
    held(name)


def test_differences_are_seen():
    """To the last unit where nothing rounds, and beyond what rounding may change elsewhere."""
    assert all(row["same"] for row in compared(kept()))
    assert not any(row["same"] for row in compared({name: value * 1.11 for name, value in kept().items()}))
    exact = {name: value + 1 for name, value in kept().items() if COUNTS[name].within == 0}
    assert len(exact) >= 5 and not any(row["same"] for row in compared(exact))
    json.dumps(compared(kept()))
    assert list(kept()) == list(COUNTS)
