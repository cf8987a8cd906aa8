"""``python -m conformance``: help, reports, seeds, backends by name, what is said where a package lacks; its
commands ``identities`` and ``fuzz``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import conformance
import reference
from conformance import export, fuzz, identities, options
from conformance.__main__ import COMMANDS, main
from conformance.identities import branson, martins, zhang
from conformance.modules import module_path
from conformance.readers import READERS
from conformance.reports import Report
from reference.identities import martins as martins_laws
from reference.identities import pillutla as pillutla_laws
from reference.screening.half_space import dual_ball

LAW = "test_laws::test_the_best_output_is_the_best_of_all"
VITERBI = [f"{module_path('test_laws')}::{LAW.partition('::')[2]}", "-k", "Chain"]


def told(when="call", outcome="passed", case="[numpy]", test=LAW, message="E boom", **properties):
    module, function = test.split("::")
    nodeid = f"structures/{module}.py::{function}{case}"
    longrepr = message if outcome == "failed" else None
    return pytest.TestReport(
        nodeid, (module, 0, ""), {}, outcome, longrepr, when, user_properties=list(properties.items())
    )


def written(path, reports):
    report = Report(str(path))
    for each in reports:
        report.pytest_runtest_logreport(each)
    report.pytest_sessionfinish()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_for_each_law_and_backend(tmp_path):
    """Phases that pass are no cases; one failed case fails the law; the failed cases stand in one order
    whatever process ended first, and the instance is the first one's, or its last line."""
    (none, other, ours) = written(
        tmp_path / "report",
        [
            told("setup", backend="b"),
            told(backend="b"),
            told(outcome="failed", case="[torch-b]", backend="b", instance="Falsifying example: x=0"),
            told(outcome="failed", case="[jax-b]", backend="b", instance="Falsifying example: x=1"),
            told("teardown", backend="b"),
            told(backend="a"),
            told("setup", outcome="skipped", case="", backend="a"),
            told(outcome="failed", message="first\nAssertionError: 1 != 2", test="a::b"),
        ],
    )
    assert ours["law"] == other["law"] == LAW and ours["rows"] == other["rows"] and "P Algorithm 1" in ours["rows"]
    assert (ours["backend"], ours["outcome"], ours["cases"]) == ("b", "failed", 3)
    assert ours["failed"] == ["jax-b", "torch-b"] and ours["instance"] == "Falsifying example: x=1"
    assert (other["backend"], other["outcome"], other["cases"]) == ("a", "passed", 2) and other["instance"] is None
    assert (none["instance"], none["rows"], none["backend"]) == ("AssertionError: 1 != 2", [], None)


def test_our_options_come_first(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"  {name}") for name in options.OPTIONS]
    assert max(places) < shown.index("\ncommands:\n") < shown.index("\noptions of pytest")
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    absent = ("xdist", "hypothesis", "atheris")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else sys)
    for words, said in (
        (["-k", "chain"], "hypothesis not installed"),
        (["-n", "2"], "hypothesis, xdist not installed"),
        (["fuzz"], "atheris not installed"),
    ):
        assert main(words) == 2
        shown = capsys.readouterr().err
        assert said in shown and "pip install 'diptych[" in shown


def test_seeds():
    """None: fixed instances. A seed alone keeps the number of instances; --examples alone draws a seed."""
    assert options.seed_of(None, None) is None
    assert options.seed_of(None, 3) == options.seed_of(9, 3) == 3
    assert len({options.seed_of(9, None) for _ in range(5)}) > 1


@pytest.mark.beyond("starts processes")
def test_a_run_is_drawn_again_by_its_seed(tmp_path):
    """A known mistake under a seed that is printed: the same seed finds the same instance, in one process or two."""

    def run(*words):
        command = [sys.executable, "-m", "conformance", "--backend", "conformance.meta.off_by_one_viterbi"]
        file = str(tmp_path / "report")
        chosen = ["--namespace", "numpy", "--no-shrink", "--examples", "300", "--report", file, *VITERBI, *words]
        done = subprocess.run([*command, *chosen], capture_output=True, text=True)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "backend conformance.meta.off_by_one_viterbi: " in done.stdout and "namespace numpy: run" in done.stdout
        return done.stdout, [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]

    shown, first = run()
    seed = shown.split("--seed ")[1].split()[0]
    assert f"--examples 300 --seed {seed} draws the same" in shown
    assert first == run("--seed", seed)[1] == run("--seed", seed, "-n", "2")[1]
    assert first[0]["outcome"] == "failed" and "ChainScores(unary=" in first[0]["instance"]


@pytest.mark.beyond("starts processes")
def test_kernels_are_not_held_to_laws_as_python():
    command = [sys.executable, "-m", "conformance", *VITERBI]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
    assert done.returncode == 4 and "NUMBA_DISABLE_JIT is set" in done.stdout + done.stderr


