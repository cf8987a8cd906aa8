"""``python -m conformance export``: panels give the answers of the file, a damaged one is noticed, and the digits that
no panel has are right.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import io
import json
import math
import os
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import conformance
from conformance import export
from conformance.__main__ import main
from conformance.export.draws import NATURES
from conformance.export.held import hold, inputs
from conformance.export.numbers import log1p, root
from conformance.export.spaces import SPACES
from conformance.ledger import ROWS
from conformance.project.test_pages import blocks

PAGE = Path(conformance.__file__).parent.parent / "docs" / "conformance.md"
# of inputs and answers of the default seed: where those of a kind change, so does ``export.VERSION``
DIGEST = "e7296cf68dd244cd7d1f100d795b1f8eaa6d7586745086699db890c5bba505b0"


@functools.cache
def default():
    return export.document()


def of(kind, document=None):
    return [each for each in (document or default())["instances"] if each["kind"] == kind]


def numbers(answer, path=()):
    """Every answer that has a tolerance, with its path."""
    if isinstance(answer, dict) and "tolerance" in answer:
        yield path, answer
    elif isinstance(answer, (dict, list)):
        for key, value in answer.items() if isinstance(answer, dict) else enumerate(answer):
            yield from numbers(value, (*path, key))


@pytest.mark.parametrize("kind", export.KINDS)
def test_a_library_gives_the_answers_of_the_file(backend, kind):
    """By a panel, not a bit may be lost where sums are exact: maxima add and compare scores, whatever the algorithm."""
    for instance in json.loads(export.text({**default(), "instances": of(kind)}))["instances"]:
        exactly = ()
        if backend.__name__ in ("reference", "accelerated") and instance.get("exact_sums"):
            exactly = ("best", "score of the best output", "topk", "max_marginals")
        assert hold(backend, instance, exactly) > 0


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        ("off_by_one_viterbi", "Chain"),
        ("unshifted_partition", "Chain"),
        ("top_k_padded_with_the_best", "Chain"),
        ("top_k_without_distinctness", "Chain"),
        ("tree_pairs_transposed", "Tree"),
        ("tree_siblings_in_step", "Tree"),
        ("clipped_capacities", "Cut"),
        ("residual_arcs_both_ways", "Matching"),
        ("cycles_at_full_score", "Arborescence"),
        ("roots_all_counted", "Arborescence"),
        ("unsorted_simplex", "project_simplex"),
        ("groups_before_coordinates", "SparseGroupLasso"),
    ],
)
def test_known_mistakes_are_noticed(mistake, kind):
    """Panels with one mistake each (``conformance/meta``) fail the file of the default seed."""
    panel = importlib.import_module(f"conformance.meta.{mistake}")
    with pytest.raises(AssertionError, match=f"^{kind}/"):
        for instance in of(kind):
            hold(panel, instance)


@pytest.mark.parametrize("kind", export.KINDS)
def test_a_damaged_answer_is_noticed(kind):
    """A number of each answer of some instances, moved by three tolerances at least, -inf to 0; counts and outputs."""
    panel, damaged = importlib.import_module("reference"), []
    for instance in of(kind)[:5]:
        for path, answer in numbers(instance["answers"]):
            if answer["float64"] == []:
                continue  # no entries
            other = copy.deepcopy(instance)
            place, at = functools.reduce(lambda inside, key: inside[key], path, other["answers"]), "float64"
            if isinstance(place[at], list):
                place, at = place[at], -1
            place[at] = 0.0 if place[at] == "-inf" else place[at] + 3 * (answer["tolerance"] or 1e-300)
            damaged.append(other)
    assert len(damaged) >= 5
    told = of(kind)[0]["answers"]
    if kind in SPACES and "sums" in SPACES[kind].answers:  # others may not count
        damaged.append({**of(kind)[0], "answers": {**told, "count": told["count"] + 1}})
    if kind in SPACES:
        best = {**told["best"], "outputs": [-1]}
        damaged += [{**of(kind)[0], "answers": {**told, "best": wrong}} for wrong in (None, best)]
    for other in damaged:
        with pytest.raises(AssertionError, match=other["id"]):
            hold(panel, other)


class TestBytes:
    def test_a_seed_gives_the_same_bytes(self, tmp_path, capsys):
        """On every machine: nothing here depends on NumPy, on the C library or on Python's version."""
        assert main(["export", "--out", str(tmp_path / "a.json")]) == 0
        assert main(["export", "--seed", "0"]) == 0
        out = capsys.readouterr().out
        assert (tmp_path / "a.json").read_bytes() == out.encode() == export.text(default()).encode()
        assert json.loads(out) == default() and out.isascii()
        told = [[each["id"], each["inputs"], each["answers"]] for each in default()["instances"]]
        assert hashlib.sha256(json.dumps(told).encode()).hexdigest() == DIGEST

    def test_an_instance_depends_on_its_seed_kind_and_place_alone(self):
        some = export.document(0, export.COUNT + 1, ["L21", "Tree"])
        assert list(some["kinds"]) == ["Tree", "L21"]
        for kind in ("Tree", "L21"):
            assert of(kind, some)[: export.COUNT] == of(kind)
            assert of(kind, some)[-1]["inputs"] != of(kind)[0]["inputs"]
            assert of(kind, export.document(1, 1))[0]["inputs"] != of(kind)[0]["inputs"]


