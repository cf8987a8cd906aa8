"""``python -m conformance export``: panels give the answers of the file, a damaged one is noticed, and the answers are
those of a second way.
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
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import conformance
from conformance import export
from conformance.__main__ import main
from conformance.export.draws import NATURES
from conformance.export.held import array, hold, inputs
from conformance.export.numbers import log1p, root
from conformance.export.spaces import SPACES
from conformance.ledger import ROWS
from conformance.plugin import PANELS
from conformance.project.test_pages import blocks
from conformance.prox.test_selection import exact_l1_ball, exact_simplex, exact_soft_threshold, exact_weighted
from conformance.specimens.outputs import listing
from conformance.tolerances import close

PAGE = Path(conformance.__file__).parent.parent / "docs" / "conformance.md"
DEFAULT = export.document()
WITHOUT_PYTEST = """
import sys
sys.modules.update(dict.fromkeys(["pytest", "hypothesis"]))  # None: not to be imported
from conformance.__main__ import main
sys.exit(main(["export", "--count", "1"]))
"""
# of inputs and answers of the default seed: where those of a kind change, so does ``export.VERSION``
DIGEST = "e7296cf68dd244cd7d1f100d795b1f8eaa6d7586745086699db890c5bba505b0"


def of(kind, document=DEFAULT):
    return [each for each in document["instances"] if each["kind"] == kind]


def numbers(answer, path=()):
    """Every answer that has a tolerance, with its path."""
    if isinstance(answer, dict) and "tolerance" in answer:
        yield path, answer
    elif isinstance(answer, (dict, list)):
        for key, value in answer.items() if isinstance(answer, dict) else enumerate(answer):
            yield from numbers(value, (*path, key))


def moved(number, tolerance):
    """Another number; where the tolerance is 0, so are the scores."""
    return 0.0 if number == "-inf" else number + 3 * (tolerance or 1e-300)


@pytest.mark.parametrize("kind", export.KINDS)
def test_a_library_gives_the_answers_of_the_file(backend, kind):
    for instance in json.loads(export.text({**DEFAULT, "instances": of(kind)}))["instances"]:
        assert hold(backend, instance) > 0


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("kind", SPACES)
def test_where_sums_are_exact_the_panels_are(panel, kind):
    """Maxima add and compare scores, whatever the algorithm: not a bit may be lost."""
    for instance in of(kind):
        exactly = ("best", "score of the best output", "topk", "max_marginals") if instance["exact_sums"] else ()
        hold(importlib.import_module(panel), instance, exactly)


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
    """A number of each answer of some instances, moved by three tolerances at least; -inf becomes 0."""
    panel, damaged = importlib.import_module("reference"), 0
    for instance in of(kind)[:5]:
        for path, answer in numbers(instance["answers"]):
            if not answer["float64"] and isinstance(answer["float64"], list):
                continue  # no entries
            other = copy.deepcopy(instance)
            place = functools.reduce(lambda inside, key: inside[key], path, other["answers"])
            if isinstance(place["float64"], list):
                place["float64"][-1] = moved(place["float64"][-1], answer["tolerance"])
            else:
                place["float64"] = moved(place["float64"], answer["tolerance"])
            with pytest.raises(AssertionError, match=instance["id"]):
                hold(panel, other)
            damaged += 1
    assert damaged >= 5


def test_damaged_counts_and_outputs_are_noticed():
    panel = importlib.import_module("reference")
    instance = of("Chain")[0]
    outputs = instance["answers"]["best"]["outputs"]
    for name, wrong in (
        ("count", instance["answers"]["count"] + 1),
        ("best", None),
        ("best", {**instance["answers"]["best"], "outputs": [[label + 1 for label in y] for y in outputs]}),
    ):
        other = {**instance, "answers": {**instance["answers"], name: wrong}}
        with pytest.raises(AssertionError):
            hold(panel, other)


class TestBytes:
    def test_a_seed_gives_the_same_bytes(self, tmp_path, capsys):
        assert main(["export", "--out", str(tmp_path / "a.json")]) == 0
        assert main(["export", "--seed", "0"]) == 0
        out = capsys.readouterr().out
        assert (tmp_path / "a.json").read_bytes() == out.encode() == export.text(DEFAULT).encode()
        assert json.loads(out) == DEFAULT and out.isascii()
        assert export.text(export.document(1, 1))[-1000:] != export.text(export.document(0, 1))[-1000:]

    def test_the_default_seed_gives_what_it_gave(self):
        """On every machine: nothing here depends on NumPy, on the C library or on Python's version."""
        told = [[each["id"], each["inputs"], each["answers"]] for each in DEFAULT["instances"]]
        assert hashlib.sha256(json.dumps(told).encode()).hexdigest() == DIGEST

    def test_an_instance_depends_on_its_seed_kind_and_place_alone(self):
        some = export.document(0, export.COUNT + 1, ["L21", "Tree"])
        assert list(some["kinds"]) == ["Tree", "L21"]
        for kind in ("Tree", "L21"):
            assert of(kind, some)[: export.COUNT] == of(kind)
            assert of(kind, some)[-1]["inputs"] != of(kind)[0]["inputs"]

    @pytest.mark.beyond("starts a process")
    def test_it_needs_no_pytest(self):
        place = os.pathsep.join([str(Path(conformance.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", WITHOUT_PYTEST]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": place})
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert done.stdout == export.text(export.document(count=1))


class TestForm:
    def test_the_header_says_how_to_read(self):
        keys = ["format", "version", "seed", "package", "license", "reading", "kinds", "instances"]
        assert list(DEFAULT) == keys and DEFAULT["version"] == 1 and DEFAULT["format"] == "diptych instances"
        assert list(DEFAULT["kinds"]) == list(export.KINDS) and all(DEFAULT["kinds"].values())

    def test_instances_have_the_same_keys(self):
        told = {key for each in DEFAULT["instances"] for key in each["answers"]} | {"arrays", "inputs", "answers"}
        assert set(DEFAULT["reading"]) == told | {"tolerance", "exact_sums", "ledger"}
        for each in DEFAULT["instances"]:
            structure = each["kind"] in SPACES
            expected = ["id", "kind", "what", "exact_sums", "ledger", "inputs", "answers"]
            assert list(each) == [key for key in expected if structure or key != "exact_sums"]
            answers = ["count", "best", "topk", *SPACES[each["kind"]].answers] if structure else ["prox"]
            assert list(each["answers"]) == answers and set(each["ledger"]) <= set(answers)
        ids = [each["id"] for each in DEFAULT["instances"]]
        assert len(set(ids)) == len(ids) == export.COUNT * len(export.KINDS)

    def test_labels_are_of_the_ledger(self):
        labels = {label for each in DEFAULT["instances"] for label in each["ledger"].values()}
        assert labels <= {row.label for row in ROWS} and len(labels) > 20

    def test_floats_are_nearest_to_the_exact_numbers(self):
        kinds = set()
        for each in DEFAULT["instances"]:
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


class TestASecondWay:
    def test_chains_and_their_sums_by_numpy(self):
        for each in of("Chain"):
            told, given = each["answers"], inputs(each)
            n, L = given["unary"].shape
            pairwise = np.broadcast_to(given["pairwise"], (max(n - 1, 0), L, L))
            chain = listing("Chain", {"unary": given["unary"], "pairwise": pairwise})
            scores = chain.scores
            assert told["count"] == (scores > -np.inf).sum()
            if told["best"] is None:
                continue
            size = max(float(np.abs(scores[scores > -np.inf]).max()), 1e-300)
            close(scores.max() / size, told["best"]["value"]["float64"] / size)
            for at in told["sums"]:
                value, means = chain.expectation(at["mu"])
                close(value / at["mu"], at["log_partition"]["float64"] / at["mu"], scale=size / at["mu"])
                close(array(at["marginals"]["unary"]), means["unary"])

    def test_matchings_by_scipy(self):
        for each in of("Matching"):
            values, told = inputs(each)["values"], each["answers"]["best"]
            if told is not None:
                rows, columns = linear_sum_assignment(values, maximize=True)
                assert abs(values[rows, columns].sum() - told["value"]["float64"]) <= told["value"]["tolerance"]

    def test_numbers_of_dependency_trees_are_cayleys(self):
        counts = {}
        for each in export.document(5, 60, ["Arborescence"])["instances"]:
            values = inputs(each)["values"]
            if np.isfinite(values).all():
                counts[len(values), each["inputs"]["single_root"]] = each["answers"]["count"]
        assert len(counts) > 5
        for (n, single), count in counts.items():
            assert count == (1 if n == 0 else n ** (n - 1) if single else (n + 1) ** (n - 1))

    def test_zeros_count_outputs(self):
        for kind in ("Table", "Chain", "Tree", "Graph", "Arborescence"):
            (told,) = [each["answers"] for each in of(kind) if each["what"].startswith("0 or -inf")]
            for at in told["sums"]:
                close(at["log_partition"]["float64"] / at["mu"], math.log(told["count"]))
                close(at["entropy"]["float64"], math.log(told["count"]))

    def test_marginals_and_entropies_are_of_a_distribution(self):
        for kind in ("Table", "Chain", "Tree", "Graph", "Arborescence"):
            for each in of(kind):
                for at in each["answers"]["sums"] or []:
                    (marginals, *_) = at["marginals"].values()
                    exact = [Fraction(p) for p in marginals["digits"]]
                    assert abs(sum(exact) - (1 if kind == "Table" else marginals["shape"][0])) < Fraction(1, 10**48)
                    assert 0 <= Fraction(at["entropy"]["digits"]) <= math.log(each["answers"]["count"]) + 1e-15

    @pytest.mark.parametrize(
        ("kind", "by_sorting"),
        [
            ("soft_threshold", exact_soft_threshold),
            ("project_simplex", exact_simplex),
            ("project_l1_ball", exact_l1_ball),
            ("prox_squared_l1", lambda x, lam: exact_weighted(x, np.ones(len(x)), lam)),
            ("prox_weighted_squared_l1", exact_weighted),
        ],
    )
    def test_selections_by_sorting(self, kind, by_sorting):
        for each in export.document(3, 40, [kind])["instances"]:
            assert [Fraction(v) for v in each["answers"]["prox"]["rational"]] == by_sorting(**inputs(each))

    def test_roots_and_logarithms(self):
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


class TestRequests:
    def test_wrong_requests_are_refused_in_a_line(self, tmp_path, capsys):
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

    def test_nobody_reads_on(self, monkeypatch):
        class Closed(io.StringIO):
            def write(self, text):
                raise BrokenPipeError

            def fileno(self):
                return os.open(os.devnull, os.O_WRONLY)

        monkeypatch.setattr(sys, "stdout", Closed())
        assert main(["export", "--count", "1", "--structure", "Table", "L2Ball"]) == 141
