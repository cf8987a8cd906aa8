"""Every option that concerns the result changes the fit or is refused by name, for each loss and optimiser of every
learner and command. The others are listed here; with them the fit is the same, bit for bit.

An option is looked at where the optimiser is called, one place for learners and one for commands, or where the task
makes its model. So each optimiser is tried with one learner and one command, and each learner and task with a few.
"""

from __future__ import annotations

import argparse
import inspect
from ast import literal_eval

import numpy as np
import pytest

import diptych.estimators
import reference
from conformance.application.test_commands import commands
from conformance.specimens.pages import entries
from diptych.commands import localize
from diptych.commands.jobs import OPTIMIZERS as SOLVERS
from diptych.commands.solvers import own
from diptych.estimators.learner import OPTIMIZERS
from diptych.files import load_model
from diptych.files.localization import LocalizationImage, save_localization

pytestmark = pytest.mark.filterwarnings("ignore")  # few iterations are asked for
SLOW = pytest.mark.beyond("all pairs of options and optimisers")
RNG = np.random.default_rng(0)
NAMED = [[{"w": "the", "z": 0.5}, {"w": "duck", "z": 1.5}, {"w": "swims"}], [{"w": "a"}, {"w": "duck", "z": -1.0}]]
NAMED, Y = [*NAMED, [{"w": "the"}, {"w": "swims"}]], [["B-N", "I-N", "O"], ["B-N", "I-N"], ["B-N", "O"]]
ARRAYS, ROWS = [RNG.normal(size=(len(x), 3)) for x in NAMED], (RNG.normal(size=(12, 3)), [*"abcabcabcaba"])
TREES = [{"tag": list("DNV")}, {"tag": list("NVDN")}, {"tag": list("NV")}], [[2, 3, 0], [2, 0, 4, 2], [2, 0]]
ENTROPY = reference.smoothings.Entropy()
TRAINED = {"lam": 0.5, "smoothing": ENTROPY, "random_state": 5}
COST = {"cost": np.array([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0], [1.0, 4.0, 0.0]])}
LABELS = {"transitions": "bio", "pairs": "all", "bits": 6, "least": 2}
SPARSE = {"alpha": 0.3, "tol": 1e3, "iterations": 1}
ONE = SPARSE | {"beta": 0.02, "beta_share": 0.7}
PATH = SPARSE | {"betas": [0.1, 0.02], "count": 2, "ratio": 0.4, "held_out": 0.6, "cv": 2}
KERNELS = {"kernels": "linear", "C": 5.0, "step_size": 0.3, "epochs": 1, "average": "uniform", "single": False}
BALANCED = {"l1": 0.05, "class_weight": "balanced"}
PARSER = {"templates": [("h.tag", "m.tag")], "bits": 6}
LEARNERS = {  # the data, usual parameters, another value of each parameter
    "SequenceLabeler": ((NAMED, Y), {}, TRAINED | LABELS | COST | BALANCED),
    "SequenceLabeler of arrays": ((ARRAYS, Y), {}, TRAINED | LABELS | COST | BALANCED),
    "SequenceLabeler of bits": ((NAMED, Y), {"bits": 7}, TRAINED | LABELS | COST | BALANCED),
    "MulticlassClassifier": (ROWS, {}, TRAINED | COST | {"fit_intercept": False}),
    "DependencyParser": (TREES, PARSER, TRAINED | {"bits": 5, "single_root": True, "templates": [("h.tag",)]}),
    "KernelSequenceLabeler": ((ARRAYS, Y), {"epochs": 2}, KERNELS | {"transitions": "free", "random_state": 5}),
    "SparseCRF": ((NAMED, Y), {}, ONE | LABELS),
    "SparseCRF of arrays": ((ARRAYS, Y), {}, ONE | LABELS),
    "SparseClassifier": (ROWS, {"beta": 0.01}, ONE | {"fit_intercept": False}),
    "SparseCRFPath": ((NAMED, Y), {"betas": [0.05, 0.01]}, PATH | LABELS),
    "SparseClassifierPath": (ROWS, {"betas": [0.05, 0.01]}, PATH | {"fit_intercept": False}),
}
NEUTRAL = {"panel", "rule", "solver"}  # up to rounding, and up to the tolerance of the solution
TRIED = {"loss", "optimizer", "options", "warm_start", "random_state"}  # in every combination, or in a second fit
ROWS_ALONE = {"evaluate_every"}  # it decides which epochs have rows
# what decides nothing on some data as small as these
TINY = {"capacity", "stop", "memory", "single_root", "held_out", "cv", "pairs", "blocks", "dev"}


