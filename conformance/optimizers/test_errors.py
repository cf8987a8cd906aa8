"""What is wrong with an argument is said in its own name, by every optimiser and objective."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.optimizers.test_optimizers import Quadratic

OPTIMISERS = {
    "lbfgs": ("w0", "lam", "mu", "iterations", "tol", "memory", "callback"),
    "sgd": ("w0", "lam", "mu", "step_size", "epochs", "batch_size", "rng", "callback"),
    "svrg": ("w0", "lam", "mu", "step_size", "epochs", "tol", "rng", "callback"),
    "casimir": ("w0", "lam", "mu", "kappa", "step_size", "epochs", "tol", "rng", "callback"),
    "bcfw": ("lam", "epochs", "tol", "cached_passes", "capacity", "rng", "callback"),
    "exponentiated_gradient": ("lam", "mu", "step_size", "epochs", "tol", "evaluate_every", "rng", "callback"),
}
EXPECTED = {
    "w0": "real numbers",
    "step_size": "a number",
    "iterations": "an integer >= 0",
    "epochs": "an integer >= 0",
    "cached_passes": "an integer >= 0",
    "batch_size": "an integer >= 1",
    "memory": "an integer >= 1",
    "capacity": "an integer >= 1",
    "evaluate_every": "an integer >= 1",
    "rng": "an integer >= 0, a numpy.random.Generator or None",
    "callback": "a callable",
}
NOT_NONE = ("lam", "evaluate_every", "iterations", "memory", "epochs", "cached_passes", "batch_size", "capacity")


def smoothed(backend, smoothing=None):
    model = backend.SequenceModel(2, 2)
    rng = np.random.default_rng(0)
    data = model.pack([rng.normal(size=(3, 2)) for _ in range(3)], [[0, 1, 0], [1, 1, 0], [0, 0, 1]])
    return backend.StructuralHinge(model, data, smoothing=smoothing or backend.smoothings.Entropy())


def objective_for(backend, optimiser):
    return smoothed(backend, backend.smoothings.Max()) if optimiser == "bcfw" else smoothed(backend)


def options_for(optimiser):
    return {"lam": 0.1, **({"mu": 0.5} if optimiser in ("lbfgs", "sgd", "svrg") else {})}


@pytest.mark.parametrize(
    ("optimiser", "option"), [(name, option) for name, every in OPTIMISERS.items() for option in every]
)
def test_options_of_a_wrong_type_are_named(backend, optimiser, option):
    """A string is no number, no seed and no function; None is no number where there is no default to stand for."""
    for value in ["a", "1", *([None] if option in NOT_NONE else [])]:
        options = {**options_for(optimiser), option: value}
        with pytest.raises(TypeError, match=f"^{option}: expected {EXPECTED.get(option, 'a number')}.*got "):
            getattr(backend, optimiser)(objective_for(backend, optimiser), **options)


@pytest.mark.parametrize("option", ["lam", "tol", "mu", "step_size"])
def test_booleans_and_arrays_are_no_numbers(backend, option):
    for value in (True, np.array([1.0, 2.0]), np.array([1.0])):
        with pytest.raises(TypeError, match=f"^{option}: expected a number, got (bool|ndarray)"):
            backend.svrg(smoothed(backend), **{"lam": 0.1, "mu": 0.5, option: value})


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_seeds_below_zero_and_objectives_that_are_none(backend, optimiser):
    run = getattr(backend, optimiser)
    if "rng" in OPTIMISERS[optimiser]:
        with pytest.raises(ValueError, match="rng: expected an integer >= 0, got -1"):
            run(objective_for(backend, optimiser), **options_for(optimiser), rng=-1)
    with pytest.raises(TypeError, match="^objective: .*list"):
        run([1.0, 2.0], lam=0.1)


class WithoutZeros(Quadratic):
    """A user's finite sum with the two things that the optimisers ask for, and no more."""

    zeros = property()  # no attribute


@pytest.mark.parametrize("optimiser", ["lbfgs", "sgd", "svrg", "casimir"])
def test_a_sum_without_zeros_needs_a_start(backend, rng, optimiser):
    objective, run = WithoutZeros(rng.normal(size=(5, 3))), getattr(backend, optimiser)
    with pytest.raises(ValueError, match=r"w0: give one, the objective has no zeros\(\)"):
        run(objective, lam=0.5)
    assert run(objective, np.zeros(3), lam=0.5).x.shape == (3,)