@pytest.mark.beyond("starts processes")
def test_backends_by_the_name_of_their_entry_point(tmp_path):
    """An installed package offers a backend under a name of its own."""
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[diptych.backends]\nshort = conformance.meta.off_by_one_viterbi\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from conformance.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "--backend", "short", "--namespace", "numpy", "--no-shrink", *VITERBI]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[conformance.meta.off_by_one_viterbi-numpy" in done.stdout


# identities and export -----------------------------------------------------------------------------------------------

WITHOUT_PYTEST = """
import sys
sys.modules.update(dict.fromkeys(["pytest", "hypothesis"]))  # None: not to be imported
from conformance.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def without_pytest(*words):
    place = os.pathsep.join([str(Path(conformance.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    command, environment = [sys.executable, "-c", WITHOUT_PYTEST, *words], {**os.environ, "PYTHONPATH": place}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return done.stdout


@pytest.mark.beyond("starts processes")
def test_identities_are_a_line_each_and_commands_need_no_pytest():
    lines, laws = without_pytest("identities").splitlines(), identities.papers()
    assert len(lines) == 2 + len(laws) + sum(map(len, laws.values()))
    assert all(len(line) <= 100 for line in lines) and lines[-1].endswith("all hold")
    for name in ("Moreau decomposition", "Corollary 3 (9)", "top-K is exact"):
        (line,) = [line for line in lines if name in line]
        assert len(re.findall(r"-?\d\.\de[+-]\d\d", line)) == 2  # a number for each panel
    assert without_pytest("export", "--count", "1") == export.text(export.document(count=1))


def test_every_law_is_measured():
    text = "".join(path.read_text(encoding="utf-8") for path in Path(identities.__file__).parent.rglob("*.py"))
    helpers = {"markov_iterations", "operator_norm", "row_diameter", "split_point"}  # what laws are stated with
    laws = {*martins_laws.__all__, *pillutla_laws.__all__}
    assert not [name for name in laws - helpers if f"law.{name}" not in text]


def measured(monkeypatch, capsys, laws, *words):
    """Exit status, report and errors of some laws."""
    monkeypatch.setattr(identities, "papers", lambda: {"Martins": laws})
    status, (out, err) = identities.main(["--json", *words]), capsys.readouterr()
    return status, json.loads(out), err


def test_seeds_draw_other_instances_and_a_broken_prox_is_reported(monkeypatch, capsys):
    few = [law for law in martins.LAWS if law.number in ("Proposition 2 (8)", "Corollary 3 (9)", "Lemma 7 (19)")]
    seen = []
    for seed in (0, 0, 1):
        status, report, _ = measured(monkeypatch, capsys, few, "--seed", str(seed))
        assert status == 0 and report["seed"] == seed and report["failed"] == []
        seen.append([panel["worst"] for law in report["laws"] for panel in law["panels"]])
    assert seen[0] == seen[1] != seen[2]
    right = reference.L1.prox
    monkeypatch.setattr(reference.L1, "prox", lambda self, x, step_size=1.0: right(self, x, step_size) + 1e-3)
    status, report, _ = measured(monkeypatch, capsys, few)
    assert status == 1 and "Martins, Proposition 2 (8)" in report["failed"]
    assert identities.main([]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "Moreau decomposition" in line]
    assert line.endswith("FAILED") and "1.0e-03" in line and len(line) <= 107


@pytest.mark.parametrize(
    ("module", "name", "wrong", "number"),
    [
        (branson, "expand_and_swap", lambda Q, b, alpha: -b / np.abs(b).sum(), "Algorithm 1"),
        (branson, "multiclass_update", lambda c, P: np.full(len(c), 1 / len(c)), "Algorithm 2"),
        (branson.bounds, "dual_increase", lambda f, square, lam, t: f, "Lemma 2.2"),
        (branson.bounds, "subgradient_norm", lambda lam, radius, loss: radius, "Lemma 2.5"),
        (zhang, "smallest_on_ball_and_half_space", lambda b, p, c, a0, r: b @ a0, "(4), Theorem 4"),
        (zhang, "dual_ball", lambda state, m: dual_ball(state, 50 * m), "Theorem 3"),
        (zhang.ListedCRF, "dual", lambda self, theta: -10 * sum(t @ t for t in theta), "Lemma 2"),
        (reference.L1GapRule, "bounds", lambda self, state: 0.9 * abs(state.gradient), "(R), Theorem 5"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_laws_see_mistakes(module, name, wrong, number, monkeypatch):
    laws = [law for law in (*branson.LAWS, *zhang.LAWS) if law.number == number]
    assert all(identities.measure(law, reference, 0, 0).holds for law in laws)
    monkeypatch.setattr(module, name, wrong)
    assert not any(identities.measure(law, reference, 0, 0).holds for law in laws)


def test_a_law_that_raises_is_reported(monkeypatch, capsys):
    def raising(sp, rng):
        raise ZeroDivisionError("no such law")

    laws = (identities.Law("Lemma 0", "nothing", "", "slack", raising, False),)
    status, report, said = measured(monkeypatch, capsys, laws)
    assert status == 1 and report["laws"][0]["panels"][0]["worst"] is None and "ZeroDivisionError: no such law" in said


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


# fuzz: the fuzzer itself runs in a workflow --------------------------------------------------------------------------


def test_readers_are_listed_and_an_unknown_one_is_refused(monkeypatch, capsys):
    assert fuzz.main(["--list"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == list(READERS)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with pytest.raises(SystemExit) as stop:
        fuzz.main(["words.doc"])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "expected one of sequences.npz, " in said and "words.doc" in said


@pytest.mark.beyond("starts processes")
def test_a_reader_is_fuzzed(tmp_path, capsys):
    pytest.importorskip("atheris")
    assert fuzz.main(["words.txt", "--seconds", "2", "--findings", str(tmp_path / "found")]) == 0
    assert "ok" in capsys.readouterr().out
