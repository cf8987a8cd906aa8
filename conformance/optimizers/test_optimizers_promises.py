"""What every optimiser owes its caller: rows, callbacks, starts, seeds, counts, plain numbers, and word of an end
that is no success.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re

import numpy as np
import pytest

import reference
from conformance.finite_sums import Counting, Quadratic, random_logistic
from conformance.specimens.learners import LEARNERS, flat, objective_of, parts, run, seeded, short, takes, unit, value
from conformance.tolerances import close
from reference.declared import choices_of
from reference.training.result import judged

DRAWN = [name for name in LEARNERS if "rng" in takes(name)]
WITH_WAYS = [name for name, each in LEARNERS.items() if each.ways]
STARTED = [name for name in LEARNERS if "w0" in takes(name)]
COUNTED = [name for name, each in LEARNERS.items() if each.calls]
PROVING = [name for name, each in LEARNERS.items() if each.proof]


def proving(backend, name, passes, **options):
    """The result of a run that proves a gap."""
    proof = LEARNERS[name].proof
    options = {unit(name): passes, **seeded(name, 4), **proof.options, **options}
    return run(backend, name, objective_of(backend, name, None, proof.loss), **options)


def test_the_table_has_every_optimiser():
    """Whatever calls back; and each that writes checkpoints has runs that are cut in two."""
    for option, names in (("callback", set(LEARNERS)), ("checkpoint", {*WITH_WAYS, "casimir_svrg_adapt"})):
        public = [(name, getattr(reference, name)) for name in reference.__all__]
        public = {name for name, f in public if inspect.isfunction(f) and option in inspect.signature(f).parameters}
        assert public - {"sparse_path"} <= names  # sparse_path: a run of solve_sparse for each point


@pytest.mark.parametrize("name", LEARNERS)
def test_a_callback_sees_each_row_and_its_own_weights(backend, space, name):
    """Those that a run of so many passes returns: their objective is the row's. It keeps them, and a write on NumPy's
    raises in the callback; wherever it writes, the run is one without it.
    """
    numpy, mu = space.name == "numpy", LEARNERS[name].options.get("mu")
    objective = objective_of(backend, name, None if numpy else space.put(0.0))
    for average in choices_of(getattr(reference, name), "average") if "average" in takes(name) else (None,):
        options, seen, kept, refused = {"average": average} if average else {}, [], [], []

        def write(row, w, seen=seen, kept=kept, refused=refused):
            seen.append((row, w, flat(w) if numpy else None))
            arrays = [*parts(w), *((w.squared_norms, w.rows) if hasattr(w, "beta") else ())]
            kept.extend(arrays)
            for x in arrays:
                try:
                    x[...] = np.nan
                except (ValueError, TypeError) as error:
                    refused.append(f"{error.__traceback__.tb_next is None}: {error}")

        plain, watched = (short(backend, name, objective, 4, callback=each, **options) for each in (None, write))
        assert tuple(row for row, *_ in seen) == watched.history and [row.epoch for row, *_ in seen] == [1, 2, 3, 4]
        assert watched.nit == 4 and watched.fun == watched.history[-1].objective
        arrays = [x for x in [*kept, *parts(watched.x)] if isinstance(x, np.ndarray)]
        assert not any(np.shares_memory(x, y) for x, y in itertools.combinations(arrays, 2))
        assert all(x.flags.writeable for x in parts(watched.x) if isinstance(x, np.ndarray))
        assert all(each.startswith("True: ") for each in refused)
        for one, other in zip(parts(watched.x), parts(plain.x), strict=True):
            space.again(space.get(one), space.get(other))
        space.again(*([row.objective for row in result.history] for result in (watched, plain)))
        if numpy:
            assert len(refused) == len(kept) and all("read-only" in each for each in refused)
            for row, w, then in seen:
                close(row.objective, value(name, objective, w, mu))
                assert np.array_equal(flat(w), then)
            assert np.array_equal(seen[-1][2], flat(watched.x))
            with pytest.raises(ValueError, match="read-only"):
                short(backend, name, objective, 3, callback=lambda row, w: parts(w)[0].fill(0.0), **options)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_callback_stops_a_run(backend, name):
    """By True, by NumPy's True, by StopIteration: the run is one of so many passes."""
    objective = objective_of(backend, name)
    expected = short(backend, name, objective, 2)

    def stop(row, w):
        raise StopIteration

    for callback, passes in (
        (lambda row, w: row.epoch == 2, 2),
        (lambda row, w: np.int64(row.epoch) == 2, 2),
        (stop, 1),
    ):
        stopped = short(backend, name, objective, 9, callback=callback)
        assert stopped.nit == len(stopped.history) == passes and stopped.success
        assert stopped.message == f"stopped by the callback after {passes} of 9 {unit(name)}"
        assert passes == 1 or np.array_equal(flat(stopped.x), flat(expected.x))


