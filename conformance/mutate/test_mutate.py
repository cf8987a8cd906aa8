"""Mutants are single changes with names that last; one that breaks a law is noticed, the source as it is is not."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from conformance.modules import HERE
from conformance.mutate.__main__ import chosen, explained, files, judged
from conformance.mutate.mutants import mutants

SOURCE = '''"""Docstring with 1 < 2."""

__all__ = ["f", "g"]
SIZE: int = 3


def f(x, flag=True):
    """Numbers 4 and 5."""
    if x < 0 and not flag:
        raise ValueError(f"x: expected at least {0}, got {x - 1}")
    return (x + 1) * 2.0 if x is not None else -x


class Box:
    def area(self, *, a: float = 0.5):
        a += min(a, 2)
        return a ** 2
'''


def test_mutants_by_hand():
    """Constants, comparisons, signs, operators, min and max; no annotation, message, docstring or list of names;
    one line differs.
    """
    changes = []
    for mutant in mutants("m.py", SOURCE):
        changes.append((mutant.before, mutant.after))
        ast.parse(mutant.source)
        pairs = zip(SOURCE.splitlines(), mutant.source.splitlines(), strict=True)
        assert [k for k, (before, after) in enumerate(pairs, 1) if before != after] == [mutant.line], mutant.name
    assert len(set(changes)) == len(changes)
    assert set(changes) == {
        ("SIZE: int = 3", "SIZE: int = 4"),
        ("def f(x, flag=True):", "def f(x, flag=False):"),
        ("if x < 0 and not flag:", "if x <= 0 and not flag:"),
        ("if x < 0 and not flag:", "if x < 1 and not flag:"),
        ("if x < 0 and not flag:", "if x < 0 or not flag:"),
        ("if x < 0 and not flag:", "if x < 0 and flag:"),
        *(
            ("return (x + 1) * 2.0 if x is not None else -x", f"return {after}")
            for after in (
                "(x - 1) * 2.0 if x is not None else -x",
                "(x + 2) * 2.0 if x is not None else -x",
                "(x + 1) / 2.0 if x is not None else -x",
                "(x + 1) * 4.0 if x is not None else -x",
                "(x + 1) * 2.0 if x is None else -x",
                "(x + 1) * 2.0 if x is not None else x",
            )
        ),
        ("def area(self, *, a: float = 0.5):", "def area(self, *, a: float = 1.0):"),
        ("a += min(a, 2)", "a -= min(a, 2)"),
        ("a += min(a, 2)", "a += max(a, 2)"),
        ("a += min(a, 2)", "a += min(a, 3)"),
        ("return a ** 2", "return a * 2"),
        ("return a ** 2", "return a ** 3"),
    }


def test_names_outlast_edits_elsewhere():
    """Lines above, another function and a docstring change no name of the others."""
    edited = SOURCE.replace("SIZE: int = 3", "SIZE: int = 3\nMORE = 7\n\n\ndef before():\n    return 1 + 1")
    names = [{mutant.name for mutant in mutants("m.py", source)} for source in (SOURCE, edited)]
    assert {name for name in names[0] if "::f::" in name or "Box" in name} <= names[1]
    assert "m.py::Box.area::+=::1" in names[0] and "m.py::f::constant::2" in names[0]


def test_explanations_are_of_mutants():
    """An explanation whose mutant is gone is taken out."""
    for name in explained():
        path = HERE.parent / name.split("::")[0]
        assert name in {mutant.name for mutant in mutants(name.split("::")[0], path.read_text())}, name


def test_a_sample_takes_of_every_folder():
    paths = files([str(HERE.parent / "reference" / name) for name in ("prox", "bounds", "smoothings.py")])
    sample = chosen(paths, 30, seed=0)
    assert sample == chosen(paths, 30, seed=0) != chosen(paths, 30, seed=1)
    counts = [
        sum(mutant.name.startswith(f"reference/{name}") for mutant in sample) for name in ("prox", "bounds", "smo")
    ]
    assert counts == [10, 10, 10]
    with pytest.raises(ValueError, match="FILE: expected a file or folder below"):
        files([__file__])


class Recorded:
    """Two recorded tests of each line, and a judge to whom they have these outcomes."""

    seconds = {"a.py::test[1]": 1.0, "b.py::test[2]": 2.0}

    def __init__(self, *outcomes):
        self.outcomes = iter(outcomes)

    def tests(self, file, line):
        return [*self.seconds]

    def verdict(self, mutant, tests, seconds, tier):
        return next(self.outcomes)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (("not run", "not run"), "not run"),
        (("not run", "killed"), "killed"),
        (("not run", "survived"), "survived"),
        (("survived", "not run"), "survived"),
        (("survived", "killed"), "killed"),
        (("killed",), "killed"),
    ],
)
def test_the_second_round_decides_where_the_first_does_not(outcomes, verdict):
    """Of recorded cases, then of whole functions; tests that cannot be run say nothing, and end nothing."""
    row = judged(given := Recorded(*outcomes), given, next(mutants("m.py", SOURCE)), 60.0, "first")
    assert row["verdict"] == verdict and not list(given.outcomes)


JUDGED = """
from conformance.mutate.judge import ROOT, Judge
from conformance.mutate.mutants import mutants

name, tests = "reference/prox/selection.py", ["prox/test_selection.py::test_project_simplex[reference]"]
source = (ROOT / name).read_text()
some = [mutant for mutant in mutants(name, source) if "::_simplex::" in mutant.name and "constant" not in mutant.name]
judge = Judge()
print(judge.verdict(some[0]._replace(source="raise ValueError"), tests, 1.0))
beyond = ["application/test_files.py::test_damaged_files_are_read_or_refused_by_name"]
print(judge.verdict(some[0], beyond, 1.0).replace(" ", "-"))
print(judge.verdict(some[0]._replace(source=source), tests, 1.0), *(judge.verdict(each, tests, 1.0) for each in some))
"""


@pytest.mark.beyond("starts processes")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_broken_projection_is_noticed():
    """The source as it is passes; of its signs and comparisons the exact test of the projection notices most. A mutant
    that the tests cannot import is noticed; one whose tests are of another tier is not judged."""
    done = subprocess.run([sys.executable, "-c", JUDGED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    unimportable, elsewhere, first, *verdicts = done.stdout.split()
    assert unimportable == "killed" and elsewhere == "not-run" and first == "survived" and len(verdicts) >= 4
    assert verdicts.count("killed") >= 0.7 * len(verdicts), verdicts
