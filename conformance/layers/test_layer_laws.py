"""The laws of structures on the layers, in the namespaces ``torch-autograd`` and ``jax-jit``; those of minibatches.

What a layer does not offer is left out by the name of the function: ``ABSENT`` of :mod:`conformance.layers.structures`.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import plugin
from conformance.layers.minibatches import CASES, Minibatch, drawn
from conformance.layers.structures import ABSENT, FUNCTIONS, KINDS, OPTIONS, backend, evaluate, offered
from conformance.namespaces import Space
from conformance.specimens.outputs import log_sum_exp, projected
from conformance.specimens.structures import STRUCTURES, StructureSpecimen
from conformance.structures import test_laws as laws
from conformance.tolerances import RELATIVE, close
from reference.smoothings import SquaredL2, TopK

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, about itself

# The laws, and the functions that each needs.
LAWS = {
    laws.test_outputs_scores_and_parts_are_those_of_the_enumeration: ("score",),
    laws.test_the_best_output_is_the_best_of_all: ("best", "score"),
    laws.test_the_k_best_outputs_have_the_k_largest_scores: ("topk",),
    laws.test_max_marginals_are_the_best_scores_with_each_part: ("max_marginals",),
    laws.test_the_expectation_is_the_sum_over_all_outputs: ("log_partition", "marginals"),
    laws.test_a_batch_is_its_members: ("topk", "max_marginals", "log_partition", "marginals"),
}
LABELLED = ("score", "crf_loss", "hinge_loss", "smooth_hinge_loss", "sparsemap_loss")
VALUES = (*LABELLED, "best", "log_partition", "entropy", "kl", "smooth_max")  # functions of a value for each row
DRAWN = {"seed": st.integers(0, 2**32 - 1), "scale": st.sampled_from([1.0, 1e-3, 30.0]), "forbidden": st.booleans()}


def spaces() -> list[Space]:
    """Those of this run, and beside those of PyTorch what other devices run; one of these, if there is a GPU."""
    found = plugin.spaces_of_layers()
    own = [space for space in found if space.name == "torch-autograd"]
    found += [space._replace(name="torch-elsewhere") for space in own]
    if own:
        import torch

        if torch.cuda.is_available():
            found += [
                space._replace(name="torch-cuda", send=lambda x: torch.asarray(x, device="cuda")) for space in own
            ]
    return found


def taken(space: Space, specimen: StructureSpecimen) -> StructureSpecimen:
    """A specimen of instances that a layer takes: all labels at each node; in JAX one table of transitions."""

    def draw(**options: Any) -> Any:
        drawn = specimen.draw(**options)
        if space.name == "jax-jit" and specimen.kind == "Chain":
            return drawn.filter(lambda instance: instance.pairwise.ndim == 2)
        return drawn.map(lambda instance: instance._replace(counts=None)) if specimen.kind == "Tree" else drawn

    return dataclasses.replace(specimen, draw=draw, functions=())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Laws, or cases and functions, for each namespace whose layers offer them."""
    asked = metafunc.fixturenames
    found: dict[str, tuple[Any, ...]] = {}
    for space in spaces():
        for specimen in STRUCTURES if "law" in asked and space.name != "torch-cuda" else ():
            there = offered(space.name, specimen.kind) if specimen.kind in KINDS[space.name] else []
            for law, needs in LAWS.items():
                if set(needs) <= set(there) and (len(needs) < 4 or "batches" in specimen.promises):
                    found[f"{space}-{specimen}-{law.__name__}"] = space, taken(space, specimen), law
        for case, (kind, options) in CASES.items() if "case" in asked else ():
            if kind in KINDS[space.name] and not (space.name == "jax-jit" and "tables" in options):
                there = [(name,) for name in offered(space.name, kind) if name in VALUES]
                for more in there if "function" in asked else [()]:
                    if (space.name, *more) != ("jax-jit", "best"):  # labels alone
                        found["-".join([str(space), case, *more])] = space, case, *more
    names = [name for name in ("layer", "specimen", "law", "case", "function") if name in asked]
    if "layer" in names:
        metafunc.parametrize(names, list(found.values()), ids=list(found))


@given(data=st.data())
def test_laws_of_structures(layer, specimen, law, data):
    given = {"backend": backend(layer.name), "space": layer, "specimen": specimen, "data": data}
    jit = layer.name == "jax-jit"  # which compiles for each
    given["k"] = data.draw(st.sampled_from([2, 27]) if jit else laws.KS)
    given["mu"] = data.draw(st.sampled_from([0.7] if jit else [0.1, 1.0, 7.0]))
    test = law.hypothesis.inner_test
    test(**{name: given[name] for name in inspect.signature(test).parameters})


