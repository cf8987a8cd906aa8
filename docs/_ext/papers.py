"""The annotated papers: a page for each file of the ledger, an entry for each statement.

An entry has the statement and its formula, and in tabs the reference's lines, the kernel's, the test that would fail,
both sides evaluated, by a cell of ``docs/cells`` or a law of ``conformance.identities``, and the verdict. The pages are
written into ``docs/read`` before sphinx reads its sources.
"""

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import cells
import sides
from docutils import nodes
from places import Place, counterpart, kernels, named, of_test, place, write
from runs import RUNS
from sources import address
from sphinx.application import Sphinx
from sphinx.util import logging

from conformance.identities import DRAWS, Law, papers
from conformance.ledger import PAPERS, ROWS, SECTIONS, VERDICTS, Claim

LOG = logging.getLogger(__name__)
LONGEST = 40  # lines of a listing with its docstring
BADGES = dict(zip(VERDICTS, ("success", "warning", "danger"), strict=True))
PAPER_OF = {row.label: name for name, rows in zip(PAPERS, SECTIONS.values(), strict=True) for row in rows}
LAWS = [(paper, place, law) for paper, laws in papers().items() for place, law in enumerate(laws)]
Lines = list[str]


def plain(text: str) -> str:
    """Text of the ledger as reStructuredText that reads the same."""
    return "".join(f"\\{c}" if c in "\\*`|_" else c for c in text)


def body(rows: Sequence[Claim]) -> Iterator[str]:
    """The statements of a page, under the headings of their sections where they have some."""
    for section, inside in groupby(rows, key=lambda row: row.section):
        if section:
            yield from (section, "-" * len(section), "")
        for row in inside:
            yield from entry(row, "~" if section else "-")


def entry(row: Claim, underline: str) -> Lines:
    """A statement's part of its page; underline: that of its label."""
    lines = [f".. _{row.id}:", "", plain(row.label), underline * 2 * len(row.label), ""]
    lines += [".. rst-class:: statement", "", f":bdg-{BADGES[row.verdict]}:`{row.verdict}`", ""]
    word = re.match(r"(?!lam )(a|[a-z-]{2,})[,:]?(?= )", row.statement)  # a symbol stays as it is
    begun = row.statement[0].upper() if word else row.statement[0]
    lines += [plain(f"{begun}{row.statement[1:]}."), ""]
    lines += formula_lines(row.formula)
    if row.id in RUNS:
        lines += [f"See it run, :ref:`step by step <step-{row.id}>`.", ""]
    lines += [".. tab-set::", ""]
    tabs = {"Reference": [line for name in row.code for line in listing(place(named(name)))]}
    tabs["Kernel"] = [line for name in row.code for line in _kernel(name)]
    tests = dict.fromkeys(test for test in (*row.tests, row.rejected_by) if test)
    tabs["Test"] = [line for test in tests for line in listing(of_test(test))]
    tabs["Evaluated"] = _evaluated(row)
    tabs["Verdict"] = _verdict(row)
    for title, body in tabs.items():
        lines += body and _within(f".. tab-item:: {title}", [f":sync: {title.lower()}", "", *body], by=3)
    return lines


def _within(head: str, body: Lines, by: int = 0) -> Lines:
    inside = [textwrap.indent(line, "   ") for line in body]
    return [textwrap.indent(line, " " * by) for line in [head, *inside, ""]]


def block(language: str, code: str, *options: str) -> Lines:
    """A listing."""
    return _within(f".. code-block:: {language}", [*options, "", *code.splitlines()])


def formula_lines(formula: str) -> Lines:
    """A formula, displayed."""
    return _within(".. math::", ["", *formula.strip().splitlines()])


def listing(where: Place) -> Lines:
    """A link to the lines, and the lines; :func:`shortened`, without numbers, if there are many."""
    link = f":source:`{where.name} <{where.path}#{where.first}>`, lines {where.first} to {where.last}"
    if where.code.count("\n") < LONGEST:
        return [link, "", *block("python", where.code, f":lineno-start: {where.first}")]
    shown, more = shortened(where.code)
    cut = [f"and {more} lines more.", ""] if more else []
    return [f"{link}, without docstrings", "", *block("python", "\n".join(shown)), *cut]


def shortened(code: str) -> tuple[Lines, int]:
    """The lines without docstrings, of a class up to the member that reaches LONGEST; how many are behind it."""
    (whole,) = ast.parse(code).body
    inside = [each for each in ast.walk(whole) if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.body[1:]]
    docs = [range(each.body[0].lineno, each.body[0].end_lineno + 1) for each in inside if ast.get_docstring(each)]
    kept = [(n, line) for n, line in enumerate(code.splitlines(), 1) if not any(n in lines for lines in docs)]
    ends = [each.end_lineno for each in whole.body] if isinstance(whole, ast.ClassDef) else []
    last = next((end for end in ends if sum(n <= end for n, _ in kept) >= LONGEST), kept[-1][0])
    return [line for n, line in kept if n <= last], sum(n > last for n, _ in kept)


def _kernel(name: str) -> Lines:
    """The accelerated panel's lines for a name of the reference, and the kernels that they call."""
    ours = counterpart(name)
    if ours is None:
        return [f"``{name}``: the accelerated panel runs the reference's lines.", ""]
    return [line for each in (ours, *kernels(ours)) for line in listing(place(each))]


