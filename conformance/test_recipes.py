"""The recipes of CONTRIBUTING.md run, and the page quotes them as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from conformance.laws import check_structure
from conformance.recipes.structure import LogLoss, Subset, train

HERE = Path(__file__).parent
PAGE = HERE.parent / "CONTRIBUTING.md"


@given(scores=st.lists(st.floats(-3, 3), min_size=0, max_size=4))
def test_the_structure_recipe_obeys_the_laws(scores):
    check_structure(Subset(np.array(scores)))


@pytest.mark.parametrize("loss", [None, LogLoss])
def test_the_structure_recipe_learns(loss, rng):
    truth = rng.normal(size=(3, 4))
    X = rng.normal(size=(60, 4))
    Y = (X @ truth.T > 0).astype(int)
    model, w = train(X, Y) if loss is None else train(X, Y, loss)
    guess = np.array(model.predict(model.pack(list(X)), None, w))
    assert np.mean(guess == Y) > 0.9


@given(data=st.data())
def test_our_structures_obey_the_same_laws(backend, data):
    chain = backend.Chain(*data.draw(strategies.chains(batched=False)))
    if chain.count():
        check_structure(chain)
    values = data.draw(strategies.tables().filter(lambda v: v.ndim == 1 and v.max() > -np.inf))
    check_structure(backend.Table(values))


def test_the_backend_recipe_passes_what_it_touches():
    tests = [f"{HERE / 'test_chain.py'}", f"{HERE / 'test_models.py'}", f"{HERE / 'test_agreement.py'}"]
    command = [
        sys.executable,
        "-m",
        "conformance",
        "--backend",
        "conformance.recipes.backend",
        "-k",
        "(test_chain or predict or chain_functions) and not hundred and not torch and not strict",
    ]
    done = subprocess.run([*command, *tests], capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["structure", "backend"])
def test_the_page_quotes_the_recipe(name):
    """In a checkout: the page's code is the file's. (An installed suite has no page, and nothing to compare.)"""
    if PAGE.exists():
        assert (HERE / "recipes" / f"{name}.py").read_text(encoding="utf-8").strip() in PAGE.read_text(encoding="utf-8")
