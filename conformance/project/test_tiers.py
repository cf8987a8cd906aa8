"""The first tier leaves out no claim: every ledger row, public name and known mistake has its tests in it."""

from __future__ import annotations

import ast

import pytest

import reference
from conformance import modules, plugin
from conformance.ledger import ROWS


def marked(node: ast.AST) -> bool:
    """Whether a decorator or the right-hand side of ``pytestmark`` is the marker ``beyond``."""
    return any(isinstance(each, ast.Attribute) and each.attr == "beyond" for each in ast.walk(node))


def beyond() -> set[str]:
    """``module::function`` of the tests that the first tier leaves out."""
    names = set()
    for path in modules.HERE.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = any(isinstance(node, ast.Assign) and marked(node.value) for node in tree.body)
        for node in modules.functions(tree):
            if whole or any(marked(each) for each in node.decorator_list):
                names.add(f"{path.stem}::{node.name}")
    return names


def test_the_first_tier_has_the_tests_of_every_row():
    left_out = beyond()
    assert left_out  # the marker is found
    for row in ROWS:
        tests = {*row.tests, *([row.rejected_by] if row.rejected_by else [])}
        assert not tests & left_out, row.label


def test_the_first_tier_catches_known_mistakes():
    catching = {
        "test_known_bad::test_known_mistakes_are_caught",
        "test_known_bad::test_a_closed_gap_is_an_error",
        "test_names::test_name_is_there",
    }
    assert catching <= modules.tests() - beyond()


def test_the_first_tier_uses_every_public_name():
    """As an attribute, a name or a string, in a test of the tier or in what tests share, but not in a known mistake or
    an adapter."""
    left_out, used = beyond(), set()
    apart = modules.HERE / "meta", modules.HERE / "adapters"
    for path in (path for path in modules.HERE.rglob("*.py") if path.parent not in apart):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if f"{path.stem}::{getattr(node, 'name', '')}" not in left_out:
                each = list(ast.walk(node))
                used |= {part.attr for part in each if isinstance(part, ast.Attribute)}
                used |= {part.id for part in each if isinstance(part, ast.Name)}
                used |= {part.value for part in each if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    assert set(reference.__all__) <= used, set(reference.__all__) - used


def test_every_law_of_a_backend_is_in_the_first_tier(request):
    """A test that has an instance on a backend has one there, unless it is marked; the rest has all others."""
    items = request.session.items
    first = plugin._first_tier(items)
    assert plugin._first_tier([item for item in items if item in first]) == first  # whichever tier runs
    laws, kept = set(), set()
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        law = item.nodeid.partition("[")[0], str(given.get("backend", given.get("other")))
        if item.get_closest_marker("beyond") is None and ("space" not in given or plugin._first(given["space"])):
            laws.add(law)
        if item in first:
            kept.add(law)
    assert kept == laws


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
