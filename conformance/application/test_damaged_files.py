"""Every reader on damaged copies of valid files: an answer, or a ValueError that names the file; never much memory."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from conformance.damage import damaged
from conformance.readers import READERS

COPIES, MEMORY = 200, 64 << 20


@pytest.mark.beyond("fuzz: thousands of damaged files")
@pytest.mark.filterwarnings("ignore:.*no other integer occurs:UserWarning")  # of labels that are damaged
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused_by_name(tmp_path, name):
    """Bytes turned over, cuts, spans twice; members of zips and values of JSON changed, checksums made to fit."""
    write, read = READERS[name]
    if name.endswith(".png"):
        pytest.importorskip("matplotlib")
    path = tmp_path / name
    write(path)
    read(path)
    whole, refused = path.read_bytes(), 0
    tracemalloc.start()
    try:
        for content in itertools.islice(damaged(whole, np.random.default_rng(len(name))), COPIES):
            path.write_bytes(content)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                read(path)
            except ValueError as problem:
                assert name in str(problem), (content, problem)
                assert "\n" not in str(problem)
                refused += 1
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < MEMORY, (content, used)
    finally:
        tracemalloc.stop()
    assert refused > 0
