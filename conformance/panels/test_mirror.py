"""Training the fast panel never calls what it replaced, nor falls back to a loop where kernels take the problem."""

from __future__ import annotations

import sys
from types import FunctionType

import numpy as np
import pytest

import accelerated
import reference
from accelerated.counterparts import TABLE
from accelerated.problems import MAKERS, has_edges, problem_of
from accelerated.structures.cut import by_networkx
from conformance import degenerate
from conformance.panels.test_names import names
from conformance.panels.test_names import pairs as twins
from conformance.specimens.learners import loss_of
from conformance.specimens.models import MODELS
from conformance.specimens.structures import SMALL
from reference.optimizers.bcfw import BCFW
from reference.optimizers.online_proximal import OnlineProximal
from reference.optimizers.sgd import SGD
from reference.optimizers.svrg import SVRG
from reference.training.counterparts import counterpart
from reference.training.smoothness import Backtracking


def arm(monkeypatch):
    """Let every function of reference that accelerated has its own version of raise, wherever it is bound; return the
    names."""
    replaced, armed = set(), set()
    for ours, theirs in twins():
        for name in names(theirs):
            function = getattr(theirs, name)
            if isinstance(function, FunctionType) and getattr(ours, name) is not function:
                replaced.add(function)

    def raiser(where):
        def spy(*_, **__):
            raise AssertionError(f"accelerated called {where}")

        return spy

    for module in [module for place, module in sys.modules.items() if place.split(".")[0] == "reference"]:
        for attribute, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value in replaced:
                monkeypatch.setattr(module, attribute, raiser(f"{module.__name__}.{attribute}"))
                armed.add(attribute)
    return armed


def exercise(panel, name):
    """Every learner that takes a model of the catalogue, and predictions. Trees of sentences have kernels for penalties
    on groups of templates alone."""
    model, data = MODELS[name].training(n=3).packed(panel)
    arcs = isinstance(model, panel.ParsingModel)
    for learner, run in degenerate.learners(panel, model, data):
        if arcs and learner.startswith("online_proximal"):
            continue
        try:
            w = run().x
        except (TypeError, ValueError):  # not for such a model
            continue
        model.predict(data, None, w)
    if arcs and model.blocks:
        phi = panel.SquaredL21(0.1, model.groups)
        for objective in (panel.StructuralHinge(model, data), panel.LogLoss(model, data)):
            panel.online_proximal(objective, phi, step_size=0.1, epochs=2, rng=0)


def exercise_structures(panel):
    """Every question of every structure."""
    for specimen, make in SMALL.values():
        space = specimen.make(panel, make(np.ones))
        _, y = space.best()
        space.score(y)
        if space.variables is not None:
            space.node_max_marginals()
        questions = {"topk": [2], "expectation": [0.5], "sample": [2], "count": [], "max_marginals": []}
        for question, given in questions.items():
            if space.supports(question):
                getattr(space, question)(*given)
    panel.Boxes(np.eye(3), 1.0, [0, 0, 1, 1]).among([[0, 0, 2, 2]]).best()


def exercise_oracles(panel):
    """Best outputs by another library, all else by the panel."""
    model, edges = panel.SegmentationModel(1, 1, oracle=by_networkx), panel.grid_edges(1, 2)
    data = model.pack([(np.ones((2, 1)), edges, np.ones((1, 1)))], [[1, 0]])
    w = panel.bcfw(panel.StructuralHinge(model, data), lam=0.1, epochs=2, rng=0).x
    panel.sgd(panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(2)), lam=0.1, mu=0.5, epochs=1, rng=0)
    model.predict(data, None, w)


def exercise_kernels(panel):
    """Rounds by the kernel and by the loop, averages, prediction."""
    X, Y = [np.eye(3)[[0, 1, 2]], np.eye(3)[[2, 1]]], [[0, 1, 0], [0, 1]]
    kernels = [panel.kernels.Gaussian(1.0), panel.kernels.Explicit(), panel.kernels.B1Spline(1.0)]
    model = panel.KernelSequenceModel(kernels, 2)
    for storage in ("dense", "blocks"):
        data = model.pack(X, Y, storage=storage)
        for loss in ("hinge", "crf"):
            run = panel.mkl(model, data, lam=0.1, step_size=0.5, loss=loss, average="uniform", epochs=1, rng=0)
        model.predict(run.x, X)


def exercise_screening(panel):
    """Sparse CRFs over classes and chains, with arrays that shrink."""
    for name in ("classes", "sequences"):
        objective = panel.LogLoss(*MODELS[name].training().packed(panel))
        for alpha in (1.0, 0.0):
            panel.sparse_path(objective, alpha=alpha, count=3)


OTHERS = (exercise_structures, exercise_oracles, exercise_kernels, exercise_screening)


