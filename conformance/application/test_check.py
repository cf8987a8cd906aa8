"""``diptych check`` works without optional packages and reports what is broken; ``diptych warm`` makes first calls."""

from __future__ import annotations

import json
import sys

import pytest

import reference
from conformance.application.processes import finished
from diptych import check
from diptych.warm import FIRST_CALLS, first_call

WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys(["pytest", "hypothesis", "matplotlib", "sklearn"]))  # None: not to be imported
from diptych.commands.main import main
sys.exit(main(["check", "--json"]))
"""


@pytest.mark.beyond("starts processes")
def test_it_works_without_extras_and_says_how_to_get_them():
    status, out, err = finished(None, "-c", WITHOUT_EXTRAS)
    assert status == 0, out + err
    report = json.loads(out)
    assert report["status"] == "ok" and not report["failed"]
    lines = {line["name"]: line for line in report["checks"]}
    assert all(line["status"] in check.STATUSES for line in lines.values())
    kinds = {name: kind for name, kind in vars(reference).items() if isinstance(kind, type)}
    structures = {name for name, kind in kinds.items() if issubclass(kind, reference.Structure)} - {"Structure"}
    assert all(lines[name]["error"] < 1e-9 for name in structures)
    assert all(lines[name]["error"] < 0.1 for name in check.TRAININGS)  # of two runs that end with gaps up to 0.1
    assert all(lines[name]["status"] in ("ok", "slow to compile") for name in [*structures, *check.TRAININGS])
    plots = lines["matplotlib"]
    assert plots["status"] == "not installed" and "pip install 'diptych[plots]'" in plots["detail"]
    assert check._cache()[0] in ("ok", "not kept")  # the kernels by which it tells warm from cold are those that it ran


@pytest.fixture
def few(monkeypatch):
    """Two quick checks of all."""
    monkeypatch.setattr(check, "STRUCTURES", {"Table": check.STRUCTURES["Table"]})
    monkeypatch.setattr(check, "TRAININGS", {"LogLoss by lbfgs": check.TRAININGS["LogLoss by lbfgs"]})


def test_a_line_each(few, reference_cli):
    *lines, last = reference_cli.printed("check").splitlines()
    names = [line[10:].split("  ")[0] for line in lines]
    assert names[:4] == ["diptych", "Python", "numpy", "scipy"] and names[-2:] == ["Table", "LogLoss by lbfgs"]
    assert names[-8:-4] == list(check.PACKAGES)
    assert "kernel cache" in names and "threads" in names and last.startswith("everything works")


def test_a_module_found_first_or_of_two_distributions_is_named(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        (tmp_path / "conformance.py").write_text("")
        patched.delitem(sys.modules, "conformance")
        patched.syspath_prepend(tmp_path)
        *ours, suite = check._packages()
    assert [line.status for line in ours] == ["ok"] * 3
    assert suite.status == "FAILED" and suite.detail.endswith(f"Python finds {tmp_path / 'conformance.py'}")
    owners = {"reference": ["diptych", "another"], "accelerated": ["diptych"]}
    monkeypatch.setattr(check.importlib.metadata, "packages_distributions", lambda: owners)
    first, *others = check._packages()
    assert first.status == "FAILED" and first.detail.endswith("is also installed by another")
    assert [line.status for line in others] == ["ok"] * 3


@pytest.mark.parametrize("message", ["best score: expected", "no best output", "differ by more than the gap"])
def test_what_is_broken_is_reported(few, message, monkeypatch, reference_cli):
    """A structure that is wrong or raises an error, and panels that part."""
    best, train = reference.Table.best, reference.lbfgs

    def broken(self):
        if message == "no best output":
            raise RuntimeError(message)
        return best(self)[0] + 1e-3, best(self)[1]

    if message.startswith("differ"):
        monkeypatch.setattr("accelerated.lbfgs", lambda *given, **how: train(*given, **how | {"lam": 0.11}))
    else:
        monkeypatch.setattr(reference.Table, "best", broken)
    status, out, _ = reference_cli.run("check", "--json")
    report = json.loads(out)
    (line,) = [line for line in report["checks"] if line["status"] == "FAILED"]
    assert status == 1 and report["status"] == "FAILED" and line["name"] in " ".join(report["failed"])
    assert (
        line["name"] == ("LogLoss by lbfgs" if message.startswith("differ") else "Table") and message in line["detail"]
    )


@pytest.mark.parametrize("name", FIRST_CALLS)
def test_a_first_call_is_one_that_works(name):
    assert first_call(name) == name
    assert {name.split(":")[0] for name in FIRST_CALLS} >= check.STRUCTURES.keys() - {"Table"}


@pytest.mark.beyond("starts processes")
def test_the_calls_are_made_and_told(cli):
    report = cli.reported("warm", "--processes", 2)
    assert sorted(report["calls"]) == sorted(FIRST_CALLS) and report["seconds"] > 0
    assert "0 kernels compiled" in cli.printed("warm", "--processes", 1)  # all were kept
