"""Files that earlier versions wrote are read: docs/releases.md promises it."""

from __future__ import annotations

from dataclasses import astuple, is_dataclass

import numpy as np
import pytest

import accelerated
import reference
from conformance.kept import CHECKPOINTS, FILES, FOLDERS, run
from conformance.readers import READERS
from diptych.files import load_log, load_model

PANELS = [reference, accelerated]


def leaves(x):
    """The arrays, numbers and strings in a value, in order."""
    if isinstance(x, dict):
        x = [list(x), *x.values()]
    elif is_dataclass(x):
        x = astuple(x)
    if isinstance(x, list | tuple):
        return [leaf for each in x for leaf in leaves(each)]
    return [x]


def same(one, other):
    """Whether two values have equal leaves, arrays up to rounding."""
    one, other = leaves(one), leaves(other)
    close = lambda a, b: np.allclose(a, b, rtol=1e-9) if isinstance(a, np.ndarray | float) else a == b  # noqa: E731
    return len(one) == len(other) and all(map(close, one, other))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_before_has_what_this_version_writes(folder, name, tmp_path):
    write, read = READERS[name] if name != "log.jsonl" else (READERS[name][0], load_log)
    write(tmp_path / name)
    for panel in PANELS:
        if name.endswith(" model.npz"):
            model, w, info = load_model(folder / name, panel)
            again, v, about = load_model(tmp_path / name, panel)
            assert same((model.settings(), w, info), (again.settings(), v, about))
        else:
            assert same(read(folder / name), read(tmp_path / name))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.__name__)
@pytest.mark.parametrize("learner", CHECKPOINTS)
def test_a_run_goes_on_from_a_checkpoint_of_before(folder, panel, learner):
    whole = run(panel, learner, 4)()
    resumed = run(panel, learner, 4)(resume=folder / f"{panel.__name__} {learner}.npz")
    assert resumed.nit == whole.nit and same(resumed.x, whole.x)
    assert [row.objective for row in resumed.history] == pytest.approx([row.objective for row in whole.history])
