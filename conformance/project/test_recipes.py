"""The recipes of CONTRIBUTING.md run, and pages link to all recipes."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
from conformance import modules, strategies
from conformance.laws import check_regularizer, check_structure
from conformance.recipes import decisions, kernel, smooth_hinges, structure_with_kernel
from conformance.recipes.optimizer import Momentum, momentum
from conformance.recipes.regularizer import NonNegative
from conformance.recipes.structure import LogLoss, Subset, train
from conformance.recipes.structure_with_kernel import Combination, CombinationScores, CompiledCombination
from conformance.specimens import regularizers
from conformance.specimens.models import MODELS, classes
from conformance.tolerances import close
from reference import InfeasibleError, ListModel, StructuralHinge
from reference.prox.base import Regularizer
from reference.training.counterparts import counterpart

POINTS = st.integers(0, 4).flatmap(regularizers.points)
PAGE = modules.HERE.parent / "CONTRIBUTING.md"


@given(scores=POINTS)
def test_the_structure_recipe_obeys_the_laws(scores):
    check_structure(Subset(np.append(scores, 0.5)))


@pytest.mark.parametrize(
    ("oracle", "wrong", "message"),
    [("best", lambda s: (1.0, (0, 0)), r"^Subset.best: the value is the largest score: "),
     ("parts", lambda s, y: np.zeros(3), r"^Subset.parts: different outputs have different parts: two outputs"),
     ("expectation", lambda s, mu: (mu * np.log(4), np.ones(3)), r"^Subset.expectation\(0.1\): the marginals are ")],
)  # fmt: skip
def test_a_broken_structure_is_named_by_law_and_oracle(monkeypatch, oracle, wrong, message):
    monkeypatch.setattr(Subset, oracle, wrong)
    with pytest.raises(AssertionError, match=message):
        check_structure(Subset(np.zeros(3)))


def test_oracles_are_held_against_an_empty_list_of_outputs(monkeypatch):
    """A structure whose list is empty by mistake fails; one without outputs says so in each oracle."""

    def none(self, mu=1.0):
        called.append(self)
        raise InfeasibleError("every output is forbidden")

    called = []
    monkeypatch.setattr(Subset, "enumerate", lambda self: iter(()))
    for oracle in ("best", "expectation"):
        with pytest.raises(AssertionError, match=rf"^Subset.{oracle}: InfeasibleError, .* lists no output: got \("):
            check_structure(Subset(np.zeros(3)))
        monkeypatch.setattr(Subset, oracle, none)
    called.clear()
    check_structure(Subset(np.zeros(3)))
    assert len(called) == 2


def test_a_task_loss_of_another_shape_says_so():
    model = ListModel(lambda x: np.eye(6), Subset, lambda x, y: np.zeros((2, 3)), size=6)
    hinge = StructuralHinge(model, model.pack([0], [(0,) * 5]))
    with pytest.raises(ValueError, match=r"expected shape \(6,\), .* got \(2, 3\), which has as many numbers; flatten"):
        hinge.value(np.zeros(6))


@pytest.mark.parametrize("loss", [None, LogLoss])
def test_the_structure_recipe_learns(loss, rng):
    truth = rng.normal(size=(3, 4))
    X = rng.normal(size=(60, 4))
    Y = (X @ truth.T > 0).astype(int)
    model, w = train(X, Y) if loss is None else train(X, Y, loss)
    guess = np.array(model.predict(model.pack(list(X)), None, w))
    assert np.mean(guess == Y) > 0.9
    costs = model.task_loss(model.pack([X[0]], [tuple(Y[0])]), np.array([0]))
    for y in itertools.product((0, 1), repeat=3):  # Hamming's
        assert costs @ Subset(np.zeros(4)).parts(y) == np.sum(np.array(y) != Y[0])


@st.composite
def combinations(draw):
    """Scores of few labels, ties and -inf among them, and how many are chosen: none and all too."""
    values = draw(strategies.arrays((draw(st.integers(0, 5)),)))
    return values, draw(st.integers(0, len(values)))


@given(instance=combinations(), mu=st.sampled_from([0.1, 1.0, 7.0]))
def test_the_structure_with_kernels_obeys_the_laws_and_both_panels_agree(instance, mu):
    """Its functions, also where nothing is allowed."""
    ours, theirs = CompiledCombination(*instance), Combination(*instance)
    check_structure(ours)
    check_structure(theirs)
    value, marginals = ours.ops.sum_over_combinations(ours.scores, mu)
    expected, moments = theirs.ops.sum_over_combinations(theirs.scores, mu)
    close(value, expected)
    close(marginals.values, moments.values)


def test_the_structure_with_kernels_computes_where_its_scores_are(space, rng):
    values = rng.normal(size=5)
    here = Combination(values, 2)
    for kind in (Combination, CompiledCombination) if space.name == "numpy" else (Combination,):
        put = kind(space.put(values), 2)
        close(space.get(put.expectation()[1].values), here.expectation()[1].values, space.dtype)
        for a, b in zip(put.best(), here.best(), strict=True):
            close(space.get(a), b, space.dtype)


def test_the_compiled_structure_never_calls_what_it_replaced(monkeypatch, rng):
    """Its answers, and learners of its oracles, without the reference's function that has a kernel."""
    for place in (structure_with_kernel, Combination.ops):
        monkeypatch.delattr(place, "sum_over_combinations")
    model = accelerated.ListModel(
        part_features=lambda x: np.kron(np.eye(3), x),
        structure_type=CompiledCombination,
        task_loss=lambda x, y: 1.0 - np.array(y),
        size=9,
        shape=lambda x, values: CombinationScores(values, 2),
    )
    data = model.pack(list(rng.normal(size=(30, 3))), [(0, 1, 1), (1, 1, 0)] * 15)
    for loss in (accelerated.StructuralHinge, accelerated.LogLoss):
        assert accelerated.sgd(loss(model, data), lam=0.1, epochs=2, rng=0).success
    with pytest.raises(AttributeError, match="sum_over_combinations"):
        Combination(np.zeros(3), 1).log_partition()


