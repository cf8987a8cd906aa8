"""The ledger is whole: every row has code and tests that exist, and every printed error is shown to be one."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from conformance import modules
from conformance.ledger import ROWS, VERDICTS, render


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_row_is_backed(row):
    assert row.verdict in VERDICTS and row.statement
    assert row.code and row.tests
    for name in row.code:
        module, _, attribute = name.rpartition(".")
        whole = module if module.startswith("diptych.") else f"reference.{module}"
        assert hasattr(importlib.import_module(whole), attribute), name
    assert set(row.tests) <= modules.tests(), set(row.tests) - modules.tests()
    if row.verdict == "wrong as printed":
        assert row.printed and row.rejected_by
    if row.printed:
        assert row.rejected_by in modules.tests(), row.rejected_by
    if row.verdict == "holds under a condition":
        assert row.condition


def test_names_of_modules_differ():
    """A row names a test by its module without the folder."""
    names = [path.stem for path in modules.HERE.rglob("test_*.py")]
    assert len(set(names)) == len(names)


def test_labels_differ():
    assert len({row.label for row in ROWS}) == len(ROWS)


def test_the_page_has_every_row():
    page = render()
    assert all(row.label in page and row.statement.replace("|", "\\|") in page for row in ROWS)


def test_links_lead_somewhere():
    """Every row names its tests' files by links from docs/; every section is in the table of contents, by its
    heading's anchor.
    """
    page = render()
    files = set(re.findall(r"\]\(\.\./(conformance/[^)]+)\)", page))
    assert files == {
        f"conformance/{modules.module_path(name.split('::')[0]).relative_to(modules.HERE).as_posix()}"
        for row in ROWS
        for name in (*row.tests, row.rejected_by)
        if name
    }
    assert all((modules.HERE.parent / file).exists() for file in files)
    headings = re.findall(r"^## (.+)$", page, flags=re.MULTILINE)
    anchors = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert re.findall(r"^- \[(.+)\]\(#(.+)\): ", page, flags=re.MULTILINE) == list(zip(headings, anchors, strict=True))
    assert all(f"- **{verdict}**: " in page for verdict in VERDICTS)


def test_options_of_the_page():
    def run(*options):
        return subprocess.run([sys.executable, "-m", "conformance.ledger", *options], capture_output=True, text=True)

    assert len(json.loads(run("--json").stdout)) == len(ROWS)
    unknown = run("--jsn")
    assert unknown.returncode == 2 and unknown.stdout == "" and "unrecognized arguments: --jsn" in unknown.stderr


def test_the_page_in_docs_is_this_ledger():
    """In a checkout: `make ledger` writes it."""
    root = modules.HERE.parent
    if (root / "pyproject.toml").exists():  # an installed package has no pages
        assert (root / "docs" / "LEDGER.md").read_text(encoding="utf-8") == render()


# printed forms, shown to be wrong -----------------------------------------------------------------------------------


def test_max_k_of_a_set_of_scores_is_not_the_second_best_output(backend):
    scores = [1.0, 1.0, 0.0]
    as_printed = sorted(set(scores), reverse=True)[1]
    second = float(np.asarray(backend.Table(scores).topk(2).scores)[1])
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
