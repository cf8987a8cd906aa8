"""The site: what it shows of a statement is in the sources, both sides of an erratum differ, and what is wrong fails.

Its extension of sphinx is in a checkout only (`docs/_ext`), an installed suite has none.
"""

import ast
import importlib
import inspect
import itertools
import json
import math
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import reference as sp
from conformance.identities import martins, papers
from conformance.ledger import ROWS, SECTIONS

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "docs" / "_ext"
pytestmark = pytest.mark.skipif(not EXTENSION.exists(), reason="an installed suite has no site")
PRINTED = {
    "structures.chain.viterbi": "viterbi_range",
    "structures.chain.top_k_viterbi": "top_k_range",
    "structures.chain.forward_backward": "forward_backward_range",
    "optimizers.svrg.SVRG": "svrg_epoch",
    "optimizers.bcfw.BCFW": "bcfw_pass",
}


@pytest.fixture
def extension(monkeypatch):
    """A module of the extension by its name."""
    monkeypatch.syspath_prepend(str(EXTENSION))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXTENSION)):
            del sys.modules[name]


@pytest.mark.beyond("reads every source")
def test_the_lines_of_a_statement_are_those_of_its_code_kernel_and_tests(extension):
    places = extension("places")
    shown = [places.of_test(test) for row in ROWS for test in (*row.tests, row.rejected_by) if test]
    for name in {name for row in ROWS for name in row.code}:
        shown.append(places.place(places.named(name)))
        if (ours := places.counterpart(name)) is not None:
            assert ours.__name__ == name.rpartition(".")[2] and ours.__module__.startswith("accelerated")
            shown += [places.place(each) for each in (ours, *places.kernels(ours))]
    for place in shown:
        lines = (ROOT / place.path).read_text(encoding="utf-8").splitlines()[place.first - 1 : place.last]
        assert [line.strip() for line in lines] == [line.strip() for line in place.code.splitlines()]
        (node,) = ast.parse(place.code).body
        assert node.name == place.name.split(".")[-1]
    assert sum(place.path.startswith("accelerated/compiled/") for place in shown) > 20


def without_docstrings(code):
    """Its tree."""
    (whole,) = ast.parse(code).body
    for each in ast.walk(whole):
        if isinstance(each, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(each) and each.body[1:]:
            del each.body[0]
    return whole


def test_listings_are_whole_functions_and_whole_members_of_classes(extension):
    """Up to their docstrings, which the statement says: no condition of an algorithm lies behind a cut."""
    pytest.importorskip("sphinx")
    papers, places = extension("papers"), extension("places")
    for place in (places.place(places.named(name)) for name in sorted({name for row in ROWS for name in row.code})):
        shown, more = papers.shortened(place.code)
        (found,), expected = ast.parse("\n".join(shown)).body, without_docstrings(place.code)
        if isinstance(expected, ast.ClassDef):
            assert (more == 0) == (len(found.body) == len(expected.body)) and found.body
            expected.body = expected.body[: len(found.body)]
        assert ast.dump(found) == ast.dump(expected) and (more == 0 or len(shown) >= papers.LONGEST)
        if place.code.count("\n") < papers.LONGEST:
            assert all(
                f"   {line}".rstrip() in map(str.rstrip, papers.listing(place)) for line in place.code.split("\n")
            )
    (five,) = [row for row in ROWS if row.id == "p-algorithm-5"]
    lines = "\n".join(line for name in five.code for line in papers.listing(places.place(places.named(name))))
    assert re.search(r"# .*line 4", lines)


def test_sources_in_docstrings_are_sections_of_their_own(extension):
    """They are none of numpydoc: without ``napoleon_custom_sections`` they would be the last error that is raised."""
    napoleon = pytest.importorskip("sphinx.ext.napoleon")
    known = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    config = napoleon.Config(**{name: known[name] for name in known if name.startswith("napoleon_")})
    for thing in (sp.StructuralHinge, sp.LogLoss, sp.StructuralHinge.sampled_corners, sp.bcfw):
        text = str(napoleon.NumpyDocstring(inspect.getdoc(thing), config, what="class"))
        assert text.count(".. rubric:: Source") == 1 and "------" not in text


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_algorithm_leads_to_its_kernel(extension, name):
    places = extension("places")
    kernels = places.kernels(places.counterpart(name))
    assert PRINTED[name] in [each.py_func.__name__ for each in kernels]


def test_names_that_are_not_there_are_errors(extension):
    places = extension("places")
    with pytest.raises(AttributeError, match="no_such"):
        places.named("structures.chain.no_such")
    with pytest.raises(LookupError, match="test_ledger::test_no_such: no such test"):
        places.of_test("test_ledger::test_no_such")


def test_both_sides_of_each_cell(extension):
    cells = extension("cells")
    assert {row.id for row in ROWS if row.printed} <= set(cells.IDS) <= {row.id for row in ROWS}
    found = {row.id: cells.of(row) for row in ROWS}
    assert {name: cell.problem for name, cell in found.items() if cell is not None and cell.problem} == {}


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("value, corrected, printed = 1.0, 2.0, 3.0", "corrected is 2.0, and the value is 1.0"),
        ("value, corrected, printed = 1.0, 1.0, 1.0", "the printed form gives the value, 1.0"),
        ("value = corrected = 1.0", "KeyError: 'printed'"),
        ("value, corrected, printed = 1.0, 1.0, 2.0", ""),
    ],
)
def test_a_cell_that_shows_nothing_is_a_problem(extension, tmp_path, code, problem):
    (tmp_path / "cell.py").write_text(code)
    assert extension("cells").run(tmp_path / "cell.py", erratum=True).problem == problem