class TestForm:
    def test_the_header_says_how_to_read(self):
        keys = ["format", "version", "seed", "package", "license", "reading", "kinds", "instances"]
        assert list(default()) == keys and default()["version"] == 1 and default()["format"] == "diptych instances"
        assert list(default()["kinds"]) == list(export.KINDS) and all(default()["kinds"].values())
        told = {key for each in default()["instances"] for key in each["answers"]} | {"arrays", "inputs", "answers"}
        assert set(default()["reading"]) == told | {"tolerance", "exact_sums", "ledger"}

    def test_instances_have_the_same_keys(self):
        for each in default()["instances"]:
            structure = each["kind"] in SPACES
            expected = ["id", "kind", "what", "exact_sums", "ledger", "inputs", "answers"]
            assert list(each) == [key for key in expected if structure or key != "exact_sums"]
            answers = ["count", "best", "topk", *SPACES[each["kind"]].answers] if structure else ["prox"]
            assert list(each["answers"]) == answers and set(each["ledger"]) <= set(answers)
            assert set(each["ledger"].values()) <= {row.label for row in ROWS}
        ids = [each["id"] for each in default()["instances"]]
        assert len(set(ids)) == len(ids) == export.COUNT * len(export.KINDS)

    def test_floats_are_nearest_to_the_exact_numbers(self):
        kinds = set()
        for each in default()["instances"]:
            for _, answer in numbers(each["answers"]):
                (kind,) = set(answer) & {"rational", "digits"}
                kinds.add(kind)
                flat = [answer[key] if isinstance(answer[key], list) else [answer[key]] for key in ("float64", kind)]
                assert len(flat[0]) == math.prod(answer.get("shape", []))
                for number, exact in zip(*flat, strict=True):
                    assert number == exact if exact == "-inf" else number == float(Fraction(exact))
                    assert kind == "rational" or len(exact.split("E")[0].replace(".", "").strip("-0")) <= 50
        assert kinds == {"rational", "digits"}

    @pytest.mark.parametrize("kind", SPACES)
    def test_what_is_nasty_is_there(self, kind):
        answers = [each["answers"] for each in of(kind)]
        assert any(each["best"] is None and each["count"] == 0 for each in answers)
        assert any(each["best"] and len(each["best"]["outputs"]) > 1 for each in answers)
        assert any(0 < each["count"] < each["topk"]["k"] for each in answers)
        assert any(each["count"] == 1 for each in answers)
        assert any("-inf" in json.dumps(each["inputs"]) and each["answers"]["best"] for each in of(kind))
        values = np.abs(np.concatenate([inputs(each)[next(iter(each["inputs"]))].reshape(-1) for each in of(kind)]))
        values = values[np.isfinite(values) & (values > 0)]
        assert values.min() < 1e-300 and values.max() > 1e297
        assert [each["what"] for each in of(kind)] == [nature.what for nature in NATURES]


@pytest.mark.parametrize("kind", [kind for kind in SPACES if "sums" in SPACES[kind].answers])
def test_digits_beyond_those_of_a_float(kind):
    """Marginals of a position or token sum to 1; entropies are those of a distribution."""
    for each in of(kind):
        for at in each["answers"]["sums"] or []:
            (marginals, *_) = at["marginals"].values()
            exact = [Fraction(p) for p in marginals["digits"]]
            assert abs(sum(exact) - (1 if kind == "Table" else marginals["shape"][0])) < Fraction(1, 10**48)
            assert 0 <= Fraction(at["entropy"]["digits"]) <= math.log(each["answers"]["count"]) + 1e-15


def test_roots_and_logarithms():
    assert root(Fraction(9, 16)) == Fraction(3, 4)
    assert abs(root(Fraction(2)) ** 2 - 2) < Fraction(1, 10**88)
    for x in ("1e-10", "1e-19", "1e-21", "1e-400"):  # on both sides of where the series takes over
        r = Fraction(x)
        series = sum(-((-r) ** j) / j for j in range(1, 9))
        assert abs(Fraction(log1p(Decimal(x))) - series) < r / 10**65


@pytest.mark.skipif(not PAGE.exists(), reason="an installed suite has no pages")
def test_the_reader_on_the_page_notices_a_mistake(monkeypatch, tmp_path):
    """As it stands there it runs with the other pages' blocks."""
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(PAGE, "python"))
    wrong = code.replace("Chain(unary, pairwise)", "Chain(unary, pairwise.swapaxes(-1, -2))")
    assert wrong != code
    with pytest.raises(AssertionError, match="^Chain/"):
        exec(wrong, {})


def test_wrong_requests_are_refused_in_a_line(tmp_path, capsys):
    nowhere = tmp_path / "nowhere" / "a.json"
    for given, words in (
        (["--seed", "-1"], "--seed: expected an integer >= 0, got -1"),
        (["--count", "0"], "--count: expected an integer >= 1, got 0"),
        (["--structure", "Lattice"], "invalid choice: 'Lattice'"),
        (["--out", str(nowhere)], str(nowhere)),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["export", *given])
        assert ended.value.code == 2 and words in capsys.readouterr().err


def test_nobody_reads_on(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

        def fileno(self):
            return os.open(os.devnull, os.O_WRONLY)

    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["export", "--count", "1", "--structure", "Table", "L2Ball"]) == 141
