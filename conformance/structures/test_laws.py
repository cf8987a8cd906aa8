"""The laws of structures, each once: over every structure, backend and namespace, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import laws
from conformance.specimens.structures import STRUCTURES, stored

KS = st.one_of(st.integers(1, 6), st.sampled_from([24, 26, 27, 28, 81, 125, 243, 250]))  # numbers of outputs among them
everywhere = pytest.mark.parametrize("specimen", STRUCTURES, ids=repr)
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


@everywhere
@given(data=st.data(), k=KS)
def test_the_k_best_outputs_have_the_k_largest_scores(backend, space, specimen, data, k):
    structure, outputs = single(data, specimen, backend, space)
    laws.check_top_k(structure, outputs, k)


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


WRONG = {f"{each.name} {i}": wrong for each in STRUCTURES for i, wrong in enumerate(each.wrong)}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_named(backend, wrong):
    with pytest.raises(wrong.error, match=wrong.message):
        wrong.ask(backend)