def test_each_identity_of_the_ledger_has_a_cell_or_a_law(extension):
    about = {name for laws in papers().values() for law in laws for name in law.rows.split()}
    assert about <= {row.id for row in ROWS}
    proved = {row.id for row in ROWS if any(name.startswith("identities.") for name in row.code)}
    assert proved <= about | set(extension("cells").IDS)


@pytest.mark.parametrize("law", martins.LAWS, ids=lambda law: f"{law.number} {law.says}")
def test_the_sides_of_a_law_are_equal_or_in_order(extension, law):
    result, shown = extension("sides").measured(law, sp, 0)
    assert result.holds and shown
    for (_, _, left), (sign, _, right) in shown:
        numbers = [np.array(side.strip("[]").split(), dtype=float) for side in (left, right)]
        assert np.allclose(*numbers, rtol=1e-4, atol=1e-5) if sign == "= " else np.all(numbers[0] >= numbers[1])
        assert sign == "= " or law.kind == "slack"


def test_sides_are_the_terms_that_a_difference_adds_and_those_it_takes_away(extension):
    law = next(law for law in martins.LAWS if law.number == "Lemma 7 (19)")
    _, (((_, left, _), (_, right, _)),) = extension("sides").measured(law, sp, 0)
    assert (left, right) == ("phi.value(y)", "phi.value(xbar) + _inner(xbar - y, xbar - x)")


