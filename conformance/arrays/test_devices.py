"""The suite's choice of namespaces and devices: what runs where, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reference
from conformance.namespaces import spaces

TEST = f"{Path(__file__).parent / 'test_arrays.py'}::test_take_is_indexing"


@pytest.mark.beyond("starts processes")
def test_a_namespace_runs_on_the_device_that_is_named():
    """One that is not there ends the run."""

    def collected(*options):
        command = [sys.executable, "-m", "conformance", "-v", "--collect-only", *options, TEST]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    status, output = collected("--namespace", "array_api_strict", "--device", "device1", "--backend", "reference")
    assert status == 0 and "namespace array_api_strict:device1: run" in output
    tests = [line for line in output.splitlines() if "test_take_is_indexing[" in line]
    assert [test.split("[")[1].rstrip(">") for test in tests] == ["reference-array_api_strict:device1-float64]"]
    status, output = collected("--namespace", "numpy", "--device", "cuda")
    assert status == 4 and "--device cuda: numpy does not compute there: " in output


@pytest.mark.parametrize(
    ("names", "device", "message"),
    [
        (["cupy"], None, "--namespace cupy: expected one of numpy, array_api_strict, torch, jax, "),
        (["torch:cuda"], None, "--namespace torch:cuda: expected one of .*, torch:cpu"),
        ([], "cuda", "--device cuda: expected a --namespace beside it, one of numpy, "),
        (["array_api_strict"], "device9", "--device device9: array_api_strict does not compute there: .*device9"),
        (["numpy", "array_api_strict"], "device1", "--device device1: numpy does not compute there"),
        *(  # not known, or known and without numbers
            ([name], device, f"(--namespace {name}: not installed|--device {device}: {name} does not)")
            for name, device in (("torch", "no-such-device"), ("torch", "meta"), ("jax", "no-such-device"))
        ),
    ],
)
def test_what_cannot_run_is_refused(names, device, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        spaces(names, device)


def test_numbers_come_back_from_every_space():
    """Without names all that are installed; the others are said to be missing. What lies on another device is not taken
    for an answer of the space."""
    found, missing = spaces([])
    names = {space.name for space in found}
    assert {"numpy", "array_api_strict", "array_api_strict:device1"} <= names and not names & set(missing)
    assert names | set(missing) == {"numpy", "array_api_strict", "array_api_strict:device1", "torch:cpu", "jax:cpu"}
    for space in found:
        x = np.array([[0.5, -2.0]], space.dtype)
        assert np.array_equal(space.get(space.put(x)), x) and space.get(space.put(x)).dtype == space.dtype
        (other,) = spaces(["array_api_strict"], "CPU_DEVICE" if space.name.endswith("device1") else "device1")[0]
        with pytest.raises(AssertionError, match="is not"):
            space.get(other.put(np.zeros(2)))


def hinge(backend, put):
    """The subgradient of sequences packed on a device."""
    model = backend.SequenceModel(2, 2)
    data = model.pack([np.eye(2)], [[0, 1]], like=put(0.0))
    return backend.StructuralHinge(model, data).value_and_gradient(model.zeros(data))[1]


SCORES = [[1.0, 0.0], [0.0, 2.0]]
ANSWERS = {  # not cuts nor boxes, which either panel finds on the host, wherever the arrays lie
    "Arborescence": lambda backend, put: backend.Arborescence(put([[0.0, 0.0, 5.0], [2.0, 4.0, 0.0]])).best()[0],
    "Chain": lambda backend, put: backend.Chain(put(SCORES), put(SCORES)).best()[0],
    "Graph": lambda backend, put: backend.Graph(put(SCORES), put([SCORES]), [[0, 1]]).best()[0],
    "Matching": lambda backend, put: backend.Matching(put(SCORES)).best()[0],
    "Tree": lambda backend, put: backend.Tree(put(SCORES), put(SCORES), [-1, 0]).best()[0],
    "L1": lambda backend, put: backend.L1(0.5).prox(put([1.0, -2.0]), 1.0),
    "project_simplex": lambda backend, put: backend.project_simplex(put([1.0, -2.0])),
    "StructuralHinge": hinge,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_other_devices_are_refused_not_copied(backend, name):
    """By what a backend has of its own, where it declares its devices; elsewhere answers lie where the arrays do."""
    (space,) = spaces(["array_api_strict"], "device1")[0]
    if backend.computes_on(space.device) or getattr(backend, name) is getattr(reference, name):
        space.get(ANSWERS[name](backend, space.put))
    else:
        with pytest.raises(TypeError, match=re.escape(space.device)):
            ANSWERS[name](backend, space.put)