def test_what_was_not_packed_is_refused(backend, rng):
    X, Y = [rng.normal(size=(2, 3))], [[0, 1]]
    listed = backend.ListModel(lambda x: np.eye(3), backend.Table, size=3)
    for model in (backend.SequenceModel(3, 2), backend.MulticlassModel(3, 2), listed):
        for data in (X, X[0], (X, Y), None):
            expected = f"data: expected what model.pack returned, got {type(data).__name__}"
            for make in (backend.LogLoss, backend.StructuralHinge):
                with pytest.raises(TypeError, match=expected):
                    make(model, data)
            with pytest.raises(TypeError, match=expected):
                model.predict(data, None, np.zeros(model.size))
    other = backend.MulticlassModel(3, 2).pack(X[0], [0, 1])
    with pytest.raises(TypeError, match="data: expected what model.pack returned, got MulticlassData"):
        backend.LogLoss(backend.SequenceModel(3, 2, start_stop=False), other)
    with pytest.raises(TypeError, match="model: expected a model such as SequenceModel, got list"):
        backend.LogLoss(X, Y)
    wider = backend.ListModel(lambda x: np.eye(4), backend.Table, size=4)
    with pytest.raises(ValueError, match="data: packed with 4 features, the model has 3"):
        backend.LogLoss(listed, wider.pack([0], [1]))


def test_an_unsmoothed_hinge_is_told_of_smoothings(backend):
    hinge = smoothed(backend, backend.smoothings.Max())
    for mu in (None, 0.5):
        with pytest.raises(ValueError, match=r"smoothing=Entropy\(\)"):
            backend.svrg(hinge, lam=0.1, mu=mu)
    with pytest.raises(ValueError, match=r"smoothing=Entropy\(\)"):
        backend.casimir(hinge, lam=0.1)


@pytest.mark.parametrize("mu", ["a", True, [1.0]])
def test_mu_is_a_number_everywhere(backend, mu):
    objective, chain = smoothed(backend), backend.Chain(np.zeros((2, 2)), np.zeros((2, 2)))
    log = backend.LogLoss(objective.model, objective.data)
    for ask in (
        lambda: objective.value_and_gradient(objective.zeros(), mu=mu),
        lambda: log.value_and_gradient(log.zeros(), mu=mu),
        lambda: objective.smoothness(mu),
        lambda: chain.log_partition(mu),
        lambda: backend.Table([0.0, 1.0]).marginals(mu),
    ):
        with pytest.raises(TypeError, match="mu: expected a number, got"):
            ask()


def test_frank_wolfe_does_not_pass_over_a_smoothing(backend):
    for smoothing in (backend.smoothings.Entropy(), backend.smoothings.SquaredL2(), backend.smoothings.TopK(2)):
        with pytest.raises(ValueError, match=r"objective: bcfw solves the unsmoothed hinge, .*got smoothing="):
            backend.bcfw(smoothed(backend, smoothing), lam=0.1)


def test_labels_out_of_range_have_no_score(backend, space):
    """One wrong label anywhere is refused; past the end any is allowed, and -1 throughout stands for no labelling."""
    for lengths in (None, space.integers(np.array([3, 1]))):
        pairwise = np.zeros((2, 2) if lengths is None else (2, 3, 2, 2))
        chain = backend.Chain(space.put(np.ones((2, 4, 2))), space.put(pairwise), lengths)
        good = np.array([[0, 1, 1, 0], [1, 0, 0, 1]])
        assert space.get(chain.score(space.integers(good))).tolist() == ([4, 4] if lengths is None else [3, 1])
        for position in np.ndindex(2, 4):
            for label in (-1, -2, 2, 99):
                bad = good.copy()
                bad[position] = label
                padding = lengths is not None and position[1] >= (3, 1)[position[0]]
                nobody = lengths is not None and position == (1, 0) and label == -1  # a chain of one position
                for ask in (chain.score, chain.parts):
                    if padding or nobody:
                        ask(space.integers(bad))
                        continue
                    expected = (
                        rf"y: expected labels in 0..1 at each position of a chain, got {label} at \({position[0]}, "
                    )
                    with pytest.raises(ValueError, match=expected):
                        ask(space.integers(bad))
        with pytest.raises(ValueError, match=r"y: expected labels of shape \(2, 4\), got \(4,\)"):
            chain.parts(space.integers(good[0]))
    table = backend.Table(space.put(np.ones((2, 3))))
    for ask in (table.score, table.parts):
        with pytest.raises(ValueError, match="y: expected outputs in 0..2, got 3"):
            ask(space.integers(np.array([0, 3])))
        with pytest.raises(ValueError, match="y: expected outputs in 0..2, got -2"):
            ask(space.integers(np.array([-2, 0])))
        with pytest.raises(ValueError, match=r"y: expected outputs of shape \(2,\), got \(\)"):
            ask(0)
