"""The laws of structures, each once: over every structure, backend and namespace, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import laws
from conformance.specimens.pages import check_refusals, entries
from conformance.specimens.scores import members, stored
from conformance.specimens.structures import SMALL, STRUCTURES
from conformance.structures.test_search import Runs
from conformance.tolerances import close
from reference.arrays import host
from reference.structures.scores import score_fields

KS = st.one_of(st.integers(1, 6), st.sampled_from([24, 26, 27, 28, 81, 125, 243, 250]))  # numbers of outputs among them
everywhere = pytest.mark.parametrize("specimen", STRUCTURES, ids=repr)
batched = pytest.mark.parametrize("specimen", [s for s in STRUCTURES if "batches" in s.promises], ids=repr)
summed = pytest.mark.parametrize("specimen", [s for s in STRUCTURES if "expectation" in s.promises], ids=repr)


def single(data, specimen, backend, space):
    """A structure in a space, and its outputs that are not forbidden."""
    huge = {"huge": False} if specimen.kind == "Cut" and space.dtype == "float32" else {}
    instance = stored(space, data.draw(specimen.draw(batched=False, **huge)))
    return specimen.make(backend, instance, space), specimen.enumerate(instance).possible()


@everywhere
@given(data=st.data())
def test_outputs_scores_and_parts_are_those_of_the_enumeration(backend, space, specimen, data):
    structure, outputs = single(data, specimen, backend, space)
    assert list(structure.enumerate()) == outputs.outputs
    laws.check_scores(structure, outputs)


@everywhere
@given(data=st.data())
def test_the_best_output_is_the_best_of_all(backend, space, specimen, data):
    structure, outputs = single(data, specimen, backend, space)
    if outputs.outputs:
        laws.check_best(structure, outputs)
        y = space.get(structure.best()[1])
        assert y.dtype == np.int64 and (tuple(y.tolist()) if y.ndim else int(y)) in outputs.outputs
    else:
        for oracle in ("best", "expectation", "sample"):
            if structure.supports(oracle) and oracle not in structure.intractable:
                with pytest.raises(backend.InfeasibleError, match="every output is forbidden"):
                    getattr(structure, oracle)(*[1] * (oracle == "sample"))
        for name, mu in zip(specimen.functions, ([], [1.0]), strict=False):
            value, answer = getattr(structure.ops, name)(structure.scores, *mu, *specimen.options.values())
            value, filler = space.get(value), 0 if mu else -1
            assert value == -np.inf and value.shape == () and value.dtype == space.dtype
            assert all(np.all(space.get(x) == filler) for x in score_fields(answer))


@everywhere
@given(data=st.data(), k=KS)
def test_the_k_best_outputs_have_the_k_largest_scores(backend, space, specimen, data, k):
    """And the answer for k is the beginning of the answer for k + 1, bit for bit."""
    structure, outputs = single(data, specimen, backend, space)
    laws.check_top_k(structure, outputs, k)
    few, more = structure.topk(np.int64(k)), structure.topk(k + 1)
    for a, b in ((few.scores, more.scores), (few.labels, more.labels)):
        assert np.array_equal(space.get(a), space.get(b)[:k])


@everywhere
@given(data=st.data())
def test_max_marginals_are_the_best_scores_with_each_part(backend, space, specimen, data):
    structure, outputs = single(data, specimen, backend, space)
    if structure.supports("max_marginals"):
        laws.check_max_marginals(structure, outputs)


@summed
@given(data=st.data(), mu=st.sampled_from([0.1, 1.0, 7.0]))
def test_the_expectation_is_the_sum_over_all_outputs(backend, space, specimen, data, mu):
    structure, outputs = single(data, specimen, backend, space)
    if outputs.outputs:
        laws.check_expectation(structure, outputs, mu)


@everywhere
@given(data=st.data())
def test_a_structure_obeys_the_laws_of_its_own_outputs(backend, specimen, data):
    laws.check_structure(specimen.make(backend, data.draw(specimen.draw(batched=False))))


def answers(structure, k, weights):
    """Name, what fills the place beyond the end of a chain, the fields: of all oracles of a structure with outputs."""
    best = structure.topk(k)
    yield from (("topk", -np.inf, [best.scores]), ("topk labels", -1, [best.labels]), ("topk count", 0, [best.count]))
    yield "max_marginals", -np.inf, score_fields(structure.max_marginals())
    yield "expected_parts", 0, score_fields(structure.expected_parts(best.labels, weights))
    if not np.any(host(best.count) == 0):
        (value, y), (sums, marginals) = structure.best(), structure.expectation(0.7)
        yield from (("best", 0, [value, structure.score(y)]), ("labels", -1, [y]), ("log-partition", 0, [sums]))
        yield "marginals", 0, score_fields(marginals)


@batched
@given(data=st.data(), k=st.integers(1, 9))
def test_a_batch_is_its_members(backend, space, specimen, data, k):
    """Every answer; pairwise scores that all share have the sum of the members' marginals and parts."""
    instance = stored(space, data.draw(specimen.draw()))
    structure = specimen.make(backend, instance, space)
    batch = instance[0].shape[: instance[0].ndim - len(structure.axes)]
    weights = np.arange(1.0, k + 1)
    alone = [
        {name: [space.get(x) for x in fields] for name, _, fields in answers(one, k, space.put(weights))}
        for one in (specimen.make(backend, each, space) for each in members(instance))
    ]
    found = list(answers(structure, k, space.put(np.broadcast_to(weights, (*batch, k)))))
    assert ("best" in [name for name, *_ in found]) == all("best" in each for each in alone)
    for name, filler, fields in found:
        for i, field in enumerate(fields):
            whole, each = space.get(field), [answer[name][i] for answer in alone]
            if name in ("marginals", "expected_parts") and whole.ndim == each[0].ndim == 2 and i == 1:
                close(whole, sum(each), space.dtype, 100.0)
                continue
            for found_one, one in zip(whole.reshape(len(each), *whole.shape[len(batch) :]), each, strict=True):
                there = tuple(map(slice, one.shape))
                close(found_one[there], one, space.dtype, 1e2)
                assert one.dtype == whole.dtype
                rest = np.array(found_one)
                rest[there] = filler
                assert np.all(rest == filler), name


