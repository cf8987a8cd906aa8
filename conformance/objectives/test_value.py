"""The value of an objective without its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.golden.problems import MODELS, Problems
from reference import InfeasibleError, IntractableError, UnsupportedError
from reference.optimizers.base import value_of

LOSSES = {"hinge": None, "entropy": 0.3, "l2": 0.3, "top2": 0.3, "log": None, "my-log": None}
SUMS = ("entropy", "log", "my-log")  # they need expectation; l2 and top2 need topk
LACKING = {"windows": SUMS, "cuts": SUMS, "alignment": SUMS, "subset": ("l2", "top2")}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", MODELS)
def test_the_value_alone_is_that_beside_the_gradient(backend, name, loss):
    """Bit for bit, over all examples and over a batch. Losses whose oracle the structure lacks refuse it."""
    problems = Problems(backend.module)
    if loss in LACKING.get(name, ()):
        with pytest.raises((IntractableError, UnsupportedError), match=r" needs (expectation|topk)\(\)"):
            problems.objective(f"{name}/{loss}")
        return
    objective = problems.objective(f"{name}/{loss}")
    w = problems.start(f"{name}/{loss}")
    for batch in (None, [1, 0, 1]):
        both, _ = objective.value_and_gradient(w, batch, LOSSES[loss])
        assert objective.value(w, batch, LOSSES[loss]) == both
    assert value_of(objective, w, LOSSES[loss]) == objective.value_and_gradient(w, None, LOSSES[loss])[0]


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e3, 1e150])
def test_values_of_all_scales_are_the_same(backend, scale):
    """Where sum-product leaves the scaled domain for the log domain, the value alone does."""
    problems = Problems(backend.module)
    for loss, mu in (("log", None), ("entropy", 1e-3), ("hinge", None)):
        objective = problems.objective(f"chain/{loss}")
        w = scale * problems.start(f"chain/{loss}")
        assert objective.value(w, None, mu) == objective.value_and_gradient(w, None, mu)[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_values_of_weights_that_are_not_finite_are_the_same(backend, wrong):
    problems = Problems(backend.module)
    for loss in ("log", "hinge"):
        objective, w = problems.objective(f"chain/{loss}"), problems.start(f"chain/{loss}")
        w[0] = wrong
        answers = []
        for ask in (objective.value, objective.value_and_gradient):
            try:
                answers.append(np.ravel(np.array(ask(w), dtype=object))[0])
            except (ValueError, InfeasibleError) as error:
                answers.append((type(error), str(error)))
        np.testing.assert_equal(answers[0], answers[1])


def test_arguments_of_a_value_are_checked(backend):
    problems = Problems(backend.module)
    objective = problems.objective("chain/log")
    w = objective.zeros()
    for arguments in ((w[:-1],), (w, []), (w, [9]), (w, None, 0.5)):
        with pytest.raises((ValueError, TypeError)) as expected:
            objective.value_and_gradient(*arguments)
        with pytest.raises(type(expected.value)) as raised:
            objective.value(*arguments)
        assert str(raised.value) == str(expected.value)


def test_a_subclass_with_its_own_loss_is_evaluated_by_it(backend):
    """Twice the log loss, by overriding ``value_and_gradient`` alone: the learners' objective values are its."""

    class Twice(backend.LogLoss):
        def value_and_gradient(self, w, batch=None, mu=None):
            value, gradient = super().value_and_gradient(w, batch, mu)
            return 2.0 * value, 2.0 * gradient

    model, data = Problems(backend.module).model("classes")
    twice = Twice(model, data)
    result = backend.sgd(twice, lam=0.1, epochs=2, rng=0)
    own = 2.0 * backend.LogLoss(model, data).value_and_gradient(result.x)[0]
    assert twice.value(result.x) == own
    assert abs(result.fun - own - 0.05 * float(result.x @ result.x)) < 1e-12 * result.fun
