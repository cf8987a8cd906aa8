"""``diptych warm``: every first call is made, in processes of their own, and answers."""

from __future__ import annotations

import pytest

from conformance.application.test_app import printed, reported
from diptych.check import STRUCTURES
from diptych.warm import FIRST_CALLS, first_call


@pytest.mark.parametrize("name", FIRST_CALLS)
def test_a_first_call_is_one_that_works(name):
    assert first_call(name) == name


def test_every_structure_with_kernels_is_among_them():
    assert {name.split(":")[0] for name in FIRST_CALLS} >= STRUCTURES.keys() - {"Table"}


@pytest.mark.beyond("starts processes")
def test_the_calls_are_made_and_told(backend, capsys):
    report = reported(backend, capsys, "warm", "--processes", 2)
    assert sorted(report["calls"]) == sorted(FIRST_CALLS) and report["seconds"] > 0
    assert "0 kernels compiled" in printed(backend, capsys, "warm", "--processes", 1)  # all were kept