@pytest.mark.parametrize("specimen", [each for each in STRUCTURES if each.first is not None], ids=repr)
@given(data=st.data(), levels=st.integers(1, 3), k=KS)
def test_ties_go_to_the_first_in_the_order_of_the_structure(backend, specimen, data, levels, k):
    """Sums of integers are exact, so that ties are ties; among the k best too where a structure promises it."""
    if specimen.kind == "Cut":
        instance = data.draw(specimen.draw(integer=True))
    else:
        instance = data.draw(specimen.draw(batched=False))
        scores = {name: x for name, x in instance._asdict().items() if name in ("unary", "pairwise", "values")}
        instance = instance._replace(**{name: np.clip(np.rint(x), -levels, levels) for name, x in scores.items()})
    outputs = specimen.enumerate(instance).possible()
    if outputs.outputs:
        structure = specimen.make(backend, instance)
        order = sorted((-s, specimen.first(instance, y), y) for y, s in zip(*outputs[:2], strict=True))
        expected = [list(y) if isinstance(y, tuple) else y for *_, y in order]
        assert np.asarray(structure.best()[1]).tolist() == expected[0]
        if "ranked" in specimen.promises:
            found = structure.topk(k)
            assert np.asarray(found.labels)[: int(found.count)].tolist() == expected[:k]


NOWHERE = [specimen for specimen in STRUCTURES if specimen.kind != "Table"]


@pytest.mark.parametrize("specimen", NOWHERE, ids=repr)
@given(data=st.data())
def test_labels_that_say_there_is_no_output_have_no_parts(backend, specimen, data):
    """They are -1, as oracles give them where every output is forbidden."""
    structure = specimen.make(backend, data.draw(specimen.draw(forbidden=False)))
    nowhere = np.full(structure.topk(1).labels.shape[:-2] + structure.topk(1).labels.shape[-1:], -1)
    assert not any(np.any(np.asarray(field)) for field in score_fields(structure.parts(nowhere)))
    if specimen.kind not in ("Cut", "Boxes"):
        assert np.all(np.asarray(structure.score(nowhere)) == 0)


def test_what_is_wrong_is_named(backend):
    model = backend.SequenceModel(2, 2)
    names = {"b": backend, "np": np, "z": np.zeros, "PATH": [[0, 1], [1, 2]], "runs": Runs([1.0])}
    names |= {"NAN": np.full((1, 2), np.nan), "INF": np.full((1, 2, 2), np.inf)}
    names["LOSS"] = backend.BoxScores(np.zeros((4, 4)), np.array(1.0), np.array([1, 0, 3, 2]))
    names["log"] = backend.LogLoss(model, model.pack([np.eye(2)], [[0, 1]]))
    for dtype in (np.int64, np.uint64):
        odd, fit = np.array([[0, 2**53 + 1], [1, 0]], dtype), np.array([[0, 2**60], [1, 0]], dtype)
        check_refusals("wrong_structures.txt", {**names, "odd": odd})
        for entry, _ in entries("wrong_structures.txt"):
            if "odd" in entry:  # multiples of large enough powers of two are floats
                eval(entry, {**names, "odd": fit})


@pytest.mark.parametrize("name", SMALL)
def test_wrong_numbers_are_named(backend, name):
    """Of outputs and draws, and the temperature; what has an expectation can be drawn."""
    specimen, make = SMALL[name]
    structure = specimen.make(backend, make(np.zeros))
    for k in (0, -1, True, 2.0, "2", None):
        error = ValueError if isinstance(k, int) else TypeError
        with pytest.raises(error, match=f"k: expected an integer >= 1, got {k!r}"):
            structure.topk(k)
    if "expectation" not in specimen.promises:
        with pytest.raises(backend.UnsupportedError, match=rf"{specimen.kind} does not implement sample\(\)"):
            structure.sample(1)
        return
    for mu in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="mu: expected"):
            structure.expectation(mu)
    for arguments, error, message in (
        ((0,), ValueError, "size: expected an integer >= 1, got 0"),
        ((1, 0.0), ValueError, "mu"),
        ((1, 1.0, "a"), TypeError, "rng: expected an integer"),
    ):
        with pytest.raises(error, match=message):
            structure.sample(*arguments)