@pytest.mark.parametrize("name", LEARNERS)
def test_no_passes_are_the_start(backend, name):
    objective = objective_of(backend, name)
    result = short(backend, name, objective, 0)
    assert result.nit == 0 and result.history == () and not np.any(flat(result.x))
    assert result.oracle_calls <= objective.n  # those of a method that begins with a gradient
    close(result.fun, value(name, objective, result.x, LEARNERS[name].options.get("mu")))
    assert not LEARNERS[name].dual or result.fun < result.certificate < (1 + 1e-12) * result.fun


@pytest.mark.parametrize("name", STARTED)
def test_a_start_is_kept(backend, name):
    """It is not written on, a list is one too, no passes return it; one of another shape is refused."""
    objective, mu = objective_of(backend, name), LEARNERS[name].options.get("mu")
    w0 = np.random.default_rng(0).normal(size=objective.model.size)
    before, result = w0.copy(), short(backend, name, objective, 2, w0)
    assert np.array_equal(w0, before) and not np.array_equal(result.x, short(backend, name, objective, 2).x)
    assert np.array_equal(result.x, short(backend, name, objective, 2, w0.tolist()).x)
    nothing = short(backend, name, objective, 0, w0)
    assert np.array_equal(nothing.x, w0) and nothing.history == () and not np.shares_memory(nothing.x, w0)
    close(nothing.fun, value(name, objective, w0, mu))
    whole = np.arange(len(w0)) % 3
    ours, theirs = (short(backend, name, objective, 2, start).x for start in (whole, 1.0 * whole))
    assert np.array_equal(ours, theirs)
    for shape in ((3,), (24, 1)):
        expected = re.escape(f"w0: expected shape (24,), as objective.zeros() has, got {shape}")
        with pytest.raises(ValueError, match=expected):
            short(backend, name, objective, 2, np.zeros(shape))


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_is_a_run(backend, name):
    """The same for a Generator of that seed, another for another seed; none needs none."""
    objective, options = objective_of(backend, name), {"sampler": "gibbs"} if name == "multisample" else {}
    one, two, other, free = (
        short(backend, name, objective, 2, rng=rng, **options) for rng in (5, np.random.default_rng(5), 6, None)
    )
    assert np.array_equal(flat(one.x), flat(two.x)) and one.fun == two.fun and free.nit == 2
    assert not np.array_equal(flat(one.x), flat(other.x))


@pytest.mark.parametrize("name", COUNTED)
def test_calls_are_counted(backend, name):
    objective, (first, each) = objective_of(backend, name), LEARNERS[name].calls
    result = short(backend, name, objective, 3)
    assert [row.oracle_calls for row in result.history] == [objective.n * (first + each * k) for k in (1, 2, 3)]
    assert result.oracle_calls == result.history[-1].oracle_calls
    seconds = [row.seconds for row in result.history]
    assert seconds == sorted(seconds) and seconds[0] > 0


ASKED = (  # gradients of all examples that evaluate: at the start, in each row, in each pass
    ("svrg", {}, (1, 1, 0)),
    ("casimir", {}, (1, 1, 1)),
    ("casimir", {"kappa": 0.1, "step_size": 0.1}, (1, 1, 1)),
    ("casimir", {"stop": "gradient"}, (1, 1, 1)),
    ("casimir", {"inner": "gradient"}, (1, 1, 0)),
    ("lbfgs", {"tol": 0.0}, (0, 0, 0)),
)


