"""The ledger is whole: every row has code and tests that exist and run in the first tier, and every printed error is
shown to be one. The first tier leaves out no law, no public name and no known mistake.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import re
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pytest

import reference
from conformance import modules, plugin
from conformance.ledger import MACROS, ROWS, SECTIONS, VERDICTS, render
from conformance.namespaces import Space


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_row_is_backed(row):
    """By code that exists, and tests of the first tier; a module of tests goes without its folder."""
    assert row.verdict in VERDICTS and row.statement and row.code and row.tests
    for name in row.code:
        module, _, attribute = name.rpartition(".")
        whole = module if module.startswith("diptych.") else f"reference.{module}"
        assert hasattr(importlib.import_module(whole), attribute), name
    tests = {*row.tests, *([row.rejected_by] if row.rejected_by else [])}
    assert tests <= modules.tests() - modules.beyond(), tests - modules.tests() | tests & modules.beyond()
    assert row.printed or row.verdict != "wrong as printed"
    assert bool(row.rejected_by) == bool(row.printed)
    assert row.condition or row.verdict != "holds under a condition"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_row_has_its_formulas(row):
    """With braces, delimiters and environments closed in order, and without macros that a page would have to know."""
    assert bool(row.printed_formula) == bool(row.printed)
    for formula in filter(None, (row.formula, row.printed_formula)):
        assert formula.strip() and "$" not in formula
        assert not set(MACROS) & set(re.findall(r"\\([a-zA-Z]+)", formula))
        closing = []
        for token in re.findall(r"\\\\|\\[{}]|\\(?:begin|end)\{\w+\}|[{}]", formula):
            if token == "{" or token.startswith(r"\begin"):
                closing.append("}" if token == "{" else token.replace("begin", "end"))
            elif token == "}" or token.startswith(r"\end"):
                assert closing.pop() == token
        assert not closing


def test_formulas_render():
    """By KaTeX, where node finds it."""
    script = """
        const katex = require("katex"), rows = JSON.parse(require("fs").readFileSync(0, "utf8"));
        for (const [label, formula] of rows) {
          try { katex.renderToString(formula, {displayMode: true, throwOnError: true, strict: "error"}); }
          catch (error) { console.log(label, error.message); }
        }"""
    if not shutil.which("node") or subprocess.run(["node", "-e", 'require("katex")'], capture_output=True).returncode:
        pytest.skip("node does not find katex: npm install katex, or set NODE_PATH")
    formulas = [(row.label, each) for row in ROWS for each in (row.formula, row.printed_formula) if each]
    done = subprocess.run(
        ["node", "-e", script], input=json.dumps(formulas), capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def test_rows_are_in_the_order_of_their_papers():
    """By number: algorithms, and the other statements, which share one count except in Z."""
    counted = ["Definition", "Proposition", "Lemma", "Example", "Remark", "Corollary", "Theorem", "Claim", "Assumption"]
    for rows in SECTIONS.values():
        together = [counted] if rows[0].label[0] in "PMB" else [[kind] for kind in counted]
        for kinds in (["Algorithm"], *together):
            found = [re.search(rf"\b(?:{'|'.join(kinds)}) ([\d.]+)", row.label) for row in rows]
            numbers = [[int(part) for part in match[1].strip(".").split(".")] for match in found if match]
            assert numbers == sorted(numbers), (kinds, numbers)


@pytest.mark.parametrize("name", ["pillutla", "martins", "branson", "zhang"])
def test_statements_are_in_the_sections_of_their_paper(name):
    """All of them, in the paper's order: numbers, then letters of appendices, then what is beyond the paper. A label
    that names its section is there.
    """
    page = tomllib.loads((modules.HERE / "ledger" / f"{name}.toml").read_text(encoding="utf-8"))
    rows = SECTIONS[page["paper"]]
    assert [section for section, _ in itertools.groupby(row.section for row in rows)] == page["sections"]
    numbers = [heading.split()[0] for heading in page["sections"]]
    places = [(n.rstrip("0123456789."), [int(part) for part in re.findall(r"\d+", n)]) for n in numbers]
    assert places == sorted(places) and len(set(numbers)) == len(numbers)
    for row in rows:
        if said := re.match(r"\w (?:section|appendix|beyond) ?([A-F]?[\d.]*\d|the paper)", row.label):
            assert row.section.split()[0] == said[1].replace("the paper", "Beyond")


def test_ids_are_labels():
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)
    assert {"p-definition-6", "p-max-k", "p-section-7-2-bcfw-wavg", "b-1-8"} <= set(ids)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", each) for each in ids)


def test_labels_and_names_of_modules_differ():
    assert len({row.label for row in ROWS}) == len(ROWS)
    names = [path.stem for path in modules.HERE.rglob("test_*.py")]
    assert len(set(names)) == len(names)


def test_the_page_has_every_row_and_links_that_lead_somewhere():
    """Tests' files by links from docs/; every section is in the table of contents, by its heading's anchor. In a
    checkout the page in docs is this one: `make ledger` writes it.
    """
    page, root = render(), modules.HERE.parent
    plain = " ".join(re.sub(r"\\([*<_~])", r"\1", page).split())
    for row in ROWS:
        assert f'<a id="{row.id}"></a> ### {row.label} {" ".join(row.statement.split())} ```math' in plain
    files = dict(re.findall(r"^\[(\w+)\]: \.\./(conformance/.+)$", page, flags=re.MULTILINE))
    assert len(files) > 20 and all((root / file).exists() for file in files.values())
    assert set(re.findall(r"`\]\[(\w+)\]", page)) == set(files)
    headings = re.findall(r"^## (.+)$", page, flags=re.MULTILINE)
    anchors = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert re.findall(r"^- \[(.+)\]\(#(.+)\): ", page, flags=re.MULTILINE) == list(zip(headings, anchors, strict=True))
    assert all(f"- **{verdict}**: " in page for verdict in VERDICTS)
    if (root / "pyproject.toml").exists():  # an installed package has no pages
        assert (root / "docs" / "LEDGER.md").read_text(encoding="utf-8") == page


def test_options_of_the_page():
    def run(*options):
        return subprocess.run([sys.executable, "-m", "conformance.ledger", *options], capture_output=True, text=True)

    assert len(json.loads(run("--json").stdout)) == len(ROWS)
    unknown = run("--jsn")
    assert unknown.returncode == 2 and unknown.stdout == "" and "unrecognized arguments: --jsn" in unknown.stderr


# the first tier ------------------------------------------------------------------------------------------------------


def test_the_first_tier_catches_known_mistakes():
    catching = {"test_known_bad::test_known_mistakes_are_caught", "test_names::test_name_is_there"}
    assert modules.beyond() and catching <= modules.tests() - modules.beyond()


def test_the_first_tier_uses_every_public_name():
    """As an attribute, a name or a string, in a test of the tier or in what tests share, but not in a known mistake or
    an adapter."""
    unused, apart = set(reference.__all__), (modules.HERE / "meta", modules.HERE / "adapters")
    for path in (path for path in modules.HERE.rglob("*.py") if path.parent not in apart):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if unused.intersection(re.findall(r"\w+", text)) else ():
            if f"{path.stem}::{getattr(node, 'name', '')}" not in modules.beyond():
                for part in ast.walk(node):
                    kind = {ast.Attribute: "attr", ast.Name: "id", ast.Constant: "value"}.get(type(part), "")
                    unused -= {value for value in [getattr(part, kind, None)] if isinstance(value, str)}
    assert not unused, unused


def test_every_law_of_a_backend_is_in_the_first_tier(request):
    """A test that has an instance on a backend has one there, unless it is marked; of commands and partitions, one on
    the reference stands for that on kernels.
    """
    items = request.session.items
    first = plugin._first_tier(items)
    assert plugin._first_tier([item for item in items if item in first]) == first  # whichever tier runs
    laws, kept = set(), set()
    for item in items:
        law, space = (item.nodeid.partition("[")[0], str(plugin.backend_of(item))), plugin._space(item)
        if item.get_closest_marker("beyond") is None and (not isinstance(space, Space) or plugin._first(space)):
            laws.add(law)
        if item in first:
            kept.add(law)
    assert kept <= laws
    for law, backend in laws - kept:
        assert backend == "accelerated" and law.split("/")[-2] in ("application", "distributed"), law
        assert (law, "reference") in kept, law


def test_every_mark_has_its_reason(request):
    for item in request.session.items:
        for mark in item.iter_markers("beyond"):
            assert len(mark.args) == 1 and isinstance(mark.args[0], str) and mark.args[0], item.nodeid


def test_draws_do_not_depend_on_the_modules_that_are_loaded():
    """Hypothesis knows no constants of the sources: a test draws the same alone and in the suite."""
    providers = pytest.importorskip("hypothesis.internal.conjecture.providers")
    if not hasattr(providers, "_get_local_constants"):
        pytest.skip("this version of hypothesis draws none")
    assert len(providers._get_local_constants()) == 0


# printed forms, shown to be wrong -----------------------------------------------------------------------------------


def test_max_k_of_a_set_of_scores_is_not_the_second_best_output(backend):
    scores = [1.0, 1.0, 0.0]
    as_printed = sorted(set(scores), reverse=True)[1]
    best = backend.Table(scores).topk(2)
    assert isinstance(best, backend.KBest)
    second = float(np.asarray(best.scores)[1])
    best_two = max(a + b for a, b in itertools.combinations(scores, 2))
    assert 1.0 + second == best_two != 1.0 + as_printed


def test_messages_as_plain_products_overflow(backend):
    """At scores of 800 the printed messages are inf and nan; the answer is 800 n + n log 2."""
    n, unary = 3, np.full((3, 2), 800.0)
    with np.errstate(over="ignore", invalid="ignore"):
        message = np.exp(unary[0])
        for t in range(1, n):
            message = np.exp(unary[t]) * (message @ np.ones((2, 2)))
        assert not np.isfinite(np.log(message.sum()))
    np.testing.assert_allclose(
        backend.Chain(unary, np.zeros((2, 2))).log_partition(), n * (800 + np.log(2)), rtol=1e-12
    )


def test_start_and_stop_pairs_need_more_than_l_squared_weights(backend):
    """The pair features of all labellings of up to three positions span more than L^2 dimensions."""
    L = 2
    model = backend.SequenceModel(0, L)
    rows = []
    for n in (1, 2, 3):
        data = model.pack([np.zeros((n, 0))] * L**n, list(itertools.product(range(L), repeat=n)))
        for i in range(data.n):
            rows.append(model.pullback(data, np.array([i]), np.zeros(model.size), model.gold(data, np.array([i]))))
    assert model.size == L**2 + 2 * L
    assert np.linalg.matrix_rank(np.array(rows)) > L**2


@pytest.mark.parametrize("mu", [0.1, 1.0, 10.0])
def test_entropy_smoothing_lies_within_mu_log_m(backend, rng, mu):
    """max <= smoothed max <= max + mu log m, with equality above where all scores tie."""
    for m in (1, 2, 7):
        z = rng.normal(size=m)
        value = float(backend.Table(z).log_partition(mu))
        assert z.max() - 1e-12 <= value <= z.max() + mu * np.log(m) + 1e-12
        np.testing.assert_allclose(float(backend.Table(np.zeros(m)).log_partition(mu)), mu * np.log(m), atol=1e-12)
