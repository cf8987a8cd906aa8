"""The panels are mirrors: same names, same signatures; and training one never calls what it replaced in the other."""

from __future__ import annotations

import sys
from types import FunctionType

import numpy as np
import pytest

import accelerated
import reference
from accelerated.counterparts import TABLE
from accelerated.problems import MAKERS, problem_of
from accelerated.structures.cut import by_networkx
from conformance.panels.test_mirrored_names import names
from conformance.panels.test_mirrored_names import pairs as twins
from conformance.specimens.structures import SMALL
from reference.optimizers.bcfw import BCFW
from reference.optimizers.online_proximal import OnlineProximal
from reference.optimizers.sgd import SGD
from reference.optimizers.svrg import SVRG
from reference.training.counterparts import counterpart
from reference.training.smoothness import Backtracking


def replaced():
    """Every function of reference that accelerated has a version of its own of."""
    found = {}
    for ours, theirs in twins():
        for name in names(theirs):
            if isinstance(getattr(theirs, name), FunctionType) and getattr(ours, name) is not getattr(theirs, name):
                found[getattr(theirs, name)] = name
    return found


def bindings():
    """Every (module of reference, attribute) that is bound to a replaced function, however it was imported."""
    functions = replaced()
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] == "reference":
            for attribute, value in list(vars(module).items()):
                if isinstance(value, FunctionType) and value in functions:
                    yield module, attribute


def arm(monkeypatch):
    """Replace every binding by a function that raises; return the names replaced."""

    def raiser(where):
        def spy(*_, **__):
            raise AssertionError(f"accelerated called {where}")

        return spy

    found = list(bindings())
    for module, attribute in found:
        monkeypatch.setattr(module, attribute, raiser(f"{module.__name__}.{attribute}"))
    return {attribute for _, attribute in found}


def learners(panel):
    """One objective for each loss, smoothing and model, over a few sequences."""
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(n, 3)) for n in (2, 0, 4)], [rng.integers(0, 2, n) for n in (2, 0, 4)]

    class Mine(panel.SequenceModel):
        """A trivial subclass: no kernel of ours may be used for it."""

    for kind in (panel.SequenceModel, Mine):
        model = kind(3, 2)
        data = model.pack(X, Y)
        yield panel.LogLoss(model, data), None
        yield panel.StructuralHinge(model, data), None
        yield panel.StructuralHinge(model, data, smoothing=panel.smoothings.Entropy()), 0.5
        yield panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(2)), 0.5
    model = panel.ListModel(lambda x: np.eye(3) * x, panel.Table, size=3)
    yield panel.LogLoss(model, model.pack([1.0, 2.0], [0, 2])), None
    model = panel.MulticlassModel(3, 2)
    data = model.pack(np.concatenate(X), np.concatenate(Y))
    yield panel.LogLoss(model, data), None
    yield panel.StructuralHinge(model, data), None
    model = panel.TreeModel(3, 2)
    data = model.pack([(x, np.arange(len(x)) // 2 - 1) for x in X], Y)
    yield panel.LogLoss(model, data), None
    yield panel.StructuralHinge(model, data), None
    yield panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(2)), 0.5
    model = panel.AlignmentModel(2, null=True)
    data = model.pack([rng.normal(size=(2, 3, 2)), rng.normal(size=(3, 1, 2))], [[2, -1], [-1, 0, -1]])
    yield panel.StructuralHinge(model, data), None
    yield panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(3)), 0.5


def exercise(panel):
    for objective, mu in learners(panel):
        w = panel.sgd(objective, lam=0.1, mu=mu, epochs=1, rng=0).x
        panel.lbfgs(objective, w, lam=0.1, mu=mu, iterations=2)
        if mu or objective.mu:
            panel.svrg(objective, w, lam=0.1, mu=mu, epochs=1, rng=0)
            for inner in ("svrg", "saga"):
                panel.casimir(objective, w, lam=0.1, epochs=1, rng=0, inner=inner)
        objective.model.predict(objective.data, None, w)
        if isinstance(objective.smoothing, panel.smoothings.Max):
            panel.bcfw(objective, lam=0.1, epochs=2, rng=0)
            panel.cutting_planes(objective, lam=0.1, epochs=2)
            if objective.model.structure_type.supports("sample"):
                for sampler in ("topk", "gibbs"):
                    panel.multisample(objective, lam=0.1, k=3, sampler=sampler, epochs=2, rng=0)


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


def exercise_segmentation(panel):
    """Weights that must be >= 0."""
    rng, edges = np.random.default_rng(0), panel.grid_edges(2, 3)
    model = panel.SegmentationModel(2, 1)
    data = model.pack([(rng.normal(size=(6, 2)), edges, np.ones((7, 1))) for _ in range(3)], rng.integers(0, 2, (3, 6)))
    hinge = panel.StructuralHinge(model, data)
    panel.bcfw(hinge, lam=0.1, epochs=2, rng=0)
    panel.sgd(hinge, lam=0.1, epochs=1, rng=0)
    smooth = panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(2))
    w = panel.sgd(smooth, lam=0.1, mu=0.5, epochs=1, rng=0).x
    model.predict(data, None, w)