def test_links_that_lead_nowhere_and_what_a_page_loads_from_elsewhere_are_reported(extension, tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html#y">1</a><a href="b.html#z">2</a><a href="c.html">3</a>')
    (tmp_path / "b.html").write_text('<p id="y"><a href="#y">4</a><script src="https://a.example/b.js"></script>')
    (tmp_path / "a.css").write_text("@font-face { src: url(//a.example/f.woff2) }")
    assert sorted(extension("links").problems(tmp_path)) == [
        "a.css: loads //a.example/f.woff2",
        "a.html: b.html#z leads nowhere",
        "a.html: c.html leads nowhere",
        "b.html: loads https://a.example/b.js",
    ]


def test_a_formula_that_does_not_render_is_an_error(extension):
    pytest.importorskip("sphinx")
    formulas = extension("formulas")
    if not formulas.KATEX.exists():
        pytest.skip("KaTeX is not in docs/node_modules; `make docs` installs it")
    assert "katex-mathml" in formulas.render(r"\frac1n", display=False)
    with pytest.raises(ValueError, match="frac"):
        formulas.render(r"\frac{1")
    formulas.end()


def test_frames_of_chains_end_in_what_enumeration_finds(extension):
    chains = extension("runs.chains")
    labellings = list(itertools.product(range(3), repeat=5))
    scores = np.array([float(chains.CHAIN.score(y)) for y in labellings])
    order = np.argsort(-scores, kind="stable")
    best, several, sums = (chains.RUNS[f"p-algorithm-{i}"]() for i in (1, 2, 3))
    assert best.final[0] == scores.max() and tuple(best.final[1]) == labellings[order[0]]
    assert [tuple(y) for y in several.final.labels] == [labellings[i] for i in order[:3]]
    assert list(several.final.scores) == list(scores[order[:3]])
    chances = np.exp(scores - np.logaddexp.reduce(scores))
    marginals = np.eye(3)[labellings].transpose(1, 2, 0) @ chances
    np.testing.assert_allclose(sums.final[1].unary, marginals, atol=1e-12)
    assert float(sums.final[0]) == pytest.approx(np.logaddexp.reduce(scores), abs=1e-12)
    assert "D N V D N" in best.frames[-1].says and f"{scores.max():g}" in best.frames[-1].says
    assert f"{np.logaddexp.reduce(scores):.3f}" in sums.frames[4].says


@pytest.mark.beyond("long runs, traced line by line")
def test_frames_in_the_plane_end_where_the_public_functions_do(extension):
    plane = extension("runs.plane")
    finals = {name: run().final for name, run in plane.RUNS.items()}
    same, options = np.testing.assert_allclose, {"rng": 0, "lam": plane.LAM}
    casimir = {"mu": plane.MU, "kappa": plane.KAPPA, "schedule": "const", "step_size": plane.GAMMA}
    same(finals["p-algorithm-4"], sp.casimir(plane.HINGE, **casimir, **options, epochs=plane.ROUNDS).x)

    def inner(problem):
        return sp.lbfgs(problem.objective, problem.start, lam=problem.lam, tol=1e-10)

    limits = {"eta": plane.ETA, "fixed_eta": True, "iterations": plane.ROUNDS}
    same(finals["p-algorithm-5"], sp.prox_linear(plane.BENT, plane.FAR, inner=inner, **limits, **options).x, atol=1e-7)
    steps = {"step_size": sp.steps.InverseSqrt(1.0), "mu": 0.0, "epochs": 2, "rng": 0}
    same(finals["m-algorithm-1"], sp.online_proximal(plane.HINGE, sp.prox.L1(plane.L1), **steps).x)
    hinge = sp.StructuralHinge(plane.MODEL, plane.HINGE.data)
    same(finals["b-algorithm-1"], sp.multisample(hinge, lam=plane.LAM_B, k=3, epochs=2, rng=0).x)


def test_the_bent_scores_have_the_gradient_of_differences(extension):
    plane = extension("runs.plane")
    for w in np.array([[0.3, -0.2], [1.5, 2.0], [-0.9, 2.5]]):
        gradient = plane.BENT.value_and_gradient(w)[1] + plane.LAM * w
        ends = [[plane.bent(w + sign * 1e-5 * e) for e in np.eye(2)] for sign in (1, -1)]
        np.testing.assert_allclose(gradient, np.subtract(*ends) / 2e-5, atol=1e-8)


@pytest.mark.parametrize(("name", "where"), [("7", "TREE"), ("11", "CUT"), ("13", "BOXES")])
def test_frames_of_searches_end_in_what_enumeration_finds(extension, name, where):
    spaces = extension("runs.spaces")
    run, outputs = spaces.RUNS[f"p-algorithm-{name}"](), getattr(spaces, where)
    scores = {y: float(outputs.score(y)) for y in outputs.enumerate()}
    assert float(run.final[0]) == max(scores.values()) == scores[tuple(run.final[1].tolist())]


def test_what_the_frames_of_flows_matchings_and_boxes_say_is_true(extension):
    spaces = extension("runs.spaces")
    every = {y: float(spaces.MATCHING.score(y)) for y in spaces.MATCHING.enumerate()}
    found = spaces.matchings().final.values
    for i, j in np.ndindex(found.shape):
        assert found[i, j] == max(score for y, score in every.items() if y[i] == j)
    unary, pairwise, _ = spaces.CUT.scores
    loss = unary.max(axis=1).sum() + pairwise.max(axis=(1, 2)).sum() - float(spaces.CUT.best()[0])
    assert f"the capacity {loss:g}, which is the flow" in spaces.cut().frames[-1].says  # a cut costs what it loses
    bounds = [float(frame.says.partition(" is ")[2].partition(",")[0]) for frame in spaces.boxes().frames[:-1]]
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] >= float(spaces.BOXES.best()[0])