def flat(w):
    return np.concatenate([np.ravel(x) for x in (*w.coefficients, w.transitions)]) if hasattr(w, "rows") else w


def fitted(name, **parameters):
    """The weights, or the error."""
    data, usual, _ = LEARNERS[name]
    learner = getattr(diptych.estimators, name.partition(" ")[0])(**{"panel": "reference", **usual, **parameters})
    try:
        return flat(learner.fit(*data).weights_)
    except (ValueError, TypeError) as problem:
        return str(problem)


def effect(name, before, after):
    """Whether an option changed the weights, or was refused by name."""
    if isinstance(after, str):
        assert name.lstrip("-") in after or "Pegasos" in after, f"{name}: {after}"
        return True
    return before.shape != after.shape or not np.array_equal(before, after)


TRAINERS = [name for name, (_, _, others) in LEARNERS.items() if "smoothing" in others]
PAIRS = [(name, "lbfgs") for name in TRAINERS]
PAIRS += [pytest.param(TRAINERS[k % len(TRAINERS)], each, marks=SLOW) for k, each in enumerate(OPTIMIZERS)]


@pytest.mark.parametrize(("name", "optimizer"), PAIRS)
@pytest.mark.parametrize("loss", ["crf", "hinge", "softmax-margin"])
def test_parameters_of_learners_change_the_fit(name, loss, optimizer):
    options = {"iterations": 6} if optimizer == "lbfgs" else {"epochs": 20 if optimizer == "cutting_planes" else 3}
    options |= {"step_size": 0.1} if optimizer == "online_proximal" else {}
    usual = {"loss": loss, "optimizer": optimizer, "options": options, "random_state": 0}
    before = fitted(name, **usual)
    if isinstance(before, str) or (optimizer == "lbfgs" and not np.any(before)):  # some need a smooth hinge
        usual |= {"smoothing": ENTROPY, "options": options | {"mu": 0.5}}
        before = fitted(name, **usual)
    if isinstance(before, str):
        assert loss != "hinge", before  # the optimiser is for the hinge
        return
    for parameter, value in LEARNERS[name][2].items():
        same = parameter == "random_state" and optimizer in ("lbfgs", "cutting_planes")
        if parameter != "smoothing" or "smoothing" not in usual:
            changed = effect(parameter, before, fitted(name, **usual | {parameter: value}))
            assert changed != same or parameter in TINY, parameter
    for option, what in own(optimizer.replace("_", "-")).items():
        option, usually = "memory" if option == "corrections" else option, {"tol": 1e9, "mu": 0.7, "batch_size": 2}
        values = what.choices or [not what.default if what.kind is bool else usually.get(option, 1)]
        each = [fitted(name, **usual | {"options": {**usual["options"], option: value}}) for value in values]
        assert any(effect(option, before, w) for w in each) != (option in ROWS_ALONE) or option in TINY, option
    for option in ("lam", "rng"):  # parameters of the learner decide them
        assert option in fitted(name, **usual | {"options": {**usual["options"], option: 7}})


@pytest.mark.parametrize("name", LEARNERS)
def test_parameters_of_other_learners_change_the_fit(name):
    signature = inspect.signature(getattr(diptych.estimators, name.partition(" ")[0]))
    assert {*LEARNERS[name][2], *NEUTRAL, *TRIED} >= {*signature.parameters}
    if name not in TRAINERS:
        before = fitted(name, random_state=0)
        for parameter, value in LEARNERS[name][2].items():
            changed = effect(parameter, before, fitted(name, **{"random_state": 0, parameter: value}))
            assert changed or parameter in TINY, parameter


def test_parameters_that_options_replace_are_not_needed():
    assert not isinstance(fitted("KernelSequenceLabeler", options={"penalty": reference.L1(0.1)}), str)
    l1 = {"optimizer": "online_proximal", "options": {"regularizer": reference.L1(0.1), "step_size": 0.1}}
    assert not isinstance(fitted("MulticlassClassifier", **l1), str)


FIT = {name: literal_eval(value) for name, value in entries("fit_options.txt")}
UNFITTED = {argparse.SUPPRESS, *dict(entries("other_options.txt"))}


def jobs(solvers, *words):
    return [[*words, "--loss", loss, "--optimizer", each] for loss in ("crf", "hinge") for each in solvers]