def exercise_oracles(panel):
    """Best outputs by another library, all else by the panel."""
    model, edges = panel.SegmentationModel(1, 1, oracle=by_networkx), panel.grid_edges(1, 2)
    data = model.pack([(np.ones((2, 1)), edges, np.ones((1, 1)))], [[1, 0]])
    w = panel.bcfw(panel.StructuralHinge(model, data), lam=0.1, epochs=2, rng=0).x
    panel.sgd(panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(2)), lam=0.1, mu=0.5, epochs=1, rng=0)
    model.predict(data, None, w)


def exercise_localization(panel):
    """All boxes and listed ones, by search; candidates."""
    panel.Boxes(np.eye(3), 1.0, [0, 0, 1, 1]).among([[0, 0, 2, 2]]).best()
    model = panel.SubwindowModel(2)
    data = model.pack([np.array([[0, 1], [1, -1]])], [[0, 0, 1, 1]])
    w = panel.bcfw(panel.StructuralHinge(model, data), lam=0.1, epochs=2, rng=0).x
    model.predict(data, None, w)
    model = panel.CandidateModel(2)
    data = model.pack([([[0, 0, 1, 1], [0, 1, 2, 3]], np.eye(2, dtype=np.float32))], [[0, 0, 1, 1]])
    w = panel.casimir(
        panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(2)), lam=0.1, epochs=1, rng=0
    ).x
    model.predict(data, None, w)


def exercise_parsing(panel):
    """Trees of sentences."""
    model = panel.ParsingModel([("h.tag", "m.tag"), ("b.tag", "distance")], bits=5)
    data = model.pack([{"tag": list("DNVDN")}, {"tag": []}, {"tag": ["N", "V"]}], [[2, 3, 0, 5, 3], [], [2, 0]])
    for objective in (panel.StructuralHinge(model, data), panel.LogLoss(model, data)):
        w = panel.sgd(objective, lam=0.1, epochs=2, rng=0).x
        panel.lbfgs(objective, w, lam=0.1, iterations=2)
        model.predict(data, None, w)
    panel.bcfw(panel.StructuralHinge(model, data), lam=0.1, epochs=2, rng=0)
    model = panel.ParsingModel(model.templates, bits=4, blocks=True)
    phi = panel.SquaredL21(0.1, model.groups)
    for objective in (panel.StructuralHinge(model, data), panel.LogLoss(model, data)):
        panel.online_proximal(objective, phi, step_size=0.1, epochs=2, rng=0)


def exercise_tagging(panel):
    """Weights of observed pairs, and forbidden transitions."""
    X, Y = [{"word": list("abca")}, {"word": []}, {"word": ["b"]}], [["B-X", "I-X", "O", "O"], [], ["B-X"]]
    for pairs in ("observed", "all"):
        model = panel.TaggingModel.of(X, Y, ["bias", "word[-1..0]"], pairs=pairs, transitions="bio")
        data = model.pack(X, Y)
        for objective in (panel.StructuralHinge(model, data), panel.LogLoss(model, data)):
            w = panel.sgd(objective, lam=0.1, epochs=2, rng=0).x
            panel.lbfgs(objective, w, lam=0.1, iterations=2)
        panel.svrg(objective, w, lam=0.1, epochs=1, rng=0)
        model.predict(data, None, w)


def exercise_kernels(panel):
    """Rounds by the kernel and by the loop, averages, prediction."""
    X, Y = [np.eye(3)[[0, 1, 2]], np.eye(3)[[2, 1]]], [[0, 1, 0], [0, 1]]
    model = panel.KernelSequenceModel(
        [panel.kernels.Gaussian(1.0), panel.kernels.Explicit(), panel.kernels.B1Spline(1.0)], 2
    )
    for storage in ("dense", "blocks"):
        data = model.pack(X, Y, storage=storage)
        for loss in ("hinge", "crf"):
            run = panel.mkl(model, data, lam=0.1, step_size=0.5, loss=loss, average="uniform", epochs=1, rng=0)
        model.predict(run.x, X)


def exercise_screening(panel):
    """Sparse CRFs over classes and chains, with arrays that shrink."""
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(n, 3)) for n in (2, 0, 4)], [rng.integers(0, 2, n) for n in (2, 0, 4)]
    words, classes = panel.SequenceModel(3, 2), panel.MulticlassModel(3, 2)
    data = words.pack(X, Y), classes.pack(np.concatenate(X), np.concatenate(Y))
    for model, packed in zip((words, classes), data, strict=True):
        objective = panel.LogLoss(model, packed)
        for alpha in (1.0, 0.0):
            panel.sparse_path(objective, alpha=alpha, count=3)
    rule = panel.UnionRule(panel.L2GapRule(), panel.HalfSpaceRule(rng=0))
    panel.solve_sparse(objective, beta=0.5 * panel.beta_max(objective), rule=rule)


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
        packed = type(objective.model) in MAKERS and problem_of(objective, objective._mu(mu or None))
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