def _evaluated(row: Claim) -> Lines:
    """The lines of a statement's cell, a table of what they set, and what they print; then the laws about it."""
    lines: Lines = []
    if (cell := cells.of(row)) is not None:
        if cell.problem:
            LOG.warning("docs/cells/%s.py: %s", row.id, cell.problem)
        rows = [line for name, text in cell.values.items() for line in (f"   * - {name}", f"     - ``{text}``")]
        lines += [*block("python", cell.code), ".. list-table::", "", *rows, ""]
        lines += block("text", cell.shown) if cell.shown else []
    for paper, number, law in LAWS:
        lines += _measured(paper, number, law) if row.id in law.rows.split() else []
    return lines


def _verdict(row: Claim) -> Lines:
    lines = [f"**{row.verdict}**" + (f": {plain(row.condition)}" if row.condition else ""), ""]
    if row.printed:
        lines += [f"Printed: {plain(row.printed)}", "", *formula_lines(row.printed_formula)]
        lines += [f"Corrected: {plain(row.statement)}", "", *formula_lines(row.formula)]
        test = of_test(row.rejected_by)
        lines += [f"The printed form is rejected by :source:`{test.name} <{test.path}#{test.first}>`.", ""]
    return lines


def _measured(paper: str, place: int, law: Law) -> Lines:
    """Both sides of a law on one instance, and what ``python -m conformance identities`` measures of it."""
    panels = [importlib.import_module(name) for name in ("reference", "accelerated")[: 1 + law.panels]]
    found = [sides.measured(law, panel, place) for panel in panels]
    if not all(result.holds and shown for result, shown in found):
        LOG.warning("%s, %s: %s", paper, law.number, [result for result, _ in found])
    rows = [f"   * - {sign}``{text}``\n     - ``{value}``" for each in found[0][1] for sign, text, value in each]
    table = [".. list-table::", "", *"\n".join(rows).splitlines(), ""]
    says = "the least slack (at least 0)" if law.kind == "slack" else "the largest residual (0)"
    worst = " and ".join(f"{result.worst or 0:.1e} in ``{result.panel}``" for result, _ in found)
    head = f"{plain(law.number)}: {plain(law.says)}. On the first of {DRAWS} drawn instances:"
    return [head, "", *table, f"Of all {DRAWS}, {says}: {worst}.", ""] if rows else []


def write_pages(app: Sphinx) -> None:
    here = Path(app.srcdir) / "read"
    LOG.info("papers: %d statements, %d evaluated", len(ROWS), len(cells.IDS))
    for stray in sorted({*cells.IDS} - {row.id for row in ROWS}):
        LOG.warning("docs/cells/%s.py: no statement has this anchor", stray)
    for name, (title, rows) in zip(PAPERS, SECTIONS.items(), strict=True):
        counts = ", ".join(f"{sum(row.verdict == verdict for row in rows)} {verdict}" for verdict in VERDICTS)
        head = [title, "=" * len(title), "", f"{len(rows)} statements: {counts}.", ""]
        write(here / f"{name}.rst", [*head, *body(rows)])
    title = "The annotated papers"
    head = [title, "=" * len(title), "", "Each statement that the code builds on, in the paper's order, and beside it"]
    head += ["the lines that a person reads, the lines that run fast, the test that would fail, and what we found.", ""]
    tree = [".. toctree::", "   :maxdepth: 1", "", *(f"   {name}" for name in PAPERS), "", "   ../LEDGER"]
    write(here / "index.rst", [*head, *tree])


def ledger(app: Sphinx, doctree: nodes.document) -> None:
    """On the ledger's page: links from each statement to its entry, from code names and tests to their lines."""
    if app.env.docname != "LEDGER":
        return
    by_label = {row.label: row for row in ROWS}
    sections = [each for each in doctree.findall(nodes.section) if each[0].astext() in by_label]
    if len(sections) != len(ROWS):
        LOG.warning("it has %d statements of %d; run `make ledger`", len(sections), len(ROWS), location="LEDGER")
    for raw in list(doctree.findall(nodes.raw)):
        raw.parent.remove(raw)  # anchors for who reads the file: here a section has its own
    for section in sections:
        row = by_label[section[0].astext()]
        section["ids"] = [row.id]
        tests = {test.partition("::")[2]: of_test(test) for test in (*row.tests, row.rejected_by) if test}
        for link in section.findall(nodes.reference):
            if link.astext() in tests:
                link["refuri"] = address("LEDGER", *tests[link.astext()][1:3])
        for literal in list(section.findall(nodes.literal)):
            if literal.astext() in row.code:
                uri = address("LEDGER", *place(named(literal.astext()))[1:3])
                literal.replace_self(_reference(literal.deepcopy(), uri))
        beside = nodes.Text("with its code, kernel and test")
        section.insert(1, nodes.paragraph("", "", _reference(beside, f"read/{PAPER_OF[row.label]}.html#{row.id}")))
        verdict = next(each for each in section.findall(nodes.strong) if each.astext() == row.verdict)
        verdict.parent["classes"].append("statement")


def _reference(node: nodes.Node, uri: str) -> nodes.reference:
    return nodes.reference("", "", node, internal=True, refuri=uri)