def watch(monkeypatch, table=TABLE):
    """Let a counterpart that falls back, though kernels take its problem, raise: it would be slow in silence."""
    rows = [(known, known.__mro__[1]) for row in table.values() for known in row]
    for box in {box for _, box in rows}:
        mine = {known for known, of in rows if of is box}
        for name in {"epoch", "sweep", "one_pass"} & {name for known in mine for name in vars(known)}:
            monkeypatch.setattr(box, name, fallen(getattr(box, name), mine))


def fallen(original, known):
    def spy(box, asked, *rest):
        objective = getattr(asked, "objective", asked)
        mu = getattr(asked, "mu", None) if objective is not asked else getattr(box, "mu", None)
        packed = type(getattr(objective, "model", None)) in MAKERS and problem_of(objective, objective._mu(mu or None))
        if type(box) in known and packed:
            raise AssertionError(f"accelerated fell back to {original.__qualname__}")
        return original(box, asked, *rest)

    return spy


def test_the_spy_sees_a_counterpart_that_falls_back(monkeypatch):
    class Slip(SGD):
        def sweep(self, objective, state, order):
            return super().sweep(objective, state, order)

    model = accelerated.SequenceModel(3, 2)
    loss = accelerated.LogLoss(model, model.pack([np.ones((2, 3))], [[0, 1]]))
    watch(monkeypatch, {(accelerated.LogLoss, accelerated.SequenceModel): (Slip,)})
    box, rng = Slip(0.1, reference.steps.Constant(0.1)), np.random.default_rng(0)
    with pytest.raises(AssertionError, match="accelerated fell back to SGD.sweep"):
        box.epoch(loss, box.init(loss, loss.zeros()), rng)


FIRST = ["classes"]
others = [pytest.param(name, marks=pytest.mark.beyond("compiles")) for name in MODELS if name not in FIRST]


@pytest.mark.parametrize("name", [*FIRST, *others, None])
def test_the_fast_panel_never_calls_what_it_replaced(monkeypatch, name):
    armed = arm(monkeypatch)
    watch(monkeypatch)
    assert {"max_product", "sum_product", "top_k_max_product", "max_marginals"} <= armed
    assert {"viterbi", "forward_backward", "top_k_viterbi", "assignment", "gather_sum", "scatter_sum"} <= armed
    assert {"minimum_cut", "node_max_marginals", "best_boxes", "listed_scores"} <= armed
    assert {"maximum_arborescence", "top_k_arborescences", "tree_partition"} <= armed
    for training in OTHERS if name is None else ():
        training(accelerated)
    if name is not None:
        exercise(accelerated, name)


def test_the_spy_would_see_a_slip(monkeypatch):
    """The reference itself, and an accelerated model with one seam left unset, must trip it."""
    arm(monkeypatch)
    for training in OTHERS:
        with pytest.raises(AssertionError, match=r"accelerated called reference\."):
            training(reference)
    for name in MODELS:
        with pytest.raises(AssertionError, match=r"accelerated called reference\."):
            exercise(reference, name)

    class Slip(accelerated.SequenceModel):
        structure_type = reference.Chain

    model = Slip(3, 2)
    data = model.pack([np.ones((2, 3))], [[0, 1]])
    with pytest.raises(AssertionError, match="accelerated called reference.structures.chain"):
        accelerated.LogLoss(model, data).value_and_gradient(np.zeros(model.size))


def objectives(panel):
    """Every loss of every model, and trivial subclasses of either, of which nothing is known."""
    for name in MODELS:
        model, data = MODELS[name].training(n=3).packed(panel)
        own = type(model)
        for kind in (own, type("Mine", (own,), {})):
            model.__class__ = kind
            for loss in ("hinge", "top-k", "entropy", "l2", "log loss") if MODELS[name].sums else ("hinge", "top-k"):
                yield (objective := loss_of(panel, loss, model, data))
                objective.__class__ = type("Mine", (type(objective),), {})
                yield objective


def test_a_subclass_gets_the_loop_not_the_kernel():
    """A counterpart for the models of the table and no others, of block-coordinate Frank-Wolfe for hinges alone; and
    packed examples, of which kernels make losses, for the models of the panel."""
    steps = reference.steps.Constant(0.1)
    boxes = SGD(0.1, steps), SVRG(), Backtracking(), BCFW(0.1), OnlineProximal(reference.L1(0.1), steps)
    for objective in objectives(accelerated):
        known = {found.__mro__[1] for found in TABLE.get((type(objective), type(objective.model)), ())}
        assert type(objective.model).__name__ != "Mine" or problem_of(objective, 1.0) is None
        for box in boxes:
            fits = objective.loss_augmented or type(box) is not BCFW
            fits = fits and not (has_edges(objective) and type(box) is OnlineProximal)
            assert (counterpart(box, objective) is not box) == (type(box) in known and fits)
    assert all(counterpart(box, objective) is box for box in boxes for objective in objectives(reference))