def test_the_fast_panel_never_calls_what_it_replaced(monkeypatch):
    armed = arm(monkeypatch)
    watch(monkeypatch)
    assert {"max_product", "sum_product", "top_k_max_product", "max_marginals"} <= armed
    assert {"viterbi", "forward_backward", "top_k_viterbi", "assignment", "gather_sum", "scatter_sum"} <= armed
    assert {"minimum_cut", "node_max_marginals"} <= armed
    assert {"best_boxes", "listed_scores"} <= armed
    assert {"maximum_arborescence", "top_k_arborescences", "tree_partition"} <= armed
    exercise(accelerated)
    exercise_segmentation(accelerated)
    exercise_oracles(accelerated)
    exercise_localization(accelerated)
    exercise_structures(accelerated)
    exercise_parsing(accelerated)
    exercise_tagging(accelerated)
    exercise_kernels(accelerated)
    exercise_screening(accelerated)


def test_the_spy_would_see_a_slip(monkeypatch):
    """The reference itself, and an accelerated model with one seam left unset, must trip it."""
    arm(monkeypatch)
    learned = (exercise_structures, exercise_parsing, exercise_tagging, exercise_kernels, exercise_screening)
    for trained in (exercise, exercise_segmentation, exercise_oracles, exercise_localization, *learned):
        with pytest.raises(AssertionError, match=r"accelerated called reference\."):
            trained(reference)

    class Slip(accelerated.SequenceModel):
        structure_type = reference.Chain

    model = Slip(3, 2)
    data = model.pack([np.ones((2, 3))], [[0, 1]])
    with pytest.raises(AssertionError, match="accelerated called reference.structures.chain"):
        accelerated.LogLoss(model, data).value_and_gradient(np.zeros(model.size))


def test_a_subclass_gets_the_loop_not_the_kernel():
    """A counterpart for the models of the table and no others, of block-coordinate Frank-Wolfe for hinges alone."""
    steps = reference.steps.Constant(0.1)
    for box in (SGD(0.1, steps), SVRG(), Backtracking(), BCFW(0.1), OnlineProximal(reference.L1(0.1), steps)):
        for objective, _ in learners(accelerated):
            known = {found.__mro__[1] for found in TABLE.get((type(objective), type(objective.model)), ())}
            fits = objective.loss_augmented or type(box) is not BCFW
            assert (counterpart(box, objective) is not box) == (type(box) in known and fits)
        assert all(counterpart(box, objective) is box for objective, _ in learners(reference))
    assert "Mine" in {type(objective.model).__name__ for objective, _ in learners(accelerated)}


def test_a_subclass_of_an_objective_is_heard(rng):
    """A ten times larger loss takes ten times larger steps; the kernel would not know."""

    class Louder(accelerated.LogLoss):
        def value_and_gradient(self, w, batch=None, mu=None):
            value, g = super().value_and_gradient(w, batch, mu)
            return 10 * value, 10 * g

    model = accelerated.SequenceModel(3, 2)
    data = model.pack([rng.normal(size=(3, 3)) for _ in range(4)], [[0, 1, 0]] * 4)
    loud, plain = Louder(model, data), accelerated.LogLoss(model, data)
    assert type(counterpart(SGD(0.1, reference.steps.Constant(0.1)), loud)) is SGD
    a = accelerated.sgd(loud, lam=0.0, step_size=0.01, epochs=2, rng=0).x
    b = accelerated.sgd(plain, lam=0.0, step_size=0.1, epochs=2, rng=0).x
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_results_have_the_same_bits_on_any_number_of_threads():
    from accelerated.threads import get_num_threads, set_num_threads

    words = reference.load_letters().take(np.arange(800))
    model = accelerated.SequenceModel(128, words.labels)
    objective = accelerated.LogLoss(model, model.pack(words.X, words.Y))
    w = 0.1 * np.random.default_rng(0).normal(size=model.size)
    chain = accelerated.Chain(*model.scores(objective.data, np.arange(800), w))
    seen = []
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            assert get_num_threads() == threads
            value, g = objective.value_and_gradient(w)
            seen.append(
                (
                    value,
                    *g,
                    *chain.expectation()[0],
                    *chain.marginals().pairwise.ravel(),
                    *np.concatenate(model.predict(objective.data, None, w)),
                )
            )
    finally:
        set_num_threads(None)
    assert seen[0] == seen[1]


def test_a_subclass_with_its_own_task_loss_is_heard(rng):
    """The kernel would ignore it: objective and training must use the override."""

    class NoLoss(accelerated.SequenceModel):
        def task_loss(self, data, batch):
            loss = super().task_loss(data, batch)
            return loss._replace(unary=0.0 * loss.unary)

    X, Y = [rng.normal(size=(3, 2))], [[0, 1, 1]]
    model = NoLoss(2, 2)
    value, _ = accelerated.StructuralHinge(model, model.pack(X, Y)).value_and_gradient(np.zeros(model.size))
    assert value == 0.0


@pytest.mark.beyond("starts processes")
def test_import_reference_is_light():
    import subprocess

    code = (
        "import sys, reference; print([m for m in ('numba', 'networkx', 'scipy', 'matplotlib', 'tqdm') if m in "
        "sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