def test_frames_of_kernels_end_where_mkl_does(extension):
    sparse = extension("runs.sparse")
    options = {"lam": sparse.LAM, "step_size": sparse.SCHEDULE, "epochs": sparse.EPOCHS, "rng": 0}
    run, result = sparse.online_mkl(), sp.mkl(sparse.LABELLER, sparse.DATA, **options)
    assert len(run.frames) == sparse.EPOCHS * sparse.DATA.n
    for ours, theirs in zip((*run.final[0], run.final[1]), (*result.x[0], result.x[1]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert f"beta = ({', '.join(f'{share:.2f}' for share in result.beta)})" in run.frames[-1].says
    assert any("or all of it (linear)" in frame.says for frame in run.frames)


def test_frames_of_screening_are_those_of_the_path_and_screen_only_zeros(extension):
    sparse = extension("runs.sparse")
    run, options = sparse.screening(), {"alpha": sparse.ALPHA, "solver": sparse.SOLVER}
    path = sp.sparse_path(sparse.LOSS, sparse.BETAS, rule=sparse.RULE, gamma=sparse.GAMMA, tol=sparse.TOL, **options)
    exact = sp.sparse_path(sparse.LOSS, sparse.BETAS, rule=None, tol=1e-13, **options)
    says = iter([frame.says for frame in run.frames])
    for k, point in enumerate(path.points):
        np.testing.assert_allclose(run.final[k], path.weights(k), atol=1e-12)
        np.testing.assert_array_equal(run.final[k] != 0, exact.weights(k) != 0)
        for screening, told in zip(point.screenings, says, strict=False):
            assert f"leaves {screening.kept} of" in told
        assert f"Not 0: {', '.join(f'w{j + 1}' for j in point.support)};" in next(says)
    assert next(says, None) is None


def test_a_page_has_its_statements_in_order_under_their_sections(extension, monkeypatch):
    pytest.importorskip("sphinx")
    papers = extension("papers")
    monkeypatch.setattr(papers, "entry", lambda row, underline: [row.label, underline])
    for rows in SECTIONS.values():
        above, found = "", []
        for line, below in itertools.pairwise(papers.body(rows)):
            above = line if below == "-" * len(line) else above
            found += [(above, line)] if below in ("-", "~") else []
        assert found == [(row.section, row.label) for row in rows]


def test_statements_and_the_pages_that_step_through_them_have_links_to_each_other(extension):
    pytest.importorskip("sphinx")
    papers, steps = extension("papers"), extension("steps")
    for row in [row for row in ROWS if row.id in steps.RUNS]:
        assert f"<step-{row.id}>`" in "\n".join(papers.entry(row, "-"))
    lines = steps.page("p-algorithm-1", steps.RUNS["p-algorithm-1"])
    assert lines[0] == ".. _step-p-algorithm-1:" and ":ref:`P Algorithm 1 <p-algorithm-1>`" in "\n".join(lines)


def test_variables_are_those_of_each_iteration_and_a_line_that_moved_is_an_error(extension):
    watch = extension("watch").watch

    def powers(x, n):
        total = [1.0]
        for _ in range(n):
            total.append(total[-1] * x)
        return total[-1]

    before = sys.gettrace()
    moments, answer = watch(lambda: powers(3.0, 3), {"total.append": powers}, "total")
    assert answer == 27.0 and [m.total for m in moments] == [[3.0**k for k in range(n + 1)] for n in range(4)]
    assert [m.line for m in moments] == ["total.append"] * 3 + ["return"]
    for words, found in (("totals", 0), ("total", 2)):
        with pytest.raises(LookupError, match=f"got {found}"):
            watch(lambda: powers(3.0, 3), {words: powers}, "total")
    with pytest.raises(TypeError):
        watch(lambda: powers(None, 3), {"total.append": powers}, "total")
    assert sys.gettrace() is before


def test_a_frame_is_a_figure_with_its_sentence_escaped(extension):
    pytest.importorskip("sphinx")
    drawing, steps = extension("drawing"), extension("steps")
    picture = drawing.Drawing(10, 20)
    picture.text((1, 2), "a < b")
    run = drawing.Run(steps.page, [drawing.Frame(picture, "x & y"), drawing.Frame(picture, "z")], None)
    first, second = steps.figures(run)
    assert "a &lt; b" in first and "<figcaption>x &amp; y</figcaption>" in first and "Step 2 of 2" in second
    with pytest.raises(KeyError):
        steps.page("no-such-statement", lambda: run)


def test_the_history_of_a_benchmark_begins_at_its_last_change(extension, tmp_path):
    """By the dates of the commits, each setting for itself, without what failed."""
    history = extension("history")
    measured = [(3, "b", [4.0, math.nan]), (1, "a", [9.0, 9.0]), (2, "b", [2.0, 8.0]), (4, "b", [1.0, None])]
    columns = ["result", "params", "version", "samples"]
    (tmp_path / "nightly").mkdir()
    (tmp_path / "benchmarks.json").write_text('{"cuts.time_best": {"unit": "seconds"}, "version": 2}')
    for date, version, result in measured:
        row = [result, [["4", "'<'"]], version]
        kept = {"date": date, "result_columns": columns, "results": {"cuts.time_best": row}}
        (tmp_path / "nightly" / f"{date}.json").write_text(json.dumps(kept))
    assert history.values(tmp_path) == {"cuts.time_best('<')": [8.0], "cuts.time_best(4)": [2.0, 4.0, 1.0]}
    page = history.table(tmp_path)
    assert "<code>cuts.time_best(4)</code></td><td>seconds</td><td>2</td><td>1</td><td>0.5</td>" in page
    heights = [float(y) for y in re.findall(r"[\d.]+,([\d.]+)", history.curve([2.0, 4.0, 1.0]))]
    assert np.ptp(heights) and np.allclose(np.diff(heights) / (heights[0] - heights[1]), [-1.0, 1.5])