@pytest.mark.parametrize(("name", "options", "evaluations"), ASKED, ids=str)
def test_all_that_is_asked_for_is_counted(backend, rng, name, options, evaluations):
    """Searches for a step size, too; not what evaluates, and not the second gradient at a snapshot."""
    counting = Counting(random_logistic(rng))
    result = run(backend, name, counting, np.zeros(4), **{unit(name): 4, **seeded(name), **options})
    passes = np.dot(evaluations, [1, len(result.history), result.history[-1].epoch])
    assert result.oracle_calls == sum(counting.asked) - 30 * passes > 0
    calls = [row.oracle_calls for row in result.history]
    assert calls == sorted(set(calls)) and (name == "lbfgs" or len(calls) > 1)


@pytest.mark.parametrize("name", ["svrg", "casimir", "lbfgs"])
def test_without_strong_convexity_nothing_is_certified(backend, rng, name):
    logistic = random_logistic(rng)
    result = run(backend, name, logistic, np.zeros(4), **{unit(name): 30, **seeded(name), "lam": 0.0})
    assert "lam = 0" in result.certificate and result.fun < logistic.value_and_gradient(np.zeros(4))[0]
    assert result.history[-1].gap is None and result.history[-1].dual is None


@pytest.mark.parametrize("name", PROVING)
def test_nothing_to_learn_ends_well(backend, name):
    """Of one label: losses and gradients are 0 from the start, for as many passes as you like."""
    model = backend.SequenceModel(2, 1)
    data = model.pack([np.ones((n, 2)) for n in (2, 0, 3)], [np.zeros(n, int) for n in (2, 0, 3)])
    learner = LEARNERS[name]
    objective = objective_of(backend, name, None, learner.proof.loss, (model, data))
    for tol in (1e-3, 0.0, *([None] if learner.dual else [])):
        options = {unit(name): 4, **seeded(name), **learner.proof.options, "tol": tol}
        result = run(backend, name, objective, **options)
        assert result.success and result.fun == result.certificate == 0 and not np.any(result.x)
        if learner.dual:
            assert result.nit < 4 if tol is not None else result.nit == 4


@pytest.mark.parametrize("name", [name for name in LEARNERS if "evaluate_every" in takes(name)])
def test_evaluations_may_be_rare(backend, name):
    """The same steps; rows, callbacks and the end at every third pass, and after the last."""
    objective, seen = objective_of(backend, name), []
    often = short(backend, name, objective, 8)
    rare = short(backend, name, objective, 8, evaluate_every=3, callback=lambda row, w: seen.append(row))
    assert tuple(seen) == rare.history and [row.epoch for row in seen] == [3, 6, 8] and rare.nit == 8
    assert np.array_equal(flat(rare.x), flat(often.x)) and rare.oracle_calls == often.oracle_calls
    close([row.objective for row in seen], [often.history[k - 1].objective for k in (3, 6, 8)])
    if name == "mkl":
        assert rare.norms.shape == (8, 4)
    else:
        early = short(backend, name, objective, 200, tol=1e-3, evaluate_every=3)
        assert early.success and early.nit % 3 == 0


@pytest.mark.parametrize("name", [name for name, each in LEARNERS.items() if each.too_long])
def test_steps_too_long_are_said(backend, name):
    result = short(backend, name, objective_of(backend, name), 9, **LEARNERS[name].too_long)
    assert not result.success and "take shorter steps" in result.message


@pytest.mark.parametrize("name", [name for name in STARTED if name not in ("solve_sparse", "prox_linear")])
def test_a_start_that_is_no_number_is_no_success(backend, name):
    objective, options = objective_of(backend, name, None, "log loss"), {unit(name): 2, **seeded(name)}
    options |= {"step_size": 0.1} if name == "online_proximal" else {}
    result = run(backend, name, objective, np.full(24, np.nan), **options)
    assert not result.success and result.nit <= 1 and result.message.startswith("diverged in epoch 1")