@pytest.mark.beyond("other libraries")
@pytest.mark.parametrize(("namespace", "kind"), [(name, kind) for name, kinds in KINDS.items() for kind in kinds])
def test_functions_are_there_or_listed_as_absent(namespace, kind):
    pytest.importorskip(namespace.partition("-")[0])
    assert set(FUNCTIONS) - set(offered(namespace, kind)) <= set(ABSENT.get((namespace, kind), ()))


# minibatches ----------------------------------------------------------------------------------------------------------


def ask(layer: Space, batch: Minibatch, name: str, others: Any = None, **options: Any) -> Any:
    """A function of a minibatch, or of a row alone. The other scores of kl are half of ``others``."""
    more = [layer.integers(batch.labels)] if name in LABELLED else []
    more += [layer.put(0.5 * x) for x in (others or batch.fields)[:2]] if name == "kl" else []
    where = {key: layer.send(x) if isinstance(x, np.ndarray) else x for key, x in batch.where.items()}
    fields = [layer.put(x) for x in batch.fields]
    found = evaluate(layer.name, batch.kind, name, fields, *more, **where, **options, **OPTIONS.get(name, {}))
    return (layer.get(found[0]), list(map(layer.get, found[1]))) if options.get("slopes") else found


def definition(row: Minibatch, name: str) -> float:
    """The value of a row, from the list of its outputs."""
    outputs, scores, parts = row.listing()
    rows = np.concatenate([x.reshape(len(outputs), -1) for x in parts.values()], axis=1).astype(np.float64)
    gold = outputs.index(tuple(row.labels.tolist()))
    wrong = [sum(i not in (-1, j) for i, j in zip(y, outputs[gold], strict=True)) for y in outputs]
    costly = scores + 0.3 * np.array(wrong)
    (z, p), table = log_sum_exp(scores, 1.0), reference.Table
    others = row.listing(0.5).scores
    apart = scores - z - others + log_sum_exp(others, 1.0)[0]
    return {
        "score": lambda: scores[gold],
        "crf_loss": lambda: z - scores[gold],
        "hinge_loss": lambda: np.max(costly) - scores[gold],
        "smooth_hinge_loss": lambda: table(costly).smooth_max(SquaredL2(), 0.5)[0] - scores[gold],
        "best": lambda: scores.max(),
        "log_partition": lambda: log_sum_exp(scores, 0.7)[0],
        "entropy": lambda: float(p @ (z - scores)),
        "kl": lambda: float(p @ apart),
        "smooth_max": lambda: table(scores).smooth_max(TopK(3), 0.5)[0],
        "sparsemap_loss": lambda: projected(rows, scores, 0.5) + 0.25 * rows[gold].sum() - scores[gold],
    }[name]()


def near(layer: Space, batch: Minibatch, found: Any, expected: Any) -> None:
    """Equality up to the rounding of the scores."""
    size = sum(np.abs(x[np.isfinite(x)]).sum() for x in batch.fields)
    slack = 64 * np.finfo(layer.dtype).eps * size / RELATIVE[layer.dtype]
    close(found, expected, layer.dtype, max(1.0, slack))


