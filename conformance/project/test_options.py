"""Options of ``python -m conformance``: help, reports, seeds, backends by name, what is said where a package lacks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from conformance import options
from conformance.__main__ import COMMANDS, main
from conformance.modules import module_path
from conformance.reports import Report

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
    whatever process ended first, and the instance is the first one's."""
    (other, ours) = written(
        tmp_path / "report",
        [
            told("setup", backend="b"),
            told(backend="b"),
            told(outcome="failed", case="[torch-b]", backend="b", instance="Falsifying example: x=0"),
            told(outcome="failed", case="[jax-b]", backend="b", instance="Falsifying example: x=1"),
            told("teardown", backend="b"),
            told(backend="a"),
            told("setup", outcome="skipped", case="", backend="a"),
        ],
    )
    assert ours["law"] == other["law"] == LAW and ours["rows"] == other["rows"] and "P Algorithm 1" in ours["rows"]
    assert (ours["backend"], ours["outcome"], ours["cases"]) == ("b", "failed", 3)
    assert ours["failed"] == ["jax-b", "torch-b"] and ours["instance"] == "Falsifying example: x=1"
    assert (other["backend"], other["outcome"], other["cases"]) == ("a", "passed", 2) and other["instance"] is None


def test_a_failure_without_an_instance_has_its_last_line(tmp_path):
    (line,) = written(
        tmp_path / "report", [told(outcome="failed", message="first\nAssertionError: 1 != 2", test="a::b")]
    )
    assert line["instance"] == "AssertionError: 1 != 2" and line["rows"] == [] and line["backend"] is None


def test_our_options_come_first(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"  {name}") for name in options.OPTIONS]
    assert max(places) < shown.index("\ncommands:\n") < shown.index("\noptions of pytest")
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("xdist", "hypothesis") else sys)
    assert main(["-k", "chain"]) == 2
    assert "hypothesis not installed" in (said := capsys.readouterr().err) and "pip install 'diptych[tests]'" in said
    assert main(["-n", "2"]) == 2 and "hypothesis, xdist not installed" in capsys.readouterr().err


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
    assert done.returncode == 1 and "[conformance.meta.off_by_one_viterbi-numpy" in done.stdout, (
        done.stdout + done.stderr
    )