@pytest.mark.parametrize("name", [name for name in PROVING if name != "lbfgs"])
def test_a_gap_is_reached_or_said_to_be_missed(backend, name):
    """The callback sees the pass that reaches it; without a tolerance all passes are made."""
    rows = []
    result = proving(backend, name, 200, tol=0.2, callback=lambda row, w: rows.append(row))
    assert result.success and result.certificate <= 0.2 * result.fun and 0 < result.nit < 200
    assert all(row.gap > 0.2 * row.objective for row in rows[:-1])
    assert tuple(rows) == result.history and rows[-1].gap == result.certificate and "callback" not in result.message
    few = proving(backend, name, 1, tol=1e-9)
    assert not few.success and few.nit == 1 and few.certificate > 1e-9 * few.fun
    if LEARNERS[name].dual:
        assert "reached" in result.message
        assert few.message.endswith("after 1 epochs, above 1e-09 times the objective")
        assert not proving(backend, name, 0, tol=1e-9).success
    if name != "solve_sparse":
        free, zero = (proving(backend, name, 3, tol=tol) for tol in (None, 0.0))
        assert free.nit == zero.nit == 3 and np.array_equal(free.x, zero.x)
        assert free.message.startswith("3 epochs done")


@pytest.mark.parametrize("name", [*LEARNERS, "casimir_svrg_adapt", "casimir_svrg_const"])
def test_success_is_a_certificate_of_at_most_one_per_cent(backend, name):
    """After any number of passes, none among them; a run without a number says that it is not certified."""
    learner, ends = LEARNERS.get(name, LEARNERS["casimir"]), set()
    way = learner.proof or learner
    objective = objective_of(backend, name, None, way.loss)
    for passes in (0, 1, 300 if learner.dual or name == "svrg" else 20):
        result = run(backend, name, objective, **{unit(name): passes, **seeded(name, 4), **way.options})
        if isinstance(result.certificate, str):
            assert result.success and result.certificate.replace("none: ", "; not certified: ") in result.message
            continue
        small = result.certificate <= 0.01 * abs(result.fun)
        if name not in ("lbfgs", "solve_sparse"):  # these always have a tolerance
            assert result.success == small
            numbers = f"the certificate {result.certificate:.3g} is more than 1 % of the objective {result.fun:.6g}"
            assert (numbers in result.message) == (not small)
        assert small or not result.success
        ends.add(small)
    assert ends == {True, False} or not (learner.dual or name == "svrg")


def test_what_is_known_decides():
    """A certificate of 0 at an objective of 0; of nan or inf; of a negative objective; a tolerance that was reached."""
    known = {(0.0, 0.0): True, (1e-300, 0.0): False, (np.nan, 1.0): False, (np.inf, 1.0): False, (0.02, -2.0): True}
    for (certificate, fun), success in known.items():
        assert judged("done", certificate, fun, None)[0] is success and judged("done", certificate, fun, 0.5)[0]
        assert judged("done", certificate, fun, 0.5)[1] == "done" != judged("done", "none: lam = 0", fun, 0.5)[1]


class InNumPyScalars(Quadratic):
    """A user's sum whose number of examples and values are scalars of NumPy, of low precision at that."""

    def __init__(self, centres):
        super().__init__(centres)
        self.n = np.int64(self.n)

    def value_and_gradient(self, w, batch=None, mu=None):
        value, gradient = super().value_and_gradient(w, batch, mu)
        return np.float32(value), gradient


@pytest.mark.parametrize("name", LEARNERS)
def test_results_are_of_plain_numbers(backend, rng, name):
    """So that JSON takes them: numbers of whatever type the objective gives, and the objectives of the package."""
    results = [short(backend, name, objective_of(backend, name), 3)]
    if LEARNERS[name].plain:
        options = {"regularizer": backend.L1(0.3), "step_size": 0.1} if name == "online_proximal" else {}
        results.append(run(backend, name, InNumPyScalars(rng.normal(size=(4, 3))), mu=0.5, **options))
    for result in results:
        kinds = {"fun": (float,), "nit": (int,), "success": (bool,), "oracle_calls": (int,)}
        kinds |= {"certificate": (float, str)}
        assert all(type(getattr(result, field)) in kind for field, kind in kinds.items())
        for row in result.history:
            fields = row.as_dict()
            assert all(type(each) in (int, float, type(None)) for each in fields.values())
            assert type(row.epoch) is type(row.oracle_calls) is int and json.loads(json.dumps(fields)) == fields
        assert result.history
