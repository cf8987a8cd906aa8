"""Each adapter against the laws: what fails is what the adapter says that it knows, no more and no less.

A library that is not installed is skipped with its pip command. Our panels hold every law.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.adapters import ADAPTERS, LIBRARIES, PANELS, adapter, library, missing, pytorch_crf_tests
from conformance.adapters.__main__ import main
from conformance.adapters.laws import EXAMPLES, LAWS, Law, Outcome, fits, hold, note_of
from conformance.adapters.page import page
from conformance.specimens.outputs import OUTPUTS

OFFERED = ("Chain", "Arborescence", "Cut", "Matching")  # by our panels


@pytest.mark.beyond("laws of other libraries, on instances of their own; the suite has the panels' laws")
@pytest.mark.parametrize(
    ("name", "structure"),
    [(name, structure) for name in LIBRARIES for structure in (OFFERED if name in PANELS else adapter(name).MAPPING)],
)
def test_what_fails_is_known(pytestconfig, name, structure):
    """The rest tier draws few instances, which may miss what a library does wrong."""
    if how := missing(name):
        pytest.skip(how)  # the package that is not installed, and the command that installs it
    structures, few = library(name), pytestconfig.getoption("--tier") == "rest"
    outcomes = {law: hold(law, structures, 4 if few else EXAMPLES) for law in LAWS if law.structure == structure}
    failed = {law: outcome for law, outcome in outcomes.items() if outcome.verdict == "fails"}
    known = {law for law in outcomes if note_of(law, structures)}
    assert {str(law): outcome for law, outcome in failed.items() if law not in known} == {}
    assert few or known - set(failed) == set(), "these hold: take them out of KNOWN"


@pytest.mark.parametrize("name", ADAPTERS)
def test_adapters_say_what_they_map(name):
    module = adapter(name)
    assert set(module.MAPPING) == {structure for structure in OUTPUTS if hasattr(module, structure)}
    assert all(any(fits(law, pattern) for law in LAWS) for patterns in module.KNOWN for pattern in patterns.split("|"))


def test_outputs_are_counted():
    """(n + 1)^(n - 1) trees by Cayley, Catalan numbers of binary trees, falling factorials of matchings."""
    counts = {
        "Arborescence": ([(n, n + 1) for n in (1, 2, 3, 4)], [1, 3, 16, 125]),
        "ProjectiveTree": ([(n, n + 1) for n in (1, 2, 3, 4)], [1, 3, 12, 55]),
        "SpanTree": ([(n, n) for n in (1, 2, 3, 4)], [1, 1, 2, 5]),
        "Matching": ([(2, 2), (2, 3), (3, 2), (1, 4)], [2, 6, 6, 4]),
    }
    for structure, (shapes, expected) in counts.items():
        assert [len(list(OUTPUTS[structure].all({"values": np.zeros(shape)}))) for shape in shapes] == expected


class Wrong:
    """A library that errs in each way that a law looks for."""

    class Matching:
        def __init__(self, values):
            self.values = values

        def best(self):
            return None, range(len(self.values))  # the diagonal, whatever the scores

    class Chain:
        def __init__(self, unary, pairwise):
            self.unary = unary

        def best(self):
            self.unary += 1.0
            return 1e-3, self.unary.argmax(axis=1)  # transitions are left out

        def log_partition(self):
            return 0.0


def test_laws_can_fail():
    def seen(*law: str) -> Outcome:
        return hold(Law(*law), Wrong)

    wrong = seen("Matching", "best", "ordinary")  # of the smallest size, and one score alone is not 0
    assert wrong.verdict == "fails" and wrong.instance.startswith("values = [[") and wrong.instance.count("0") >= 3
    assert seen("Chain", "best", "ordinary").seen == "value 0.001; (0, 0) has 0"
    assert seen("Chain", "best", "arguments afterwards").verdict == "fails"
    assert seen("Chain", "log_partition", "ordinary").seen == "0; by enumeration 1.38629436"
    assert seen("Chain", "best", "ragged batch").verdict == "not offered"
    assert seen("Chain", "marginals", "ordinary").verdict == "not offered"


def test_tests_of_another_library_are_held_to_a_list(tmp_path, capsys):
    """Tests that fail as listed, that fail and are not listed, that pass and are, and names without a test."""
    pytest.importorskip("torch")
    file = tmp_path / "test_crf.py"
    lines = [
        "class TestInit:",
        " def test_nonpositive_num_tags(self): CRF(0)",
        " def test_size(self): assert CRF(2).num_tags > 2",
    ]
    lines += ["class TestTorchScriptDecode:", " def test_one(self): assert repr(CRF(2)) == 'CRF(num_tags=2)'"]
    file.write_text("\n".join(["from torchcrf import CRF", *lines]))
    assert pytorch_crf_tests.main([str(file)]) == 1
    *wrong, last = capsys.readouterr().out.splitlines()
    assert "TestTorchScriptDecode::test_one: passes, and is listed as different" in wrong
    assert "TestForward::test_invalid_reduction: no test has this name" in wrong
    assert any(line.startswith("TestInit::test_size: ") for line in wrong)
    assert last == f"1 tests pass, 1 differ as listed, {len(pytorch_crf_tests.DIFFERS)} otherwise"


@pytest.mark.beyond("long runs")
def test_the_command_prints_and_writes_what_holds_and_what_fails(tmp_path, capsys):
    path = tmp_path / "page.md"
    assert main(["--library", "scipy", "--examples", "1", "--write", str(path)]) == 0
    assert main(["--library", "scipy", "--examples", "1"]) == 0
    text = path.read_text(encoding="utf-8")
    assert text == capsys.readouterr().out.removesuffix("\n") and max(map(len, text.splitlines())) <= 120
    assert "| `best`, rectangles | holds |" in text
    assert main(["--library", "scipy", "--examples", "1", "--json"]) == 0
    laws = json.loads(capsys.readouterr().out)["laws"]["scipy"]
    assert laws["Matching.best, ordinary"]["verdict"] == "holds" and laws["Chain.best, ordinary"]["verdict"] != "holds"
    with pytest.raises(SystemExit):
        main(["--examples", "0"])
    failure = Outcome("fails", "values = [[0]]", "(0,) of score 0; (0,) has 0")
    outcomes = {law: failure if law.structure == "Matching" else Outcome("not offered") for law in LAWS}
    text = page({PANELS[0]: {law: Outcome("holds") for law in LAWS}, "scipy": outcomes})
    assert "| `best`, ordinary | holds | **fails** |" in text and "`values = [[0]]`" in text