@given(x=POINTS)
def test_the_regularizer_recipe_obeys_the_laws(x):
    check_regularizer(NonNegative(), x)


def test_the_laws_of_regularizers_can_fail_and_what_is_not_defined_is_named():
    class Halves(NonNegative):
        _value = Regularizer._value

        def _prox(self, point, step_size):
            return super()._prox(point, step_size) / 2

    with pytest.raises(TypeError, match="Halves must define _value"):
        Halves().value(np.zeros(2))
    Halves._value = NonNegative._value
    with pytest.raises(AssertionError):
        check_regularizer(Halves(), np.array([1.0, -2.0]))


def test_the_optimizer_recipe_learns(rng):
    """Near the optimum that L-BFGS finds; and options, rows, checkpoints are those of every run."""
    objective = accelerated.LogLoss(*classes(rng.normal(size=(40, 3)), rng.integers(0, 2, 40), 2).packed(accelerated))
    best = accelerated.lbfgs(objective, lam=0.1).fun
    found = momentum(objective, lam=0.1, step_size=0.002, epochs=40, rng=0)
    assert found.success and len(found.history) == 40 and best <= found.fun < best + 1e-3
    assert found.oracle_calls == 40 * 40
    with pytest.raises(ValueError, match="step_size"):
        momentum(objective, lam=0.1, step_size=-1.0)


@pytest.mark.parametrize("name", ["sequences", "classes"])
def test_the_kernel_recipe_is_the_loop(name):
    objective = accelerated.LogLoss(*MODELS[name].training().packed(accelerated))
    assert type(counterpart(Momentum(0.1, 0.01), objective)) is kernel.Momentum
    assert kernel.difference(objective) < 1e-12


@pytest.mark.beyond("starts processes")
def test_the_backend_recipe_passes_what_it_touches():
    tests = [str(modules.module_path(name)) for name in ("test_laws", "test_chain", "test_models", "test_agreement")]
    chosen = ["--namespace", "numpy", "-k", "(test_chain or Chain or predict)"]
    command = [sys.executable, "-m", "conformance", "--backend", "conformance.recipes.backend", *chosen]
    done = subprocess.run([*command, *tests], capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not PAGE.exists(), reason="an installed suite has no page")
def test_pages_link_to_every_recipe():
    names = [path.name for path in (modules.HERE / "recipes").glob("[a-z]*.py")]
    pages = [PAGE, PAGE.parent / "docs" / "layers.md", PAGE.parent / "docs" / "decisions.md"]
    text = "".join(page.read_text("utf-8") for page in pages)
    assert len(names) == 10 and all(f"conformance/recipes/{each})" in text for each in names)


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("decision", decisions.SHAPES)
def test_decisions_that_are_learned_lose_less_than_two_stage_ones(decision):
    """Where the prediction cannot be right everywhere: every method, on the seed of the page."""
    lost = decisions.compare(decision, n=60, tests=60, epochs=5, seed=1)
    assert all(0 <= share < lost["two-stage"] for name, share in lost.items() if name != "two-stage")


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("draw", [smooth_hinges.matchings, smooth_hinges.chains])
def test_smoothed_hinges_end_as_close_to_the_least_as_they_promise(draw):
    """Where L-BFGS is done; nothing is below the least."""
    chosen = {name: smooth_hinges.SMOOTHINGS[name] for name in ("SparseMAP", "l2")}
    rows = smooth_hinges.compare(
        draw, 0.1, chosen, n=6, F=3, **{"p": 3} if draw is smooth_hinges.matchings else {"T": 4}
    )
    assert len(rows) == 4 and all(above > -1e-9 for above, _, _ in rows.values())
    assert all(rows["L-BFGS", name][0] <= 0.1 + 1e-3 for name in chosen)