OF_L1 = [["--l1", 0.02], ["--c1", 0.05, "--path", 2]]
SPARSE_JOBS = [["--learner", "sparse-crf", "--beta-share", 0.3], ["--learner", "sparse-crf", "--path", 3]]
OF_BOXES = [["--model", kind, "--optimizer", each] for kind, all in localize.MODELS.items() for each in all]
JOBS = [  # the command, its data, and the words of its jobs
    ("train", ["random.npz"], [*jobs(SOLVERS), *SPARSE_JOBS, ["--learner", "mkl"]]),
    ("tag train", ["three.txt"], [*jobs(["bcfw", "lbfgs"]), *jobs(["lbfgs"], "--bits", 6), *OF_L1, *SPARSE_JOBS]),
    ("parse train", ["sentences", "--limit", 4], jobs(["bcfw", "online-proximal"], "--bits", 6)),
    ("segment train", ["p.npz"], [[]]),
    ("align train", ["names", "--limit", 5], [[]]),
    ("localize train", ["a.boxes"], OF_BOXES),
]
FEW_BOXES = {"k", "eta", "fixed_eta", "cached_passes", "epochs", "accept"}  # they decide nothing on these images
WITHOUT_DRAWS = {"lbfgs", "cutting-planes", "sparse-crf", "--l1", "--c1"}


def test_every_option_of_a_command_is_of_a_kind():
    known = {*FIT, *UNFITTED, *(name for each in (*SOLVERS, *localize.OPTIMIZERS) for name in own(each))}
    for words, sub in commands().items():
        assert all(not action.option_strings or action.dest in known for action in sub._actions), words


@pytest.mark.parametrize(
    ("command", "data", "job"),
    [
        pytest.param(command, data, job, marks=[] if job[-1:] == ["lbfgs"] and command == "tag train" else SLOW)
        for command, data, several in JOBS
        for job in several
    ],
)
def test_options_of_commands_change_the_fit(tmp_path, monkeypatch, reference_cli, command, data, job):
    monkeypatch.chdir(tmp_path)
    labels, boxes = [0, 1, 2, 0, 1, 0, 1, 2, 0, 2, 1, 1], [[0, 0, 2, 2], [0, 0, 1, 1], [1, 1, 3, 3]]
    rng = np.random.default_rng(3)
    np.savez("random.npz", features=rng.normal(size=(12, 3)), labels=labels, offsets=[0, 3, 5, 8, 10, 12])
    text = "the D B-X\nduck N I-X\nswims V O\n\na D B-X\nduck N I-X\n\nthe D B-X\nswims V O\n"
    (tmp_path / "three.txt").write_text(text)
    np.savez("p.npz", *(np.kron(rng.integers(0, 2, (4, 4)), np.ones((2, 2), int)).astype(np.uint8) for _ in range(2)))
    images = [LocalizationImage(boxes, rng.normal(size=(3, 1, 1, 2)), (4, 4), [0, 0, 2, 2], 0) for _ in range(5)]
    save_localization("a.boxes", images, ["a"])

    def trained(*words):
        """The model's weights, and the length of its settings; or the error."""
        words = [*command.split(), *data, *job, "--epochs", 12 if "--path" in job else 3, *words, "--save", "m.npz"]
        status, _, err = reference_cli.run(*words, *([] if "--json" in words else ["--quiet"]))
        model, w, _ = (None, None, None) if status else load_model("m.npz", reference)
        return err if status else np.append(flat(w), len(str(model.settings())))

    for usual in ([], ["--mu", 0.5], ["--pairs", "all"]):
        if not isinstance(before := trained(*usual), str):
            break
    else:
        assert "needs --loss" in before or "--pairs" in before  # the optimiser is for the hinge
        return
    same = ROWS_ALONE | TINY | NEUTRAL | UNFITTED | (FEW_BOXES if "localize" in command else set())
    same |= {"rng"} if WITHOUT_DRAWS & {*job} else set()
    for action in commands()[command]._actions:
        option = (action.option_strings or [""])[-1]
        if option and option not in job and action.dest not in UNFITTED:
            values = action.choices or [FIT.get(action.dest, 1)]
            each = [trained(*usual, option, *([] if action.nargs == 0 else [value])) for value in values]
            assert any([effect(option, before, w) for w in each]) or action.dest in same, option
    checkpoint = [] if "sparse-crf" in job else ["--checkpoint", "c.npz"]
    assert np.array_equal(before, trained(*usual, "--log", "l.jsonl", *checkpoint, "--json"))