@given(**DRAWN)
def test_minibatches_are_their_rows(layer, case, function, seed, scale, forbidden):
    """The value of a row is its definition, whatever lies off the mask; the gradient is that of each row alone times
    its weight, 0 elsewhere, and that of central differences.
    """
    batch, rng, h = drawn(case, seed, scale, forbidden, layer.dtype), np.random.default_rng(seed), 1e-5 * min(scale, 1)
    g = rng.normal(size=len(batch.kept))
    value, gradient = ask(layer, batch, function, slopes=True, weights=layer.put(g))
    expected = [np.zeros(x.shape) for x in batch.fields]
    for b, places in enumerate(batch.places):
        row = batch.row(b)
        near(layer, batch, value[b], definition(row, function))
        alone, slopes = ask(layer, row, function, slopes=True)
        near(layer, batch, value[b], alone)
        for total, place, slope in zip(expected, places, slopes, strict=True):
            total[place] += g[b] * slope
    for found, total in zip(gradient, expected, strict=True):
        near(layer, batch, found, total)
    if layer.dtype == "float64":
        along = [np.where(np.isfinite(x), rng.normal(size=x.shape), 0.0) for x in batch.fields]
        ends = [
            batch._replace(fields=[x + step * v for x, v in zip(batch.fields, along, strict=True)]) for step in (h, -h)
        ]
        up, down = (ask(layer, end, function, others=batch.fields, slopes=True)[0] for end in ends)
        slope = sum(np.sum(x * v) for x, v in zip(gradient, along, strict=True))
        np.testing.assert_allclose(slope, g @ (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


@given(**DRAWN)
def test_best_outputs_of_minibatches_are_those_of_their_rows(layer, case, seed, scale, forbidden):
    batch = drawn(case, seed, scale, forbidden, layer.dtype)
    for name in {"best", "topk"} & set(offered(layer.name, batch.kind)):
        found = ask(layer, batch, name)
        labels = np.array(layer.get(getattr(found, "labels", found))).reshape(
            len(batch.kept), -1, batch.labels.shape[1]
        )
        for b, at in enumerate(batch.kept):
            outputs, scores, _ = batch.row(b).listing()
            ys = [outputs.index(tuple(batch.alone(b, y).tolist())) for y in labels[b][: len(outputs)]]
            assert len(set(ys)) == len(ys)
            near(layer, batch, scores[ys], np.sort(scores)[::-1][: len(ys)])
            labels[b][: len(ys), at] = -1
        assert np.all(labels == -1)  # off the mask, and beyond the number of outputs


@given(**DRAWN)
def test_parts_of_minibatches_are_those_of_their_rows(layer, case, seed, scale, forbidden):
    batch = drawn(case, seed, scale, forbidden, layer.dtype)
    for name in {"marginals", "max_marginals", "sparsemap"} & set(offered(layer.name, batch.kind)):
        found, *alone = (_fields(layer, ask(layer, each, name)) for each in (batch, *map(batch.row, range(4))))
        for k, x in enumerate(found):
            expected = np.full(x.shape, -np.inf if name == "max_marginals" else 0.0)
            for b, at in enumerate(batch.kept):
                if x.ndim == 2:  # transitions that chains share
                    expected += alone[b][k]
                elif batch.places[b][k] is not ...:
                    expected[batch.places[b][k]] = alone[b][k]
                else:
                    expected[b if batch.kind == "Tree" else (b, at[1:] - 1)] = alone[b][k]
            near(layer, batch, x, expected)


def _fields(layer: Space, answer: Any) -> list[np.ndarray]:
    return [np.array(layer.get(x)) for x in (answer if isinstance(answer, tuple) else (answer,))]


def test_labels_that_are_none_are_refused(layer, case):
    """By a ValueError that names the argument; under ``jit`` the value of the row, and no other, is nan."""
    batch = drawn(case, 0, 1.0, False, layer.dtype)
    b, at = next(
        (b, np.arange(batch.labels.shape[1])[at]) for b, at in enumerate(batch.kept) if batch.row(b).labels.size
    )
    size = at[-1] + 2 if batch.kind == "Arborescence" else batch.fields[0].shape[-1]
    for name, label in [(name, label) for name in LABELLED for label in (-(2**40), -2, size, 10**9)]:
        if name not in offered(layer.name, batch.kind):
            continue
        labels = np.array(batch.labels)
        labels[b, at[-1]] = label
        if layer.name == "jax-jit":
            value = layer.get(ask(layer, batch._replace(labels=labels), name))
            sound = layer.get(ask(layer, batch, name))
            assert np.isnan(value[b]) and np.array_equal(np.delete(value, b), np.delete(sound, b))
            continue
        with pytest.raises(ValueError, match=rf"^(labels|heads|columns): expected .*\.\..*, got .*{label}"):
            ask(layer, batch._replace(labels=labels), name)


def test_draws_have_the_probabilities_of_their_outputs(layer, case):
    """Within five standard deviations."""
    batch, size = drawn(case, 1, 1.0, True, layer.dtype), 3000
    if "sample" not in offered(layer.name, batch.kind) or layer.name == "jax-jit":
        return
    torch = pytest.importorskip("torch")
    found = ask(layer, batch, "sample", size=size, mu=0.7, generator=torch.Generator(layer.device).manual_seed(0))
    for b, ys in enumerate(layer.get(found)):
        outputs, scores, _ = batch.row(b).listing()
        p = log_sum_exp(scores, 0.7)[1]
        drawn_ys = [outputs.index(tuple(batch.alone(b, y).tolist())) for y in ys]
        seen = np.bincount(drawn_ys, minlength=len(p))
        assert np.all(np.abs(seen - size * p) <= 5 * np.sqrt(size * p * (1 - p)) + 3)
