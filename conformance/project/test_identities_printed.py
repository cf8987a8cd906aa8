"""``python -m conformance identities``: every law of ``reference.identities`` on one screen, and a broken one is
reported.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import conformance
import reference
from conformance import identities
from conformance.identities import martins, pillutla
from reference.identities import martins as martins_laws
from reference.identities import pillutla as pillutla_laws

WITHOUT_PYTEST = """
import sys
sys.modules.update(dict.fromkeys(["pytest", "hypothesis"]))  # None: not to be imported
from conformance.__main__ import main
sys.exit(main(["identities"]))
"""


@pytest.mark.beyond("starts processes")
def test_it_is_one_screen_and_needs_no_pytest():
    place = os.pathsep.join([str(Path(conformance.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", WITHOUT_PYTEST]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": place})
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 40 and all(len(line) <= 100 for line in lines) and lines[-1].endswith("all hold")
    for name in ("Moreau decomposition", "Corollary 3 (9)", "top-K is exact"):
        (line,) = [line for line in lines if name in line]
        assert len(re.findall(r"-?\d\.\de[+-]\d\d", line)) == 2  # a number for each panel


@pytest.mark.parametrize(
    ("laws", "modules"),
    [(martins_laws, [martins]), (pillutla_laws, [pillutla])],
    ids=["martins", "pillutla"],
)
def test_every_law_is_measured(laws, modules):
    text = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in modules)
    helpers = {"markov_iterations", "operator_norm", "row_diameter", "split_point"}  # what laws are stated with
    assert not [name for name in set(laws.__all__) - helpers if f"law.{name}" not in text]


@pytest.fixture
def few(monkeypatch):
    """The laws of proximity operators alone."""
    laws = [law for law in martins.LAWS if law.number in ("Proposition 2 (8)", "Corollary 3 (9)", "Lemma 7 (19)")]
    monkeypatch.setattr(identities, "papers", lambda: {"Martins et al. 2010": laws})


def test_seeds_draw_other_instances(few, capsys):
    seen = []
    for seed in (0, 0, 1):
        assert identities.main(["--json", "--seed", str(seed)]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["seed"] == seed and report["failed"] == []
        seen.append([panel["worst"] for law in report["laws"] for panel in law["panels"]])
        assert [panel["panel"] for panel in report["laws"][0]["panels"]] == ["reference", "accelerated"]
    assert seen[0] == seen[1] != seen[2]


def test_a_broken_prox_is_reported(few, monkeypatch, capsys):
    right = reference.L1.prox
    monkeypatch.setattr(reference.L1, "prox", lambda self, x, step_size=1.0: right(self, x, step_size) + 1e-3)
    assert identities.main([]) == 1
    lines = {line[21:].split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    broken = lines["Moreau decomposition"]
    assert broken.endswith("FAILED") and "1.0e-03" in broken and len(broken) <= 107
    assert identities.main(["--json"]) == 1
    assert "Martins et al. 2010, Proposition 2 (8)" in json.loads(capsys.readouterr().out)["failed"]


@pytest.mark.parametrize(
    "number", sorted({law.number for law in martins.LAWS if law.panels and "3.4" not in law.number})
)
def test_each_law_of_a_prox_can_fail(number, monkeypatch):
    """A prox that is off, of every family: no law of it holds for want of a question."""
    for kind in ("L1", "SquaredL1", "L1Ball", "HalfSquaredL2", "Simplex", "L21", "SquaredL21", "ElasticNet"):
        right = getattr(reference, kind).prox
        wrong = lambda self, x, step_size=1.0, right=right: 0.5 - right(self, x, step_size)  # noqa: E731
        monkeypatch.setattr(getattr(reference, kind), "prox", wrong)
    right = reference.prox_weighted_squared_l1
    monkeypatch.setattr(reference, "prox_weighted_squared_l1", lambda *given: right(*given)[::-1])
    found = [identities.measure(law, reference, 0, 0) for law in martins.LAWS if law.number == number]
    assert not all(each.holds for each in found)


def test_what_raises_is_reported(monkeypatch, capsys):
    def raising(sp, rng):
        raise ZeroDivisionError("no such law")

    laws = (identities.Law("Lemma 0", "nothing", "slack", raising, False),)
    monkeypatch.setattr(identities, "papers", lambda: {"Nobody": laws})
    assert identities.main(["--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["laws"][0]["panels"][0]["worst"] is None and "ZeroDivisionError: no such law" in err
