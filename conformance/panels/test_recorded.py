"""What was recorded: messages, counts and outcomes of the learners (numbers to 1e-9), and counted work."""

from __future__ import annotations

import json
import warnings

import pytest

from conformance.counts import COUNTS, compared, kept
from conformance.golden.records import all_differences, differences, path_of, read, record
from conformance.golden.runs import FAMILIES, runs
from reference import Result, Row

SHOWN = 20


@pytest.mark.beyond("hundreds of runs")
@pytest.mark.parametrize("family", FAMILIES)
def test_runs_come_to_what_was_recorded(pytestconfig, backend, family):
    """``python -m conformance.golden compare`` says the same, ``record`` writes down anew what is meant to differ.
    In the rest tier every other run, the others on the other panel.
    """
    if not path_of(backend.__name__).exists():  # a third backend's runs are its own
        pytest.skip(f"no runs of {backend.__name__} were recorded")
    then, now = read(backend.__name__), runs(backend, [family])
    assert len(then) >= 300
    for name in [*now][backend.__name__ == "reference" :: 2] if pytestconfig.getoption("--tier") == "rest" else ():
        del then[name], now[name]
    lines = list(all_differences(then, {name: record(run) for name, run in now.items()}, [family]))
    assert not lines, "\n".join([f"{len(lines)} differences", *lines[:SHOWN]])


RESULT = {
    "x": [1.0, -2.0, 1e-12],
    "fun": 0.5,
    "nit": 3,
    "success": True,
    "message": "3 epochs done: the optimum is within 1.25e-07",
    "certificate": 1.25e-7,
    "history": {"epoch": [1, 2], "objective": [0.6, 0.5], "gap": [0.1, 1.25e-7], "dual": [0.5, None]},
}


def changed(history=None, **fields):
    return {**RESULT, **fields, "history": {**RESULT["history"], **(history or {})}}


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (changed(x=[1.0, -2.0 + 3e-9, 1e-12]), "x[1]"),
        (changed(x=[1.0, -2.0]), "x"),
        (changed(fun=float("nan")), "fun"),
        (changed(nit=3.0), "nit"),
        (changed(message="3 epochs done: the optimum is within 1.2501e-02"), "message"),
        (changed(message="2 epochs done: the optimum is within 1.25e-07"), "message"),
        (changed(certificate="none"), "certificate"),
        (changed(certificate=1.35e-7), "certificate"),
        (changed(interrupted=False), ""),
        (changed({"epoch": [1, 3]}), "history.epoch[1]"),
        (changed({"dual": [0.5, 0.0]}), "history.dual[1]"),
        (changed({"gap": [0.1]}), "history.gap"),
        ({"error": "ValueError", "message": "lam: expected a number > 0"}, ""),
    ],
)
def test_what_changed_is_told(found, field):
    """Any other count, word, outcome or length, and numbers by more than 1e-9 of their kind."""
    (line,) = differences(RESULT, found)
    assert line.startswith(f"{field}: " if field else "fields ")
    assert list(differences(RESULT, found, bits=True))


def test_rounding_is_told_bit_for_bit_only():
    """Weights are held to the largest of them, gaps to the objective."""
    for found in (
        changed(x=[1.0, -2.0 + 1e-9, 1.5e-12]),
        changed(certificate=1.252e-7),
        changed(message="3 epochs done: the optimum is within 1.252e-07"),
        changed({"gap": [0.1, 1.252e-7], "objective": [0.6, 0.5 + 1e-10]}),
    ):
        assert list(differences(RESULT, found)) == []
        assert len(list(differences(RESULT, found, bits=True))) >= 1


def test_a_record_has_no_folder_no_address_and_no_second():
    def run():
        warnings.warn("at 0x7f12ab in reference.models.base", UserWarning, stacklevel=1)
        return Result([0.5], 1.0, 1, True, "of /tmp/golden-x1_y/run.npz", "last", 4, "none", (Row(1, 4, 0.25, 1.0),))

    found = record(run)
    assert found["history"] == {"epoch": [1], "oracle_calls": [4], "objective": [1.0]}
    assert found["message"] == "of FOLDER/run.npz"
    assert found["warnings"] == ["UserWarning: at 0x in reference"]
    assert record(lambda: 1 // 0)["error"] == "ZeroDivisionError"


# counted work --------------------------------------------------------------------------------------------------------


COLD = pytest.mark.beyond("starts processes that compile")


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if c.warm else COLD) for name, c in COUNTS.items()])
def test_counted_work(name):
    """Oracle calls, entries, bytes: more is a loss, less is to be kept by ``python -m conformance.counts record``."""
    (row,) = compared({name: float(COUNTS[name].measure())})
    assert row["same"], row


def test_differences_are_seen():
    """To the last unit where nothing rounds, and beyond what rounding may change elsewhere."""
    assert all(row["same"] for row in compared(kept()))
    assert not any(row["same"] for row in compared({name: value * 1.11 for name, value in kept().items()}))
    exact = {name: value + 1 for name, value in kept().items() if COUNTS[name].within == 0}
    assert len(exact) >= 5 and not any(row["same"] for row in compared(exact))
    json.dumps(compared(kept()))
    assert list(kept()) == list(COUNTS)
